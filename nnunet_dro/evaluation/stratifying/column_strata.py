"""The strata that a single column divides the cases into: a rank for every case, and names."""

import itertools
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping

import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.stratifying.parts import Part, number_in
from nnunet_dro.files.case_table import MISSING

#: Up to this length an entry is shown as it is written.
_SHORT = 7


def ranked(part: Part, table: pd.DataFrame) -> tuple[list[int], list[str]]:
    """The rank of each case's stratum, and the names by rank, ``missing`` last."""
    entries = table[part.column].tolist()
    if not part.edges and not part.n_quantiles:
        names = [*_in_order(set(entries) - {MISSING}), MISSING]

        rank_of_name = {name: rank for rank, name in enumerate(names)}
        return [rank_of_name[entry] for entry in entries], names

    values = _values_to_cut(part, table["case"].tolist(), entries)
    if part.n_quantiles:
        starts, names = _quantiles(part, entries, values)
    else:
        starts = [float(edge) for edge in part.edges[:-1]]
        names = [f"{low} to {high}" for low, high in itertools.pairwise(part.edges)]

    # A stratum holds the value at its start, and the last one also the value at its end.
    ranks = []
    for value in values:
        if value is None:
            ranks.append(len(names))
        else:
            ranks.append(bisect_right(starts, value) - 1)
    return ranks, [*names, MISSING]


def _values_to_cut(part: Part, cases: list[str], entries: list[str]) -> list[float | None]:
    """The numbers of a column that is cut; None for missing ones."""
    # Quantiles have no edges.
    first, *_, last = part.edges or ("-inf", "inf")

    values: list[float | None] = []
    for case, entry in zip(cases, entries, strict=True):
        if entry == MISSING:
            values.append(None)
            continue

        value = number_in(entry)
        if value is None or math.isinf(value):
            cure = "Correct the entry, or leave it empty."
            if value is None and number_in(entry.replace(",", ".")) is not None:
                cure = "Write numbers with a decimal point."
            raise InputError(
                part.column,
                must="be a finite number to be cut",
                got=f"{entry!r} for {case!r}",
                cure=cure,
                kind="column",
            )

        is_inside = float(first) <= value <= float(last)
        if not is_inside:
            raise InputError(
                part.column,
                must=f"be between the edges {first} and {last}",
                got=f"{entry!r} for {case!r}",
                cure="Widen the edges.",
                kind="column",
            )
        values.append(value)
    return values


def _quantiles(
    part: Part, entries: list[str], values: list[float | None]
) -> tuple[list[float], list[str]]:
    """The least value of each quantile, and the names."""
    known_values = [value for value in values if value is not None]
    counts = Counter(known_values)
    if len(counts) < part.n_quantiles:
        raise InputError(
            part.column,
            must=(
                f"have at least {part.n_quantiles} different numbers to be cut into as many "
                "quantiles"
            ),
            got=len(counts),
            cure="Ask for fewer, or give edges.",
            kind="column",
        )

    entry_of_value = dict(zip(values, entries, strict=True))
    starts = []
    names = []
    for least, largest in _equal_shares(counts, part.n_quantiles):
        low = _shown(entry_of_value[least], least)
        high = _shown(entry_of_value[largest], largest)
        extent = f"{low} to {high}"
        if low == high:
            extent = low

        starts.append(least)
        names.append(f"q{len(starts)}: {extent}")
    return starts, names


def _equal_shares(counts: Mapping[float, int], n_shares: int) -> list[tuple[float, float]]:
    """The least and the largest value in each of some shares of about equal size.

    Each is as close to an equal share of what is left as whole values allow, and leaves at least a
    value for each later one.
    """
    shares = []
    values = sorted(counts)
    position = 0
    n_left = sum(counts.values())
    for n_shares_left in range(n_shares, 0, -1):
        n_wanted = n_left / n_shares_left
        start = position
        n_inside = 0
        while position <= len(values) - n_shares_left:
            n_with_next = n_inside + counts[values[position]]
            is_worse = abs(n_with_next - n_wanted) > abs(n_inside - n_wanted)
            if n_inside > 0 and is_worse:
                break
            n_inside = n_with_next
            position += 1

        n_left -= n_inside
        shares.append((values[start], values[position - 1]))
    return shares


def _shown(entry: str, value: float) -> str:
    """A number in the name of a stratum: as it is written, or rounded if that is long."""
    if len(entry) <= _SHORT:
        return entry
    if 1e5 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.5g}"


def _in_order(names: Collection[str]) -> list[str]:
    """Names sorted by value if all are numbers, and otherwise so that site2 is before site10."""
    values = {name: number_in(name) for name in names}
    if None in values.values():
        return sorted(names, key=_natural_key)

    by_value = sorted((value, name) for name, value in values.items())
    return [name for _, name in by_value]


def _natural_key(name: str) -> tuple[list[int | str], str]:
    """What names are compared by, so that numbers in them count as numbers.

    Text and numbers alternate, beginning with (possibly empty) text, so that like is compared with
    like.
    """
    chunks: list[int | str] = []
    for position, chunk in enumerate(re.split(r"([0-9]{1,18})", name.casefold())):
        is_number = position % 2 == 1
        chunks.append(int(chunk) if is_number else chunk)
    return chunks, name
