"""The command `nnunet-dro explore`. Heavy modules are imported inside it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.completion import complete_attribute, complete_label, complete_metric
from nnunet_dro.commands.shared import takes
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class ExploreOptions:
    """What `explore` takes."""

    results: Annotated[Path, typer.Argument(help="Output folder of evaluate.", readable=False)]
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the results; must be new or empty.", readable=False)
    ]
    metric: Annotated[
        str | None,
        typer.Option(
            help="Metric of the evaluation; default: dice, or else its first.", autocompletion=complete_metric
        ),
    ] = None
    label: Annotated[
        list[str],
        typer.Option(help="Label to look at; repeatable. Default: all of them.", autocompletion=complete_label),
    ] = field(default_factory=list)
    by: Annotated[
        list[str],
        typer.Option(
            help="Attribute to combine, as for evaluate; repeatable. Default: those of the evaluation, and all columns "
            "of the case table.",
            autocompletion=complete_attribute,
        ),
    ] = field(default_factory=list)
    cases: Annotated[
        Path | None,
        typer.Option(help="Case table with more columns; those with many numbers are cut into thirds.", readable=False),
    ] = None
    max_attributes: Annotated[int, typer.Option(help="The most attributes of a combination, 1 to 3.")] = 2
    min_cases: Annotated[int, typer.Option(help="The fewest cases of a combination in each half of the cases.")] = 5
    candidates: Annotated[
        int, typer.Option(help="The most combinations of the first half that are tested on the other.")
    ] = 3
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the halves and the permutations.")] = 0
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier run wrote to the output folder.")
    ] = False


@takes(ExploreOptions)
def explore(options: ExploreOptions) -> None:
    """Find combinations of attributes with the worst scores in half of the cases, confirm them on the others."""
    from rich.console import Console

    from nnunet_dro.evaluation.result_files import read_evaluation
    from nnunet_dro.exploration.exploration import explore_evaluation
    from nnunet_dro.exploration.files import exploration_files
    from nnunet_dro.exploration.terminal import exploration_table
    from nnunet_dro.files.output_folder import check_output, write_files

    check_output(options.output, overwrite=options.overwrite)
    evaluation = read_evaluation(options.results)
    with progress_bar("Looking at combinations") as progress:
        exploration = explore_evaluation(
            evaluation,
            metric=options.metric,
            labels=options.label,
            by=options.by or None,
            cases=options.cases,
            max_attributes=options.max_attributes,
            min_cases=options.min_cases,
            n_candidates=options.candidates,
            seed=options.seed,
            progress=progress,
        )
    write_files(options.output, exploration_files(exploration))
    Console(highlight=False).print(exploration_table(exploration))
    typer.echo(options.output / "report.html")
