"""Tables of the commands that show neither an evaluation nor a comparison.

Folds, columns of cases, plans.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.evaluation.judging.planning import (
    LABEL_SURE,
    cases_needed,
    cases_to_collect,
    cases_with_label,
    worse_allowed,
)
from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.files.case_table import MISSING, attributes_of
from nnunet_dro.naming import name_some
from nnunet_dro.pages.document import Block, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.terminal import printed

MOST_WORSE = 3  # The table of a plan goes up to this number of cases that miss the bound.


def splits_table(folds: pd.DataFrame, notes: Sequence[str] = ()) -> RenderableType:
    """Validation and training cases of every stratum and fold that validates on it, for rich's console."""
    columns: list[Any] = [
        (Column("Stratum", "name"), itemgetter("stratum")),
        (Column("Fold"), lambda row: str(row["fold"])),
        (Column("To validate on"), lambda row: f"{row['n_validation']:,}"),
        (Column("To train on"), lambda row: f"{row['n_training']:,}"),
    ]
    order = {stratum: place for place, stratum in enumerate(folds["stratum"].unique())}
    rows = folds[folds["n_validation"] > 0].sort_values(
        "stratum", key=lambda of: of.map(order), kind="stable"
    )
    title = "Cases of every stratum in each fold that validates on it"
    return printed([Table.of(title, columns, rows.to_dict("records")), *map(Note, notes)])


def columns_table(table: pd.DataFrame) -> RenderableType:
    """How many cases have an entry in each column of a case table, and the range of its numbers or some entries."""
    entries = {
        column: table.loc[table[column] != MISSING, column] for column in attributes_of(table)
    }
    columns: list[Any] = [
        (Column("Column", "name"), str),
        (Column("Cases"), lambda column: str(len(entries[column]))),
        (Column("Entries", "text"), lambda column: _held(entries[column])),
    ]
    return printed([Table.of("", columns, list(entries))])


def _held(entries: "pd.Series[str]") -> str:
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
) -> RenderableType:
    """How many cases may miss the bound, and the chance (of `planning.chances`, if any) that no more do."""
    side = "below" if requirement.end == "low" else "above"
    columns: list[Any] = [(Column(f"{noun} in each stratum"), str)]
    if share is not None and share < 1:
        title = f"with the label ({100 * LABEL_SURE:g} % sure)"
        columns.append((Column(title), lambda n: str(cases_with_label(n, share))))

    def allowed(n: int) -> str:
        most = worse_allowed(requirement, cases_with_label(n, share or 1.0))
        return str(most) if most >= 0 else "the requirement cannot be met"

    columns.append((Column(f"{noun} that may be {side} {requirement.bound}"), allowed))
    blocks: list[Block] = [
        Heading(requirement.text),
        Table.of("", columns, sizes),
        Prose(_on_labels(share, chances, noun), kind=""),
    ]
    if chances is not None:
        columns = [
            (Column("label", "name"), lambda row: str(row["label"])),
            (Column("stratum", "name"), _where),
            (Column("pilot"), lambda row: str(row["n"])),
            (Column(side), lambda row: str(row["n_worse"])),
            *(
                (Column(f"chance with {n}"), lambda row, n=n: f"{100 * float(row[str(n)]):.0f} %")
                for n in sizes
            ),
        ]
        blocks.append(Table.of("", columns, chances.to_dict("records")))
    return printed(blocks)


def _where(row: Any) -> str:
    attribute = str(row["attribute"])
    stratum = str(row["stratum"])
    where = stratum_title(attribute, stratum)
    return where if attribute == stratum else f"{where} ({attribute_title(attribute)})"


def _on_labels(share: float | None, chances: pd.DataFrame | None, noun: str) -> str:
    """Which cases are counted."""
    if share is None:
        return f"Only {noun} with the label count. If not all have it, say how many do: --with-label 0.9."
    of_pilot = [] if chances is None else chances["share"].tolist()
    where = (
        " of that stratum of the pilot that has least"
        if any(one not in (0, share) for one in of_pilot)
        else ""
    )
    silent = " Where the pilot has none, it tells nothing." if 0 in of_pilot else ""
    return (
        f"The label is in {100 * share:.3g} % of the {noun}{where}, and only those count.{silent}"
    )


def planned_sizes(requirement: Requirement, given: list[int], *, share: float | None) -> list[int]:
    """The given numbers of cases, and those to collect if up to `MOST_WORSE` cases miss the bound, ascending."""
    needed = (cases_needed(requirement, n_worse=n) for n in range(MOST_WORSE + 1))
    return sorted({*given, *(cases_to_collect(n, share or 1.0) for n in needed)})
