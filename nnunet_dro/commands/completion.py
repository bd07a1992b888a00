"""What the shell offers after TAB: names of trainers, columns, and what an evaluation has."""

import re
from pathlib import Path
from typing import Any

_TRAINERS = Path(__file__).parents[1] / "trainers"
_PREFIX = "nnUNetTrainer"


def complete_trainer(incomplete: str) -> list[tuple[str, str]]:
    """Names of trainers; after one and an underscore, the options that may follow, with their help.

    The trainers themselves are not imported, because the shell waits for the answer.
    """
    names = sorted(path.stem for path in _TRAINERS.rglob(f"{_PREFIX}[A-Z]*.py"))
    begun = [name for name in names if incomplete.startswith(f"{name}_")]
    if not begun:
        return [(name, "") for name in names if name.startswith(incomplete)]

    from nnunet_dro.trainers import options

    base = max(begun, key=len)
    kind = getattr(options, f"{base.removeprefix(_PREFIX)}Options", options.TrainerOptions)
    *before, word = incomplete.removeprefix(f"{base}_").split("_")
    if issubclass(kind, options.GroupOptions) and not before:
        return []  # the column, which is not known here

    # Options follow each other in the order in which they are known.
    known_options = kind.known_options()
    n_passed = 0
    for n, option in enumerate(known_options, start=1):
        if any(option.pattern.fullmatch(text) for text in before):
            n_passed = n

    start = "_".join([base, *before])
    offers = []
    for option in known_options[n_passed:]:
        text = _text_of_option(option.form, word)
        if text and text.startswith(word):
            offers.append((f"{start}_{text}", option.help))
    return offers


def _text_of_option(form: str, word: str) -> str:
    """What of an option can be offered before its number is known; empty if nothing.

    The number of ``<n>epochs`` comes first: it is what was typed.
    """
    if not form.startswith("<"):
        return form.partition("<")[0]
    number = re.match(r"\d*", word)[0]  # type: ignore[index]  # matches anything
    return form.replace("<n>", number) if number else ""


def complete_column(ctx: Any, incomplete: str) -> list[str]:
    """Columns of the case table of ``--cases``, or of the dataset of the references.

    After a comma, one more column.
    """
    from nnunet_dro.files.case_table import attributes_of, read_cases
    from nnunet_dro.nnunet.raw_dataset import case_table_of

    path = ctx.params.get("cases")
    reference = ctx.params.get("evaluate") or _first_argument(ctx, "reference")
    try:
        if not path and reference:
            path = case_table_of(Path(reference))
        if not path:
            return []
        columns = attributes_of(read_cases(Path(path)))
    except (OSError, ValueError):
        return []

    before, comma, word = incomplete.rpartition(",")
    return [f"{before}{comma}{column}" for column in columns if column.startswith(word)]


def complete_metric(ctx: Any, incomplete: str) -> list[str]:
    """Metrics of the evaluation that the words before name."""
    return _in_strata(ctx, "metric", incomplete)


def complete_label(ctx: Any, incomplete: str) -> list[str]:
    """Labels of the evaluation that the words before name."""
    return _in_strata(ctx, "label", incomplete)


def complete_attribute(ctx: Any, incomplete: str) -> list[str]:
    """Attributes of the evaluation that the words before name, and columns of the case table."""
    names = [name for name in _in_strata(ctx, "attribute", incomplete) if name != "all"]
    names += complete_column(ctx, incomplete)
    return list(dict.fromkeys(names))


def _in_strata(ctx: Any, column: str, incomplete: str) -> list[str]:
    """The different entries of a column of strata.csv."""
    import csv

    path = Path(_first_argument(ctx, "results") or "") / "strata.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            entries = [row.get(column) for row in csv.DictReader(file)]
    except (OSError, ValueError, csv.Error):
        return []

    names = dict.fromkeys(entry for entry in entries if entry)
    return [name for name in names if name.startswith(incomplete)]


def _first_argument(ctx: Any, name: str) -> Any:
    """The first argument of the command.

    While an option still waits for its value, the parser has only put it aside.
    """
    return ctx.params.get(name) or next(iter(getattr(ctx, "args", ())), None)
