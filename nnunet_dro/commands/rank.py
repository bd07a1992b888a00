"""The command `nnunet-dro rank`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.choices import EmptyRule, MissingRule, RankingScheme
from nnunet_dro.commands.completion import complete_column
from nnunet_dro.commands.shared import Output, Overwrite, names_in, takes
from nnunet_dro.progress_bar import progress_bar

_SCORING = "With --evaluate"


@dataclass(frozen=True, kw_only=True)
class RankOptions:
    """What `rank` takes."""

    teams: Annotated[
        list[str],
        typer.Argument(
            metavar="TEAM=FOLDER...",
            help="Output folders of evaluate; with --evaluate, folders of predictions, whose names can be left out.",
        ),
    ]
    output: Output
    scheme: Annotated[
        RankingScheme,
        typer.Option(help="Ranking scheme; the ranks of the others are reported beside it."),
    ] = RankingScheme.MEAN
    by: Annotated[
        list[str],
        typer.Option(
            help="Columns to rank by, as for evaluate; default: as in the first evaluation.",
            autocompletion=complete_column,
        ),
    ] = field(default_factory=list)
    intersect: Annotated[bool, typer.Option("--intersect", help="Rank by the cases that all evaluations have.")] = False
    bootstrap: Annotated[int, typer.Option(min=0, help="Number of bootstrap samples that are ranked; 0 for none.")] = (
        1000
    )
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the bootstrap samples.")] = 0
    aggregate_only: Annotated[
        bool, typer.Option("--aggregate-only", help="Write nothing that names or shows a case, for hidden test sets.")
    ] = False
    overwrite: Overwrite = False
    evaluate: Annotated[
        Path | None,
        typer.Option(
            metavar="REFERENCE",
            help="Score folders of predictions first, with these reference label maps.",
            readable=False,
            rich_help_panel=_SCORING,
        ),
    ] = None
    evaluations: Annotated[
        Path | None,
        typer.Option(
            help="Folder to keep the evaluations in; a later run goes on there. Default: OUTPUT-evaluations.",
            readable=False,
            rich_help_panel=_SCORING,
        ),
    ] = None
    dataset_json: Annotated[
        Path | None,
        typer.Option(help="dataset.json; default: in or above REFERENCE.", readable=False, rich_help_panel=_SCORING),
    ] = None
    cases: Annotated[
        Path | None,
        typer.Option(
            help="Case table with a row per case; default: as for evaluate.", readable=False, rich_help_panel=_SCORING
        ),
    ] = None
    patient: Annotated[
        str | None,
        typer.Option(
            help="Column of the case table that names the patient.",
            autocompletion=complete_column,
            rich_help_panel=_SCORING,
        ),
    ] = None
    metrics: Annotated[
        str | None, typer.Option(help="Metrics, as for evaluate; default: dice.", rich_help_panel=_SCORING)
    ] = None
    nsd_tolerance_mm: Annotated[
        float | None,
        typer.Option(help="Tolerance of the normalised surface distance; default: 1 mm.", rich_help_panel=_SCORING),
    ] = None
    empty: Annotated[
        EmptyRule | None,
        typer.Option(
            help="Score of a label that reference or prediction lacks; as for evaluate.", rich_help_panel=_SCORING
        ),
    ] = None
    missing: Annotated[
        MissingRule | None,
        typer.Option(help="Stop at missing predictions (default), or score them as failed.", rich_help_panel=_SCORING),
    ] = None
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of cases to score at a time; default: one per processor.", rich_help_panel=_SCORING
        ),
    ] = None
    workers: Annotated[
        str | None,
        typer.Option(
            help="Dask scheduler whose workers score the cases, such as tcp://scheduler:8786.",
            rich_help_panel=_SCORING,
        ),
    ] = None

    def __post_init__(self) -> None:
        scoring = ("dataset_json", "cases", "patient", "metrics", "nsd_tolerance_mm", "empty", "missing")
        given = [name for name in (*scoring, "jobs", "workers", "evaluations") if getattr(self, name) is not None]
        if self.evaluate is None and given:
            cure = "Add --evaluate with the folder of the references, or leave it out."
            raise ValueError(f"`{given[0]}` must come with --evaluate, got evaluations that are made already. {cure}")


@takes(RankOptions)
def rank(options: RankOptions) -> None:
    """Rank many methods, with the stability of the ranks, tests of all pairs and ranks per stratum."""
    from joblib import cpu_count
    from rich.console import Console

    from nnunet_dro.evaluation.result_files import named_evaluations, read_evaluation
    from nnunet_dro.evaluation.stratifying.division import default_case_table
    from nnunet_dro.files.output_folder import check_output, write_files
    from nnunet_dro.ranking.files import ranking_files
    from nnunet_dro.ranking.ranking import rank_evaluations
    from nnunet_dro.ranking.submissions import ScoringOptions, named_submissions, score_submissions
    from nnunet_dro.ranking.terminal import ranking_table

    output = options.output
    check_output(output, overwrite=options.overwrite)
    if options.evaluate is None:
        read = {name: read_evaluation(folder) for name, folder in named_evaluations(options.teams).items()}
    else:
        submissions = named_submissions(options.teams)
        kept = options.evaluations or output.absolute().with_name(f"{output.absolute().name}-evaluations")
        default = ScoringOptions()
        scoring = ScoringOptions(
            dataset_json=options.dataset_json,
            cases=options.cases or default_case_table(options.evaluate, options.by, options.patient),
            patient=options.patient,
            metrics=default.metrics if options.metrics is None else tuple(names_in(options.metrics)),
            nsd_tolerance_mm=(
                default.nsd_tolerance_mm if options.nsd_tolerance_mm is None else options.nsd_tolerance_mm
            ),
            empty=options.empty or default.empty,
            missing=options.missing or default.missing,
        )
        with progress_bar("Scoring the submissions") as progress:
            read = score_submissions(
                options.evaluate,
                submissions,
                kept,
                scoring,
                jobs=options.jobs or cpu_count(),
                workers=options.workers,
                progress=progress,
            )
    with progress_bar("Ranking the bootstrap samples") as progress:
        ranking = rank_evaluations(
            read,
            scheme=options.scheme,
            by=options.by or None,
            intersect=options.intersect,
            n_resamples=options.bootstrap,
            seed=options.seed,
            aggregate_only=options.aggregate_only,
            progress=progress,
        )
    write_files(output, ranking_files(ranking))
    Console(highlight=False).print(ranking_table(ranking))
    typer.echo(output / "report.html")
