"""The strata that the columns of a case table divide the cases into."""

import itertools
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.files.case_table import MISSING, NO_TABLE, attributes_of, check_cases
from nnunet_dro.naming import name_some, repeated

ALL = "all"  # Attribute and stratum where nothing divides the cases.
MOST_GROUPS = 5  # Up to so many different numbers are strata as they are; more are better cut.


def strata(table: pd.DataFrame, column: str) -> "pd.Series[str]":
    """The entry of every case in one column.

    Args:
        table: From `read_cases`.
        column: The column whose entries are the strata.

    Returns:
        Strata as text, indexed by case.

    Raises:
        ValueError: If there is no such column; the message names those there are.
    """
    if column not in attributes_of(table):
        raise _absent(column, attributes_of(table))
    return table.set_index("case")[column]


def entries_of(
    table: pd.DataFrame | None, column: str | None, cases: Collection[str], *, option: str
) -> "pd.Series[str] | None":
    """The entries of a column in which every case must have one, in the order of the cases.

    None without a column.
    """
    if column is None:
        return None
    if table is None:
        raise ValueError(
            f"`{option}` must come with a case table, got {column!r} alone. {NO_TABLE}"
        )
    check_cases(table, cases)
    if column not in attributes_of(table):
        raise _absent(column, attributes_of(table), option=option)
    entries = strata(table, column).loc[list(cases)]
    if without := entries.index[entries == MISSING].tolist():
        rule = f"must have an entry for every case, got none for {name_some(without)}"
        raise ValueError(f"column `{column}` {rule}. Fill in the entries.")
    return entries


def _absent(column: str, attributes: list[str], *, option: str = "by") -> ValueError:
    known = name_some(attributes, at_most=20)
    return ValueError(
        f"`{option}` must be a column of the case table, got {column!r}. Choose from: {known}."
    )


@dataclass(frozen=True)
class Part:
    """One column that divides the cases.

    Cut at edges (as written) or into quantiles, or by its entries as they are.
    """

    column: str
    edges: tuple[str, ...] = ()
    n_quantiles: int = 0


def parse_by(spec: str, columns: Sequence[str]) -> tuple[Part, ...]:
    """Read a `--by`."""
    attributes = [column for column in columns if column != "case"]
    if spec in attributes:
        return (Part(spec),)
    found: list[tuple[str, list[str]]] = []
    for piece in (piece.strip() for piece in spec.split(",")):
        column, _, cut = (text.strip() for text in piece.rpartition(":"))
        if found and found[-1][1] and number_in(piece) is not None:
            found[-1][1].append(piece)
        elif piece in attributes:
            found.append((piece, []))
        elif column in attributes:
            found.append((column, [cut]))
        else:
            raise _absent(piece, attributes)
    if len({column for column, _ in found}) < len(found):
        raise ValueError(
            f"`by` must name every column once, got {spec!r}. Cut it in one way at a time."
        )
    return tuple(_part(column, cuts) for column, cuts in found)


def _part(column: str, cuts: list[str]) -> Part:
    if not cuts:
        return Part(column)
    if len(cuts) == 1 and re.fullmatch(r"q0*([2-9]|[1-9]\d{1,3})", cuts[0]):
        return Part(column, n_quantiles=int(cuts[0][1:]))
    edges = [edge for cut in cuts if (edge := number_in(cut)) is not None]
    if len(edges) < max(2, len(cuts)) or any(
        low >= high for low, high in itertools.pairwise(edges)
    ):
        got = f"{column}:{','.join(cuts)}"
        cure = "Write, for example, age:0,18,65 or volume:q3 (three parts of equal size)."
        raise ValueError(
            f"`by` must cut a column at two or more increasing numbers, got {got!r}. {cure}"
        )
    return Part(column, edges=tuple(cuts))


