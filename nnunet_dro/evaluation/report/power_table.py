"""The table of `nnunet-dro plan` for bounds of means and of typical differences."""

from typing import Any

from rich.console import RenderableType

from nnunet_dro.evaluation.judging.planning import (
    LABEL_SURE,
    cases_to_collect,
    cases_with_label,
)
from nnunet_dro.evaluation.judging.power import (
    MOST_CASES,
    Expected,
    cases_for_chance,
    chance_to_meet,
)
from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.report.words import say
from nnunet_dro.pages.document import Block, Column, Heading, Prose, Table
from nnunet_dro.pages.terminal import printed

#: The chances for which the numbers of cases are shown.
_CHANCES = (0.5, 0.8, 0.9)


def power_table(
    requirement: Requirement, expected: Expected, sizes: list[int], *, share: float
) -> RenderableType:
    """How likely numbers of cases are to meet a requirement, for rich's console.

    Beside the given sizes stand those with a chance of 50, 80 and 90 %, if they are not too many.
    ``share`` is that of the cases that have the label.
    """
    needed = [cases_for_chance(requirement, expected, chance) for chance in _CHANCES]
    planned = set(sizes)
    for n in needed:
        if n is not None:
            planned.add(cases_to_collect(n, share))

    def chance(n: int) -> str:
        met = chance_to_meet(requirement, expected, cases_with_label(n, share))
        return f"{100 * met:.0f} %"

    columns: list[Any] = [(Column("cases in each stratum"), str)]
    if share < 1:
        title = f"with the label ({100 * LABEL_SURE:g} % sure)"
        columns.append((Column(title), lambda n: str(cases_with_label(n, share))))
    columns.append((Column("chance that it is met"), chance))

    blocks: list[Block] = [Heading(requirement.text)]
    if planned:
        blocks.append(Table.of("", columns, sorted(planned)))
    about = say("power", expected=expected, are_too_many=None in needed, most=MOST_CASES)
    blocks.append(Prose(about, kind=""))
    return printed(blocks)
