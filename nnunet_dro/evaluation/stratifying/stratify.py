"""The strata that the columns of a case table divide the cases into."""

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from nnunet_dro.arrays import BoolArray, IndexArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.stratifying.column_strata import ranked
from nnunet_dro.evaluation.stratifying.parts import Part, column_named, parse_by
from nnunet_dro.files.case_table import (
    MISSING,
    NO_TABLE,
    attributes_of,
    check_cases,
    notes_on_spelling,
)
from nnunet_dro.naming import name_some, repeated

#: Attribute and stratum where nothing divides the cases.
ALL = "all"


def strata(table: pd.DataFrame, column: str, *, option: str = "by") -> "pd.Series[str]":
    """The entry of every case in one column.

    Args:
        table: From `read_cases`.
        column: The column whose entries are the strata.
        option: What errors call it.

    Returns:
        Strata as text, indexed by case, named as the table spells the column.

    Raises:
        ValueError: If there is no such column; the message names those there are.
    """
    return table.set_index("case")[column_named(column, attributes_of(table), option=option)]


def _needed(table: pd.DataFrame | None, named: str, *, option: str) -> pd.DataFrame:
    """The case table, which an option needs that names one of its columns."""
    if table is None:
        raise InputError(
            option,
            must="come with a case table",
            got=f"{named!r} alone",
            cure=NO_TABLE,
        )
    return table


def entries_of(
    table: pd.DataFrame | None, column: str | None, cases: Collection[str], *, option: str
) -> "pd.Series[str] | None":
    """The entries of a column in which every case must have one, in the order of the cases.

    None without a column.
    """
    if column is None:
        return None

    table = _needed(table, column, option=option)
    check_cases(table, cases)
    entries = strata(table, column, option=option).loc[list(cases)]
    without = entries.index[entries == MISSING].tolist()
    if without:
        raise InputError(
            column,
            must="have an entry for every case",
            got=f"none for {name_some(without)}",
            cure="Fill in the entries.",
            kind="column",
        )
    return entries


