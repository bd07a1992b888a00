"""The command `nnunet-dro plan`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nnunet_dro.commands.shared import argument, option, takes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nnunet_dro.evaluation.judging.requirements import Requirement


@dataclass(frozen=True, kw_only=True)
class _Options:
    requirement: Annotated[
        str, argument('Requirement with confidence: "pathology=* label=tumour p5>=0.70@95".')
    ]
    pilot: Annotated[
        Path | None, option("Output folder of evaluate, to estimate the chance to pass.")
    ] = None
    n: Annotated[
        list[int] | None, option("Number of cases in each stratum (repeatable).", min=1)
    ] = None
    with_label: Annotated[
        float | None,
        option(
            "Share of the cases that have the label, such as 0.9.", show_default="as in the pilot"
        ),
    ] = None


@takes(_Options)
def plan(options: _Options) -> None:
    """Say how many cases a requirement with confidence needs, and the chance that it is met."""
    from rich.console import Console

    from nnunet_dro.evaluation.judging.planning import check_share
    from nnunet_dro.evaluation.judging.requirements import parse_requirement

    requirement = parse_requirement(options.requirement)
    check_share(options.with_label)
    if options.pilot is None:
        table = _table_without_pilot(requirement, options)
    else:
        table = _table_with_pilot(requirement, options, options.pilot)
    Console(highlight=False).print(table)


def _table_without_pilot(requirement: "Requirement", options: _Options) -> "RenderableType":
    """How many cases are needed."""
    from nnunet_dro.evaluation.judging.outcomes import metric_meant
    from nnunet_dro.evaluation.report.command_tables import plan_table, planned_sizes

    metric_meant(requirement, [requirement.metric or "dice"])
    requirement = _with_least(requirement, "n")
    share = options.with_label
    sizes = planned_sizes(requirement, options.n or [], share=share)
    return plan_table(requirement, sizes, share=share)


def _table_with_pilot(
    requirement: "Requirement", options: _Options, pilot: Path
) -> "RenderableType":
    """How many cases are needed, and the chance to pass that a pilot makes likely."""
    from nnunet_dro.evaluation.judging.outcomes import rows_of
    from nnunet_dro.evaluation.judging.planning import chances, least_share, pilot_values
    from nnunet_dro.evaluation.report.command_tables import plan_table, planned_sizes
    from nnunet_dro.evaluation.result_files import read_evaluation

    evaluation = read_evaluation(pilot)
    rows = rows_of(evaluation.strata, requirement, planned=True)
    counts_patients = "n_patients" in rows
    requirement = _with_least(requirement, "n_patients" if counts_patients else "n")

    values = pilot_values(evaluation, requirement, rows)
    share = options.with_label or least_share(values)
    sizes = planned_sizes(requirement, options.n or [], share=share)
    chance_of_each = chances(requirement, rows, values, sizes, share=options.with_label)
    noun = "patients" if counts_patients else "cases"
    return plan_table(requirement, sizes, chance_of_each, share=share, noun=noun)


def _with_least(requirement: "Requirement", counted: str) -> "Requirement":
    """A requirement with the least numbers of what is counted alone."""
    least = tuple((count, number) for count, number in requirement.least if count == counted)
    return replace(requirement, least=least)
