"""What a `--by` says: the columns that divide the cases, and how each is cut."""

import itertools
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from nnunet_dro.bad_input import InputError
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.naming import name_some, spelt_like

#: Up to so many different numbers are strata as they are; more are better cut.
MOST_GROUPS = 5

#: A number of quantiles, at least 2.
_QUANTILES = re.compile(r"q0*([2-9]|[1-9]\d{1,3})")


@dataclass(frozen=True)
class Part:
    """One column that divides the cases.

    It is cut at edges (as written) or into quantiles, or divides them by its entries as they are.
    """

    column: str
    edges: tuple[str, ...] = ()
    n_quantiles: int = 0


def parse_by(spec: str, attributes: Sequence[str], *, option: str = "by") -> tuple[Part, ...]:
    """Read a `--by`.

    Args:
        spec: Columns with commas between, whose intersections are the strata. A column may be cut
            at edges (``age:0,18,65``) or into parts of equal size (``volume:q3``). They may differ
            from those of the table in Unicode's form.
        attributes: The columns of the case table that can divide the cases.
        option: What errors call it.

    Returns:
        A part per column.

    Raises:
        ValueError: If there is no such column, it is named twice, or it cannot be cut like that.
    """
    column_of = spelt_like(
        {name: name for name in attributes},
        [spec, *map(str.strip, re.split("[,:]", spec))],
    )
    if spec in column_of:
        return (Part(column_of[spec]),)

    cuts_of_columns: list[tuple[str, list[str]]] = []
    cuts: list[str] = []
    for piece in map(str.strip, spec.split(",")):
        if cuts and number_in(piece) is not None:
            # A further edge of the column before.
            cuts.append(piece)
            continue

        column, _, cut = (text.strip() for text in piece.rpartition(":"))
        if piece in column_of:
            column = piece
            cuts = []
        elif column in column_of:
            cuts = [cut]
        else:
            raise _absent_column(piece, attributes, option=option)
        cuts_of_columns.append((column_of[column], cuts))

    if len(dict(cuts_of_columns)) < len(cuts_of_columns):
        raise InputError(
            option,
            must="name every column once",
            got=repr(spec),
            cure="Cut it in one way at a time.",
        )
    return tuple(_part(column, cuts, option) for column, cuts in cuts_of_columns)


def _part(column: str, cuts: list[str], option: str) -> Part:
    """A column and how it is cut, from what is written behind its name."""
    if not cuts:
        return Part(column)
    if len(cuts) == 1 and _QUANTILES.fullmatch(cuts[0]):
        return Part(column, n_quantiles=int(cuts[0][1:]))

    # All cuts have to be edges, and there have to be two.
    numbers = [number_in(cut) for cut in cuts]
    edges = [number for number in numbers if number is not None]
    is_increasing = all(low < high for low, high in itertools.pairwise(edges))
    if len(edges) < max(2, len(cuts)) or not is_increasing:
        got = f"{column}:{','.join(cuts)}"
        raise InputError(
            option,
            must="cut a column at two or more increasing numbers",
            got=repr(got),
            cure="Write, for example, age:0,18,65 or volume:q3 (three parts of equal size).",
        )
    return Part(column, edges=tuple(cuts))


def column_named(column: str, attributes: Sequence[str], *, option: str = "by") -> str:
    """The column of the case table that an option names.

    It may differ from the name in Unicode's form.
    """
    (spelt,) = spelt_like({column: None}, attributes)
    if spelt in attributes:
        return spelt
    raise _absent_column(column, attributes, option=option)


def _absent_column(column: str, attributes: Sequence[str], *, option: str) -> ValueError:
    """The error of an option that names a column which the case table lacks."""
    return InputError(
        option,
        must="be a column of the case table",
        got=repr(column),
        cure=f"Choose from: {name_some(attributes, at_most=20)}.",
    )


def number_in(text: str) -> float | None:
    """The number that an entry is; None for other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Python reads 1_000 as a number.
    if math.isnan(value) or "_" in text:
        return None
    return value


def has_many_numbers(entries: Collection[str]) -> bool:
    """Whether the entries of a column are numbers, and more different ones than `MOST_GROUPS`."""
    values = {number_in(entry) for entry in entries if entry != MISSING}
    if len(values) <= MOST_GROUPS:
        return False
    return all(value is not None and math.isfinite(value) for value in values)
