"""The plan of a requirement for the terminal."""

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nnunet_dro.evaluation.planning import cases_needed, worse_allowed
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.evaluation.requirements import Requirement
from nnunet_dro.pages.wording import plain

#: The table goes up to this number of cases that miss the bound.
MOST_WORSE = 3


def plan_table(requirement: Requirement, sizes: list[int], chances: pd.DataFrame | None = None) -> RenderableType:
    """How many cases may miss the bound, and the chance that no more do.

    Args:
        requirement: A requirement with confidence.
        sizes: Numbers of cases.
        chances: From `planning.chances`; None without a pilot.

    Returns:
        A renderable for rich's console.
    """
    side = "below" if requirement.end == "low" else "above"
    needed = _table("cases in each stratum", f"cases that may be {side} {requirement.bound}")
    for n in sizes:
        allowed = worse_allowed(requirement, n)
        needed.add_row(str(n), str(allowed) if allowed >= 0 else "the requirement cannot be met")
    parts: list[RenderableType] = [Text(plain(requirement.text), style="bold"), needed]
    if chances is not None:
        shown = _table("label", "stratum", "pilot", side, *(f"chance with {n}" for n in sizes))
        for row in chances.to_dict("records"):
            attribute, stratum = str(row["attribute"]), str(row["stratum"])
            where = stratum_title(attribute, stratum)
            where = where if attribute == stratum else f"{where} ({attribute_title(attribute)})"
            probabilities = (f"{100 * float(row[str(n)]):.0f} %" for n in sizes)
            cells = (str(row["label"]), where, str(row["n"]), str(row["n_worse"]), *probabilities)
            shown.add_row(*(Text(plain(cell)) for cell in cells))
        parts.append(shown)
    return Group(*parts)


def planned_sizes(requirement: Requirement, given: list[int]) -> list[int]:
    """The given numbers of cases, and those that are needed if up to `MOST_WORSE` cases miss the bound, ascending."""
    return sorted({*given, *(cases_needed(requirement, n_worse=n) for n in range(MOST_WORSE + 1))})


def _table(*headings: str) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in headings:
        shown.add_column(heading, justify="left" if heading in ("label", "stratum") else "right", overflow="fold")
    return shown
