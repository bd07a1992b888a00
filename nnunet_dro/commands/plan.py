"""The command `nnunet-dro plan`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import takes


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """What `plan` takes."""

    requirement: Annotated[
        str, typer.Argument(help='Quality requirement with confidence: "pathology=* label=tumour p5>=0.70@95".')
    ]
    pilot: Annotated[
        Path | None, typer.Option(help="Output folder of evaluate, to estimate the chance to pass.", readable=False)
    ] = None
    n: Annotated[list[int], typer.Option(min=1, help="Number of cases in each stratum (repeatable).")] = field(
        default_factory=list
    )
    with_label: Annotated[
        float | None,
        typer.Option(help="Share of the cases that have the label, such as 0.9.", show_default="as in the pilot"),
    ] = None


@takes(PlanOptions)
def plan(options: PlanOptions) -> None:
    """Say how many cases a requirement with confidence needs, and the chance that it is met."""
    from rich.console import Console

    from nnunet_dro.evaluation.judging.outcomes import metric_meant, rows_of
    from nnunet_dro.evaluation.judging.planning import chances, check_share, least_share, pilot_values
    from nnunet_dro.evaluation.judging.requirements import parse_requirement
    from nnunet_dro.evaluation.report.plan import plan_table, planned_sizes
    from nnunet_dro.evaluation.result_files import read_evaluation

    parsed = parse_requirement(options.requirement)
    check_share(options.with_label)
    share = options.with_label
    if options.pilot is None:
        metric_meant(parsed, [parsed.metric or "dice"])
        table = plan_table(parsed, planned_sizes(parsed, options.n, share=share), share=share)
    else:
        evaluation = read_evaluation(options.pilot)
        rows = rows_of(evaluation.strata, parsed, planned=True)
        values = pilot_values(evaluation, parsed, rows)
        share = share or least_share(values)
        sizes = planned_sizes(parsed, options.n, share=share)
        found = chances(parsed, rows, values, sizes, share=options.with_label)
        noun = "patients" if "n_patients" in rows else "cases"
        table = plan_table(parsed, sizes, found, share=share, noun=noun)
    Console(highlight=False).print(table)