def stratify(table: pd.DataFrame, spec: str, *, option: str = "by") -> "tuple[str, pd.Series[str]]":
    """The strata of one `--by`.

    Args:
        table: From `read_cases`, with the cases to divide. Quantiles are those of all its rows,
            within an intersection, too.
        spec: As for `parse_by`.
        option: What errors call it.

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
    parts = parse_by(spec, attributes_of(table), option=option)
    ranked_parts = [ranked(part, table) for part in parts]

    # A stratum is the ranks of a case in all parts.
    ranks_by_part = [ranks for ranks, _ in ranked_parts]
    names_by_part = [names for _, names in ranked_parts]
    ranks_of_cases = list(zip(*ranks_by_part, strict=True))
    name_of_ranks = {}
    for ranks in sorted(set(ranks_of_cases)):
        pairs = zip(names_by_part, ranks, strict=True)
        name_of_ranks[ranks] = ",".join(names[rank] for names, rank in pairs)

    twice = repeated(name_of_ranks.values())
    if twice:
        raise InputError(
            option,
            must="give every stratum a name of its own",
            got=f"{twice[0]!r} twice for {spec!r}",
            cure="Replace the commas in the entries of the case table.",
        )

    strata_of_cases = pd.Categorical(
        [name_of_ranks[ranks] for ranks in ranks_of_cases],
        categories=list(name_of_ranks.values()),
        ordered=True,
    )
    attribute = ",".join(part.column for part in parts)
    cases = pd.Index(table["case"], name="case")
    return attribute, pd.Series(strata_of_cases, index=cases, name=attribute)


def stratify_all(
    table: pd.DataFrame | None,
    specs: Sequence[str],
    cases: Collection[str],
    *,
    overall: bool = False,
    option: str = "by",
) -> "dict[str, pd.Series[str]]":
    """Attribute to the stratum of each of the cases, in their order, as from `stratify`.

    A repeated spec counts once. A second way to cut a column has its whole spec as attribute, and
    so has the cut of a column that is also named uncut.

    Args:
        table: From `read_cases`; None if there are no specs.
        specs: As for `parse_by`; without any, `ALL` is the only attribute.
        cases: The cases to divide.
        overall: Whether `ALL` is an attribute, too.
        option: What errors call the specs.
    """
    if not specs:
        return {ALL: _in_one_stratum(cases)}

    table = _needed(table, specs[0], option=option)
    check_cases(table, cases)
    evaluated = table.set_index("case").loc[list(cases)].reset_index()

    stratum_of_case = {}
    for attribute, (spec, _) in _named(table, specs, option).items():
        _, strata_of_spec = stratify(evaluated, spec, option=option)
        stratum_of_case[attribute] = strata_of_spec.rename(attribute)
    if ALL in stratum_of_case:
        raise InputError(
            option,
            must=f"not be a column {ALL!r}, the name of all cases",
            got=repr(specs),
            cure="Rename the column.",
        )

    if overall:
        stratum_of_case[ALL] = _in_one_stratum(cases)
    return stratum_of_case


def _in_one_stratum(cases: Collection[str]) -> "pd.Series[str]":
    """All cases in the stratum `ALL`."""
    stratum = pd.Categorical(
        [ALL] * len(cases),
        categories=[ALL],
        ordered=True,
    )
    return pd.Series(stratum, index=pd.Index(list(cases), name="case"), name=ALL)


def _named(
    table: pd.DataFrame, specs: Sequence[str], option: str = "by"
) -> dict[str, tuple[str, tuple[Part, ...]]]:
    """Attribute, as `stratify_all` names it, to its spec and the parts of that."""
    spec_of_parts: dict[tuple[Part, ...], str] = {}
    for spec in specs:
        parts = parse_by(spec, attributes_of(table), option=option)
        if parts not in spec_of_parts:
            spec_of_parts[parts] = spec

    named = {}
    for parts, spec in spec_of_parts.items():
        attribute = ",".join(part.column for part in parts)
        is_also_uncut = attribute != spec and attribute in spec_of_parts.values()
        if attribute in named or is_also_uncut:
            attribute = spec

        named[attribute] = (spec, parts)
    return named


def strata_of_others(
    table: pd.DataFrame, specs: Sequence[str], cases: Collection[str]
) -> dict[str, dict[str, str]]:
    """Attribute, as `stratify_all` names it, to the other cases of a table and their strata.

    Cases whose entry is missing or outside the edges are left out, and so are attributes with
    quantiles, which are those of the divided cases.
    """
    others = table[~table["case"].isin(list(cases))]
    strata_by_attribute: dict[str, dict[str, str]] = {}
    for attribute, (spec, parts) in _named(table, specs).items():
        if any(part.n_quantiles for part in parts):
            continue

        # Cases with the same entries are in the same stratum.
        stratum_of_case: dict[str, str] = {}
        columns = [part.column for part in parts]
        for _, alike in others.groupby(columns):
            first = alike.iloc[:1]
            if (first[columns] == MISSING).any(axis=None):
                continue
            try:
                _, (stratum,) = stratify(first, spec)
            except ValueError:
                continue
            for case in alike["case"]:
                stratum_of_case[case] = str(stratum)

        strata_by_attribute[attribute] = stratum_of_case
    return strata_by_attribute


def divide(
    stratum_of_case: "pd.Series[str]", cases: Sequence[str], *, attribute: str
) -> tuple[IndexArray, list[str]]:
    """The number of each case's stratum, shape (n_cases,), and the names of the strata by number.

    They are in the order of the categories, or without categories in natural order with ``missing``
    last. Strata without a case are left out.
    """
    is_repeated = stratum_of_case.index.duplicated()
    if is_repeated.any():
        case = stratum_of_case.index[is_repeated][0]
        raise InputError(
            "strata",
            must="give every case one stratum",
            got=f"two in {attribute!r} for {case!r}",
            cure="Name one.",
        )

    # In the order of the cases.
    strata_of_cases = stratum_of_case.reindex(pd.Index(cases))
    is_unknown = strata_of_cases.isna().to_numpy()
    if is_unknown.any():
        unknown = [str(case) for case in strata_of_cases.index[is_unknown]]
        raise InputError(
            "strata",
            must="give every case a stratum",
            got=f"none in {attribute!r} for {name_some(unknown)}",
            cure="Add it to the case table.",
        )

    # Text is put in its natural order by being stratified.
    if not isinstance(strata_of_cases.dtype, pd.CategoricalDtype):
        entries = strata_of_cases.astype(str).tolist()
        table = pd.DataFrame({"case": list(cases), "stratum": entries})
        _, strata_of_cases = stratify(table, "stratum")

    used = strata_of_cases.cat.remove_unused_categories().cat
    codes = used.codes.to_numpy(dtype=np.intp)
    return codes, [str(name) for name in used.categories]


def members_by_stratum(
    stratum_of_case: "pd.Series[str]", cases: Sequence[str], *, attribute: str
) -> dict[str, BoolArray]:
    """Which of the cases are in each stratum, shape (n_cases,), by its name, as from `divide`."""
    codes, names = divide(stratum_of_case, cases, attribute=attribute)
    return {name: np.asarray(codes == code) for code, name in enumerate(names)}


def notes_on_entries(
    table: pd.DataFrame | None, specs: Sequence[str], column: str | None = None
) -> list[str]:
    """`notes_on_spelling` of the columns that divide the cases by their entries as they are.

    Args:
        table: From `read_cases`; None without any.
        specs: As for `parse_by`.
        column: One more column, such as that of the patients.
    """
    if table is None:
        return []
    parts = [part for spec in specs for part in parse_by(spec, attributes_of(table))]
    names = [part.column for part in parts if not part.edges and not part.n_quantiles]
    if column is not None:
        names.append(str(strata(table, column).name))

    notes = []
    for name in dict.fromkeys(names):
        notes += notes_on_spelling(name, table[name])
    return notes
