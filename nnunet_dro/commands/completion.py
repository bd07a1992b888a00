"""What the shell offers after TAB.

Names of trainers with their options, columns, and what an evaluation has.
"""

import re
from pathlib import Path
from typing import Any

_TRAINERS = Path(__file__).parents[1] / "trainers"
_PREFIX = "nnUNetTrainer"


def complete_trainer(incomplete: str) -> list[tuple[str, str]]:
    """Names of trainers, or after an underscore the options that may follow, with their help, at once."""
    names = sorted(path.stem for path in _TRAINERS.rglob(f"{_PREFIX}[A-Z]*.py"))
    base = next(
        (
            name
            for name in sorted(names, key=len, reverse=True)
            if incomplete.startswith(f"{name}_")
        ),
        None,
    )
    if base is None:
        return [(name, "") for name in names if name.startswith(incomplete)]
    from nnunet_dro.trainers import options

    kind = getattr(options, f"{base.removeprefix(_PREFIX)}Options", options.TrainerOptions)
    *given, word = incomplete[len(base) + 1 :].split("_")
    known = kind.known_options()
    last = max(
        (i for i, option in enumerate(known) for text in given if option.pattern.fullmatch(text)),
        default=-1,
    )
    if issubclass(kind, options.GroupOptions) and not given:
        return []  # the column, which is not known here
    number = re.match(r"\d*", word)[0]  # type: ignore[index]  # matches anything
    start = "_".join([base, *given])
    offered = []
    for option in known[last + 1 :]:
        # The number of `20epochs` comes first: it is what was typed.
        text = (
            option.form.replace("<n>", number)
            if option.form.startswith("<")
            else option.form.partition("<")[0]
        )
        if text.startswith(word) and (number or not option.form.startswith("<")):
            offered.append((f"{start}_{text}", option.help))
    return offered


def complete_column(ctx: Any, incomplete: str) -> list[str]:
    """Columns of the case table of ``--cases``, or of the dataset of the references.

    After a comma, one more column.
    """
    from nnunet_dro.files.case_table import attributes_of, read_cases
    from nnunet_dro.nnunet.raw_dataset import case_table_of

    path = ctx.params.get("cases")
    reference = ctx.params.get("evaluate") or _first_argument(ctx, "reference")
    try:
        path = path or (case_table_of(Path(reference)) if reference else None)
        columns = attributes_of(read_cases(Path(path))) if path else []
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
    found = [name for name in _in_strata(ctx, "attribute", incomplete) if name != "all"]
    return [*found, *(column for column in complete_column(ctx, incomplete) if column not in found)]


def _in_strata(ctx: Any, column: str, incomplete: str) -> list[str]:
    """The different entries of a column of strata.csv."""
    import csv

    path = Path(_first_argument(ctx, "results") or "") / "strata.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            names = dict.fromkeys(row[column] for row in csv.DictReader(file) if row.get(column))
    except (OSError, ValueError, csv.Error, KeyError):
        return []
    return [name for name in names if name.startswith(incomplete)]


def _first_argument(ctx: Any, name: str) -> Any:
    """The first argument; while an option still waits for its value, the parser has only put it aside."""
    return ctx.params.get(name) or next(iter(getattr(ctx, "args", ())), None)
