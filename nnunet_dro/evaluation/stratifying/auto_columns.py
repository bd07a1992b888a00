"""Columns ``auto:NAME`` of the case table, with attributes that are computed.

`--by auto:size` and the like name them.
"""

from collections.abc import Callable, Collection, Sequence

import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.stratifying.attributes import (
    ATTRIBUTES,
    CaseFiles,
    case_table_entry,
    measure_cases,
)
from nnunet_dro.evaluation.stratifying.parts import MOST_GROUPS, number_in
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import name_some

#: What the name of a column begins with that is computed.
AUTO = "auto:"


def auto_names(specs: Sequence[str]) -> list[str]:
    """The attributes that are named in some `--by`, each once: ``size`` of ``centre,auto:size``."""
    names = []
    for piece in ",".join(specs).split(","):
        prefix, colon, rest = piece.strip().partition(":")
        if prefix + colon == AUTO:
            name, *_ = rest.split(":")
            names.append(name.strip())

    unknown = [name for name in names if name not in ATTRIBUTES]
    if unknown:
        choices = ", ".join(AUTO + name for name in ATTRIBUTES)
        raise InputError(
            "by",
            must="name a known attribute",
            got=repr(AUTO + unknown[0]),
            cure=f"Choose from: {choices}.",
        )
    return list(dict.fromkeys(names))


def names_columns(specs: Sequence[str]) -> bool:
    """Whether some `--by` names a column of the case table.

    Attributes that are computed and edges of cuts are none.
    """
    for spec in specs:
        for position, piece in enumerate(spec.split(",")):
            # Only what follows a first piece can be an edge.
            is_edge = position > 0 and number_in(piece.strip()) is not None
            if not is_edge and not piece.strip().startswith(AUTO):
                return True
    return False


def with_auto_columns(
    table: pd.DataFrame | None,
    cases: Sequence[str],
    files: Sequence[CaseFiles],
    options: EvaluateOptions,
    progress: Callable[[int, int], None],
) -> tuple[pd.DataFrame | None, list[str], list[str]]:
    """Add a column ``auto:NAME`` for each attribute that some `--by` names.

    Args:
        table: The case table; None without any.
        cases: The evaluated cases.
        files: The files of those with a reference; the attributes of others are missing.
        options: How to evaluate.
        progress: Called with the number of finished cases and the number of all cases.

    Returns:
        The case table, the specs, and notes on the attributes. In the specs an attribute with more
        than `MOST_GROUPS` different values that is not cut is cut into thirds.
    """
    names = auto_names(options.by)
    if not names:
        return table, list(options.by), []

    _check_images(names, options)
    values, notes_on_images = measure_cases(
        files, names, jobs=options.jobs, workers=options.workers, progress=progress
    )
    if table is None:
        table = pd.DataFrame({"case": list(cases)})
    specs = list(options.by)
    notes = []
    for name in names:
        column = AUTO + name
        entries = {case: case_table_entry(measures[name]) for case, measures in values.items()}
        n_groups = _n_groups(name, entries.values())
        table = table.assign(**{column: table["case"].map(entries).fillna(MISSING)})

        note = f"{column} is the {ATTRIBUTES[name].definition}"
        if n_groups > MOST_GROUPS:
            with_thirds = [_with_thirds(spec, column) for spec in specs]
            if with_thirds != specs:
                note += "; it is cut into thirds of the cases, unless --by says otherwise"
            specs = with_thirds
        notes.append(f"{note}.")
    return table, specs, notes + notes_on_images


def _check_images(names: Sequence[str], options: EvaluateOptions) -> None:
    """Check that there are images if an attribute is computed from them."""
    needy = [AUTO + name for name in names if ATTRIBUTES[name].needs_image]
    if needy and options.images is None:
        raise InputError(
            "by",
            must=f"come with images for {name_some(needy)}",
            got="none",
            cure="Add --images FOLDER.",
        )


def _n_groups(name: str, entries: Collection[str]) -> int:
    """How many different entries of an attribute there are, missing ones aside; at least one."""
    n_groups = len(set(entries) - {MISSING})
    if n_groups == 0:
        needed = ATTRIBUTES[name].needs
        raise InputError(
            "by",
            must=f"be computed from {needed}",
            got=f"no case with {AUTO + name!r}",
            cure="Leave it out.",
        )
    return n_groups


def _with_thirds(spec: str, column: str) -> str:
    """A spec with a column cut into three parts of equal size, where it is not cut."""
    pieces = spec.split(",")
    for position, piece in enumerate(pieces):
        if piece.strip() == column:
            pieces[position] = f"{column}:q3"
    return ",".join(pieces)