def number_in(text: str) -> float | None:
    """The number that an entry is; None for other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) or "_" in text else value


def has_many_numbers(entries: Collection[str]) -> bool:
    """Whether the entries of a column are numbers, and more different ones than `MOST_GROUPS`."""
    values = {number_in(entry) for entry in entries if entry != MISSING}
    return len(values) > MOST_GROUPS and all(
        value is not None and math.isfinite(value) for value in values
    )


def stratify(table: pd.DataFrame, spec: str) -> "tuple[str, pd.Series[str]]":
    """The strata of one `--by`.

    Args:
        table: From `read_cases`, with the cases to divide. Quantiles are those of all its rows,
            within an intersection, too.
        spec: As for `parse_by`.

    Returns:
        The attribute (the names of the columns, with commas between), and the stratum of each case:
        ordered categories, indexed by case. Numbers and numbered names are in the order of the
        numbers, ``missing`` is last, intersections (``A,spina_bifida``) are in the order of their
        parts; strata without a case are left out. Of the cut strata, ``0 to 18`` holds 0 and not
        18, and the last one holds both its edges. Quantiles: ``q1: 0.4 to 1.2`` names the least and
        the largest entry in it; equal entries stay together.

    Raises:
        ValueError: If the spec is not usable, an entry to cut is not a finite number or outside the
            edges, a column has fewer different numbers than quantiles, or two intersections would
            have the same name.

    Example:
        >>> table = pd.DataFrame({"case": ["a", "b", "c"], "age": ["5", "40", "65"]})
        >>> attribute, stratum_of_case = stratify(table, "age:0,18,65")
        >>> attribute, stratum_of_case.tolist()
        ('age', ['0 to 18', '18 to 65', '18 to 65'])
    """
    parts = parse_by(spec, [str(column) for column in table.columns])
    ranked = [_ranked(part, table["case"].tolist(), table[part.column].tolist()) for part in parts]
    intersections = list(zip(*(ranks for ranks, _ in ranked), strict=True))
    name_of = {
        ranks: ",".join(names[rank] for rank, (_, names) in zip(ranks, ranked, strict=True))
        for ranks in sorted(set(intersections))
    }
    if twice := repeated(name_of.values()):
        cure = "Replace the commas in the entries of the case table."
        raise ValueError(
            f"`by` must give every stratum a name of its own, got {twice[0]!r} twice for {spec!r}. {cure}"
        )
    strata = pd.Categorical(
        [name_of[ranks] for ranks in intersections], list(name_of.values()), ordered=True
    )
    attribute = ",".join(part.column for part in parts)
    return attribute, pd.Series(strata, index=pd.Index(table["case"], name="case"), name=attribute)


def _ranked(part: Part, cases: list[str], entries: list[str]) -> tuple[list[int], list[str]]:
    """The rank of each case's stratum, and the names by rank, ``missing`` last."""
    if not part.edges and not part.n_quantiles:
        names = _in_order(set(entries) - {MISSING})
        rank_of = {name: rank for rank, name in enumerate([*names, MISSING])}
        return [rank_of[entry] for entry in entries], [*names, MISSING]
    values: list[float | None] = []
    for case, entry in zip(cases, entries, strict=True):
        value = None if entry == MISSING else number_in(entry)
        if entry != MISSING and (value is None or math.isinf(value)):
            cure = "Correct the entry, or leave it empty."
            raise ValueError(
                f"column `{part.column}` must be a finite number to be cut, got {entry!r} for {case!r}. {cure}"
            )
        if (
            value is not None
            and part.edges
            and not float(part.edges[0]) <= value <= float(part.edges[-1])
        ):
            rule = f"between the edges {part.edges[0]} and {part.edges[-1]}"
            raise ValueError(
                f"column `{part.column}` must be {rule}, got {entry!r} for {case!r}. Widen the edges."
            )
        values.append(value)
    if part.n_quantiles:
        starts, names = _quantiles(part, entries, values)
    else:
        starts = [float(edge) for edge in part.edges[:-1]]
        names = [f"{low} to {high}" for low, high in itertools.pairwise(part.edges)]
    return [len(names) if v is None else bisect_right(starts, v) - 1 for v in values], [
        *names,
        MISSING,
    ]


def _quantiles(
    part: Part, entries: list[str], values: list[float | None]
) -> tuple[list[float], list[str]]:
    """The least value of each quantile, and the names."""
    counts = Counter(value for value in values if value is not None)
    distinct = sorted(counts)
    if len(distinct) < part.n_quantiles:
        rule = f"at least {part.n_quantiles} different numbers to be cut into as many quantiles"
        raise ValueError(
            f"column `{part.column}` must have {rule}, got {len(distinct)}. Ask for fewer, or give edges."
        )
    written = dict(zip(values, entries, strict=True))
    starts = []
    names = []
    position = 0
    n_left = sum(counts.values())
    for n_parts in range(part.n_quantiles, 0, -1):
        start = position
        n_inside = 0
        # As close to an equal share of the rest as whole values allow, leaving at least a value for
        # each later part.
        while position <= len(distinct) - n_parts and (
            n_inside == 0
            or abs(n_inside + counts[distinct[position]] - n_left / n_parts)
            <= abs(n_inside - n_left / n_parts)
        ):
            n_inside += counts[distinct[position]]
            position += 1
        n_left -= n_inside
        ends = dict.fromkeys(
            _shown(written[value], value) for value in (distinct[start], distinct[position - 1])
        )
        starts.append(distinct[start])
        names.append(f"q{len(starts)}: {' to '.join(ends)}")
    return starts, names


