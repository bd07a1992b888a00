"""The command `nnunet-dro plan`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from nnunet_dro.bad_input import InputError
from nnunet_dro.commands.shared import argument, option, takes

if TYPE_CHECKING:
    from rich.console import RenderableType

    from nnunet_dro.evaluation.judging.requirements import Requirement

#: The numbers of cases for which a pilot's chance to meet the bound of a mean is said.
_SIZES = (25, 50, 100, 200, 400)


@dataclass(frozen=True, kw_only=True)
class _Options:
    requirement: Annotated[
        str, argument('Requirement with confidence: "pathology=* label=tumour p5>=0.70@95".')
    ]
    pilot: Annotated[
        Path | None, option("Output folder of evaluate, to estimate the chance to pass.")
    ] = None
    expect: Annotated[
        str | None,
        option(
            "What is expected: a difference (1.6pt) or mean (85%), or the share that fails (2%).",
            show_default="no difference",
        ),
    ] = None
    spread: Annotated[
        str | None,
        option("Expected standard deviation of the cases' values or differences, such as 3pt."),
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

    from nnunet_dro.evaluation.judging.planning import check_share_of_cases, is_of_failures
    from nnunet_dro.evaluation.judging.power import is_of_measurements

    requirement = _parsed(options.requirement)
    check_share_of_cases(options.with_label)
    if options.pilot is not None:
        _check_pilot(requirement, options)
    is_of_percentile = not is_of_measurements(requirement) and not is_of_failures(requirement)
    if is_of_percentile and options.expect:
        raise InputError(
            "expect",
            must="come with a mean, a typical difference or failures",
            got=repr(requirement.text),
            cure="Write --pilot FOLDER, an evaluation of earlier cases.",
        )

    if options.pilot is not None:
        table = _table_with_pilot(requirement, options, options.pilot)
    elif is_of_measurements(requirement):
        table = _table_of_measurements(requirement, options)
    else:
        table = _table_without_pilot(requirement, options)
    Console(highlight=False).print(table)


def _check_pilot(requirement: "Requirement", options: _Options) -> None:
    """Check that a pilot tells of a requirement, and that nothing else is expected."""
    from nnunet_dro.evaluation.judging.subjects import STRATA

    if options.expect or options.spread:
        raise InputError(
            "pilot",
            must="come without an expectation",
            got="both",
            cure="Leave out either.",
        )
    if requirement.subject is not STRATA:
        raise InputError(
            "pilot",
            must="come with a requirement on one evaluation",
            got=repr(requirement.text),
            cure=("Say what it showed: --expect 1.6pt --spread 3pt, or --expect 2% for failures."),
        )


def _parsed(text: str) -> "Requirement":
    """A requirement of evaluate, or of compare."""
    from nnunet_dro.evaluation.judging.outcomes import metric_meant
    from nnunet_dro.evaluation.judging.requirements import read_requirement

    requirement = read_requirement(text)
    metric_meant(requirement, [requirement.metric or "dice"])
    return requirement


def _table_of_measurements(requirement: "Requirement", options: _Options) -> "RenderableType":
    """How many cases the bound of a mean or of a typical difference needs, if as expected."""
    from nnunet_dro.evaluation.judging.power import expected_of
    from nnunet_dro.evaluation.report.command_tables import power_table

    expected = expected_of(requirement, options.expect, options.spread)
    requirement = _with_least(requirement, "n")
    return power_table(requirement, expected, options.n or [], share=options.with_label or 1.0)


def _table_without_pilot(requirement: "Requirement", options: _Options) -> "RenderableType":
    """How many cases are needed."""
    from nnunet_dro.evaluation.judging.planning import read_share
    from nnunet_dro.evaluation.report.command_tables import plan_table, planned_sizes

    expected_share = None
    if options.expect is not None:
        expected_share = read_share(options.expect)
    if options.spread is not None:
        raise InputError(
            "spread",
            must="come with a mean",
            got=repr(options.spread),
            cure="Write --pilot FOLDER, an evaluation of earlier cases, or leave it out.",
        )

    requirement = _with_least(requirement, "n")
    share = options.with_label
    sizes = planned_sizes(requirement, options.n or [], share=share)
    return plan_table(requirement, sizes, share=share, expected_share=expected_share)


def _table_with_pilot(
    requirement: "Requirement", options: _Options, pilot: Path
) -> "RenderableType":
    """How many cases are needed, and the chance to pass that a pilot makes likely."""
    from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
    from nnunet_dro.evaluation.judging.outcomes import rows_of
    from nnunet_dro.evaluation.judging.planning import chances, least_share, pilot_values
    from nnunet_dro.evaluation.judging.power import is_of_measurements
    from nnunet_dro.evaluation.report.command_tables import (
        plan_of_means,
        plan_table,
        planned_sizes,
    )

    evaluation = read_evaluation(pilot)
    rows = rows_of(evaluation.strata, requirement, planned=True)
    counts_patients = "n_patients" in rows
    requirement = _with_least(requirement, "n_patients" if counts_patients else "n")
    noun = "patients" if counts_patients else "cases"

    values = pilot_values(evaluation, requirement, rows)
    share = options.with_label or least_share(values)
    is_of_mean = is_of_measurements(requirement)
    if is_of_mean:
        sizes = sorted({*(options.n or _SIZES)})
    else:
        sizes = planned_sizes(requirement, options.n or [], share=share)
    chance_of_each = chances(requirement, rows, values, sizes, share=options.with_label)
    if is_of_mean:
        return plan_of_means(requirement, sizes, chance_of_each, noun)
    return plan_table(requirement, sizes, chance_of_each, share=share, noun=noun)


def _with_least(requirement: "Requirement", counted: str) -> "Requirement":
    """A requirement with the least numbers of what is counted alone."""
    least = tuple((count, number) for count, number in requirement.least if count == counted)
    return replace(requirement, least=least)
