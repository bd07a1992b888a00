"""Tables of the commands that show neither an evaluation nor a comparison.

Folds, columns of cases, plans.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.evaluation.judging.planning import (
    LABEL_SURE,
    cases_needed,
    cases_to_collect,
    cases_with_label,
    chance_of_failures,
    is_of_failures,
    worse_allowed,
)
from nnunet_dro.evaluation.judging.power import (
    MOST_CASES,
    Expected,
    cases_for_chance,
    chance_to_meet,
)
from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.report.formatting import (
    metric_named,
    quantity,
    stratum_of,
)
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.evaluation.statistics.intervals import FEWEST
from nnunet_dro.files.case_table import MISSING, attributes_of
from nnunet_dro.naming import name_some
from nnunet_dro.naming import share as in_per_cent  # a name that shares of cases have
from nnunet_dro.pages.document import Block, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.terminal import printed

#: What may happen so many times, by the statistic.
_FAILING = {
    "new_failures_high": "new failures that there may be",
    "failure_difference_high": "new failures that there may be, if none recovers",
}

#: Where the cases lie that miss a bound.
_MISSING = {">=": "below", ">": "at or below", "<=": "above", "<": "at or above"}

#: The table of a plan goes up to this number of cases that miss the bound.
MOST_WORSE = 3

#: The chances for which the numbers of cases are shown.
_CHANCES = (0.5, 0.8, 0.9)


def splits_table(folds: pd.DataFrame, notes: Sequence[str] = ()) -> RenderableType:
    """Validation and training cases of every stratum and fold, for rich's console.

    Folds that do not validate on a stratum are left out.
    """
    places = {stratum: place for place, stratum in enumerate(folds["stratum"].unique())}
    validating = folds[folds["n_validation"] > 0].sort_values(
        "stratum",
        key=lambda strata: strata.map(places),
        kind="stable",
    )

    columns: list[Any] = [
        (Column("Stratum", "name"), itemgetter("stratum")),
        (Column("Fold"), lambda row: str(row["fold"])),
        (Column("To validate on"), lambda row: f"{row['n_validation']:,}"),
        (Column("To train on"), lambda row: f"{row['n_training']:,}"),
    ]
    table = Table.of(
        "Cases of every stratum in each fold that validates on it",
        columns,
        validating.to_dict("records"),
    )
    return printed([table, *map(Note, notes)])


def columns_table(table: pd.DataFrame) -> RenderableType:
    """What the columns of a case table hold, for rich's console.

    For every column how many cases have an entry, and the range of numbers or some of the entries.
    """
    entries = {}
    for name in attributes_of(table):
        is_there = table[name] != MISSING
        entries[name] = table.loc[is_there, name]

    columns: list[Any] = [
        (Column("Column", "name"), str),
        (Column("Cases"), lambda name: str(len(entries[name]))),
        (Column("Entries", "text"), lambda name: _range_or_some(entries[name])),
    ]
    return printed([Table.of("", columns, list(entries))])


def _range_or_some(entries: "pd.Series[str]") -> str:
    """The range of entries that are all numbers, or else some of the entries."""
    numbers = pd.to_numeric(entries, errors="coerce")
    if not len(entries) or numbers.isna().any():
        return name_some(sorted(set(entries)))

    low = min(entries, key=float)
    high = max(entries, key=float)
    return low if low == high else f"{low} to {high}"


def plan_table(
    requirement: Requirement,
    sizes: list[int],
    chances: pd.DataFrame | None = None,
    *,
    share: float | None = None,
    noun: str = "cases",
    expected_share: float | None = None,
) -> RenderableType:
    """How many cases may miss the bound or fail, and the chance that no more do.

    For rich's console.

    Args:
        requirement: What is planned for.
        sizes: The numbers of cases.
        chances: Those of `planning.chances`; None without a pilot.
        share: That of the cases that have the label, if it is known.
        noun: What is counted, in the plural.
        expected_share: That of the cases that fail, if it is expected; failures only.
    """
    side = _MISSING[requirement.comparison]
    known_share = share or 1.0

    def most_worse(n: int) -> str:
        n_worse = worse_allowed(requirement, cases_with_label(n, known_share))
        return str(n_worse) if n_worse >= 0 else "the requirement cannot be met"

    columns = _size_columns(noun, known_share)
    title = f"{noun} that may be {side} {requirement.bound}"
    if is_of_failures(requirement):
        title = _FAILING.get(requirement.statistic, f"{noun} that may fail")
    columns.append((Column(title), most_worse))
    if expected_share is not None:

        def chance(n: int) -> str:
            n_with_label = cases_with_label(n, known_share)
            return in_per_cent(chance_of_failures(requirement, n_with_label, expected_share))

        columns.append((Column(f"chance, if {100 * expected_share:g} % do"), chance))

    pilot_shares = [] if chances is None else chances["share"].tolist()
    about = say("counted", share=share, pilot_shares=pilot_shares, noun=noun)
    blocks: list[Block] = [
        Heading(requirement.text),
        Table.of("", columns, sizes),
        Prose(about, kind=""),
    ]
    if chances is not None:
        worse = "failed" if is_of_failures(requirement) else side
        n_worse = (Column(worse), lambda row: str(row["n_worse"]))
        blocks.append(_chances_table(chances, sizes, n_worse))
    return printed(blocks)


def plan_of_means(
    requirement: Requirement, sizes: Sequence[int], chances: pd.DataFrame, noun: str
) -> RenderableType:
    """The chance that the bound of a mean is met with each number of cases, after a pilot.

    For rich's console; ``chances`` are those of `planning.chances`.
    """
    metric = metric_named(requirement.metric or "dice")
    mean = (Column("mean"), lambda row: quantity(float(row["mean"]), metric))
    return printed(
        [
            Heading(requirement.text),
            Prose(say("after_pilot", noun=noun, fewest=FEWEST), kind=""),
            _chances_table(chances, sizes, mean),
        ]
    )


def _chances_table(chances: pd.DataFrame, sizes: Sequence[int], shown: tuple[Column, Any]) -> Table:
    """What the pilot says of every stratum and label, and the chance with each number of cases."""
    columns: list[Any] = [
        (Column("label", "name"), lambda row: str(row["label"])),
        (Column("stratum", "name"), stratum_of),
        (Column("pilot"), lambda row: str(row["n"])),
        shown,
    ]
    columns += [(Column(f"chance with {n}"), partial(_chance, str(n))) for n in sizes]
    return Table.of("", columns, chances.to_dict("records"))


def power_table(
    requirement: Requirement, expected: Expected, sizes: list[int], *, share: float
) -> RenderableType:
    """How likely numbers of cases are to meet a requirement on a mean or a typical difference.

    For rich's console. Beside the given sizes stand those with a chance of 50, 80 and 90 %, if they
    are not too many. ``share`` is that of the cases that have the label.
    """
    needed = [cases_for_chance(requirement, expected, chance) for chance in _CHANCES]
    planned = set(sizes)
    for n in needed:
        if n is not None:
            planned.add(cases_to_collect(n, share))

    def chance(n: int) -> str:
        return in_per_cent(chance_to_meet(requirement, expected, cases_with_label(n, share)))

    columns = [*_size_columns("cases", share), (Column("chance that it is met"), chance)]
    blocks: list[Block] = [Heading(requirement.text)]
    if planned:
        blocks.append(Table.of("", columns, sorted(planned)))
    about = say("power", expected=expected, are_too_many=None in needed, most=MOST_CASES)
    blocks.append(Prose(about, kind=""))
    return printed(blocks)


def _size_columns(noun: str, share: float) -> list[tuple[Column, Callable[[int], str]]]:
    """The number of cases, and how many of them have the label, if not all do."""
    columns: list[tuple[Column, Callable[[int], str]]] = [
        (Column(f"{noun} in each stratum"), str),
    ]
    if share < 1:
        title = f"with the label ({100 * LABEL_SURE:g} % sure)"
        columns.append((Column(title), lambda n: str(cases_with_label(n, share))))
    return columns


def _chance(column: str, row: Any) -> str:
    return in_per_cent(float(row[column]))


def planned_sizes(requirement: Requirement, sizes: list[int], *, share: float | None) -> list[int]:
    """The given numbers of cases, and those to collect if up to `MOST_WORSE` cases miss the bound.

    They are in ascending order, each once.
    """
    planned = set(sizes)
    for n_worse in range(MOST_WORSE + 1):
        n_needed = cases_needed(requirement, n_worse=n_worse)
        planned.add(cases_to_collect(n_needed, share or 1.0))
    return sorted(planned)
