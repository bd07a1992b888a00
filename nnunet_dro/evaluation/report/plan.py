"""The plan of a requirement for the terminal."""

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from nnunet_dro.evaluation.judging.planning import (
    LABEL_SURE,
    cases_needed,
    cases_to_collect,
    cases_with_label,
    worse_allowed,
)
from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.pages.wording import plain

#: The table goes up to this number of cases that miss the bound.
MOST_WORSE = 3


def plan_table(
    requirement: Requirement,
    sizes: list[int],
    chances: pd.DataFrame | None = None,
    *,
    share: float | None = None,
    noun: str = "cases",
) -> RenderableType:
    """How many cases may miss the bound, and the chance that no more do.

    Args:
        requirement: A requirement with confidence.
        sizes: Numbers of cases.
        chances: From `planning.chances`; None without a pilot.
        share: The share of the cases that have the label; None if it is not known.
        noun: What counts: ``cases``, or ``patients``.

    Returns:
        A renderable for rich's console.
    """
    side = "below" if requirement.end == "low" else "above"
    some_lack_it = share is not None and share < 1
    with_label = [f"with the label ({100 * LABEL_SURE:g} % sure)"] if some_lack_it else []
    needed = _table(f"{noun} in each stratum", *with_label, f"{noun} that may be {side} {requirement.bound}")
    for n in sizes:
        n_with_label = cases_with_label(n, share or 1.0)
        allowed = worse_allowed(requirement, n_with_label)
        counted = [str(n_with_label)] if some_lack_it else []
        needed.add_row(str(n), *counted, str(allowed) if allowed >= 0 else "the requirement cannot be met")
    parts: list[RenderableType] = [
        Text(plain(requirement.text), style="bold"),
        needed,
        Text(_on_labels(share, chances, noun)),
    ]
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


def _on_labels(share: float | None, chances: pd.DataFrame | None, noun: str) -> str:
    """Which cases are counted."""
    if share is None:
        return f"Only {noun} with the label count. If not all have it, say how many do: --with-label 0.9."
    of_pilot = [] if chances is None else chances["share"].tolist()
    where = " of that stratum of the pilot that has least" if any(one not in (0, share) for one in of_pilot) else ""
    silent = " Where the pilot has none, it tells nothing." if 0 in of_pilot else ""
    return f"The label is in {100 * share:.3g} % of the {noun}{where}, and only those count.{silent}"


def planned_sizes(requirement: Requirement, given: list[int], *, share: float | None) -> list[int]:
    """The given numbers of cases, and those to collect if up to `MOST_WORSE` cases miss the bound, ascending."""
    needed = (cases_needed(requirement, n_worse=n) for n in range(MOST_WORSE + 1))
    return sorted({*given, *(cases_to_collect(n, share or 1.0) for n in needed)})


def _table(*headings: str) -> Table:
    shown = Table(box=None, pad_edge=False, padding=(0, 1))
    for heading in headings:
        shown.add_column(heading, justify="left" if heading in ("label", "stratum") else "right", overflow="fold")
    return shown