def _shown(entry: str, value: float) -> str:
    if len(entry) <= 7:
        return entry
    return f"{value:.0f}" if 1e5 <= abs(value) < 1e15 else f"{value:.5g}"


def _in_order(names: Collection[str]) -> list[str]:
    """Sorted by value if all are numbers, and otherwise so that site2 comes before site10."""
    values = {name: number_in(name) for name in names}
    if None not in values.values():
        return sorted(names, key=lambda name: (values[name], name))
    chunks = {name: re.split(r"([0-9]{1,18})", name.casefold()) for name in names}
    # Text and numbers alternate, beginning with (possibly empty) text, so that like is compared
    # with like.
    return sorted(
        names, key=lambda name: ([int(c) if n % 2 else c for n, c in enumerate(chunks[name])], name)
    )


def stratify_all(
    table: pd.DataFrame | None,
    specs: Sequence[str],
    cases: Collection[str],
    *,
    overall: bool = False,
) -> "dict[str, pd.Series[str]]":
    """Attribute to the stratum of each case, as from `stratify`.

    A second cut of a column is named by its spec.
    """
    every_case = pd.Categorical([ALL] * len(cases), categories=[ALL], ordered=True)
    all_cases = {ALL: pd.Series(every_case, index=pd.Index(list(cases), name="case"), name=ALL)}
    if not specs:
        return all_cases
    if table is None:
        raise ValueError(f"`by` must come with a case table, got {specs[0]!r} alone. {NO_TABLE}")
    check_cases(table, cases)
    evaluated = table.set_index("case").loc[list(cases)].reset_index()
    stratum_of_case = {
        attribute: stratify(evaluated, spec)[1].rename(attribute)
        for attribute, (spec, _) in _named(table, specs).items()
    }
    if ALL in stratum_of_case:
        raise ValueError(
            f"`by` must not be a column {ALL!r}, the name of all cases, got {specs!r}. Rename the column."
        )
    return stratum_of_case | all_cases if overall else stratum_of_case


def _named(table: pd.DataFrame, specs: Sequence[str]) -> dict[str, tuple[str, tuple[Part, ...]]]:
    """Attribute to its spec and the parts of that."""
    spec_of: dict[tuple[Part, ...], str] = {}
    for spec in specs:
        spec_of.setdefault(parse_by(spec, [str(column) for column in table.columns]), spec)
    named: dict[str, tuple[str, tuple[Part, ...]]] = {}
    for parts, spec in spec_of.items():
        attribute = ",".join(part.column for part in parts)
        if attribute in named or (attribute != spec and attribute in spec_of.values()):
            attribute = spec
        named[attribute] = spec, parts
    return named


def strata_of_others(
    table: pd.DataFrame, specs: Sequence[str], cases: Collection[str]
) -> dict[str, dict[str, str]]:
    """Attribute to the other cases of a table with their strata.

    Without quantiles, which the divided cases have.
    """
    others = table[~table["case"].isin(list(cases))]
    found: dict[str, dict[str, str]] = {}
    for attribute, (spec, parts) in _named(table, specs).items():
        columns = list(dict.fromkeys(part.column for part in parts))
        if any(part.n_quantiles for part in parts):
            continue
        found[attribute] = {}
        for _, alike in others.groupby(columns):
            if MISSING in alike.iloc[0][columns].tolist():
                continue
            try:
                (stratum,) = stratify(alike.iloc[:1], spec)[1]
            except ValueError:
                continue
            found[attribute] |= dict.fromkeys(alike["case"].tolist(), str(stratum))
    return found


def divide(
    stratum_of_case: "pd.Series[str]", cases: Sequence[str], *, attribute: str
) -> tuple[npt.NDArray[np.intp], list[str]]:
    """The number of each case's stratum, and the names by number.

    By category, or in natural order, missing last.
    """
    if (twice := stratum_of_case.index.duplicated()).any():
        case = stratum_of_case.index[twice][0]
        raise ValueError(
            f"`strata` must give every case one stratum, got two in {attribute!r} for {case!r}. Name one."
        )
    strata = stratum_of_case.reindex(pd.Index(cases))
    if (unknown := strata.isna().to_numpy()).any():
        names = name_some(
            [str(case) for case, absent in zip(cases, unknown, strict=True) if absent]
        )
        cure = "Add it to the case table."
        raise ValueError(
            f"`strata` must give every case a stratum, got none in {attribute!r} for {names}. {cure}"
        )
    if not isinstance(strata.dtype, pd.CategoricalDtype):
        text = strata.astype(str).tolist()
        _, strata = stratify(pd.DataFrame({"case": list(cases), "stratum": text}), "stratum")
    used = strata.cat.remove_unused_categories().cat
    return used.codes.to_numpy(dtype=np.intp), [str(name) for name in used.categories]
