"""The command `nnunet-dro plan`."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.shared import argument, option, takes


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

    from nnunet_dro.evaluation.judging.outcomes import metric_meant, rows_of
    from nnunet_dro.evaluation.judging.planning import (
        chances,
        check_share,
        least_share,
        pilot_values,
    )
    from nnunet_dro.evaluation.judging.requirements import parse_requirement
    from nnunet_dro.evaluation.report.command_tables import plan_table, planned_sizes
    from nnunet_dro.evaluation.result_files import read_evaluation

    parsed = parse_requirement(options.requirement)
    check_share(options.with_label)
    share = options.with_label
    sizes_given = options.n or []
    if options.pilot is None:
        metric_meant(parsed, [parsed.metric or "dice"])
        parsed = replace(parsed, least=tuple(one for one in parsed.least if one[0] == "n"))
        table = plan_table(parsed, planned_sizes(parsed, sizes_given, share=share), share=share)
    else:
        evaluation = read_evaluation(options.pilot)
        rows = rows_of(evaluation.strata, parsed, planned=True)
        counted = "n_patients" if "n_patients" in rows else "n"
        parsed = replace(parsed, least=tuple(one for one in parsed.least if one[0] == counted))
        values = pilot_values(evaluation, parsed, rows)
        share = share or least_share(values)
        sizes = planned_sizes(parsed, sizes_given, share=share)
        found = chances(parsed, rows, values, sizes, share=options.with_label)
        noun = "patients" if counted == "n_patients" else "cases"
        table = plan_table(parsed, sizes, found, share=share, noun=noun)
    Console(highlight=False).print(table)
