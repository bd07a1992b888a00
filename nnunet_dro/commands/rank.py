"""The command `nnunet-dro rank`. Heavy modules are imported inside it."""

from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.choices import EmptyRule, MissingRule, RankingScheme
from nnunet_dro.commands.completion import complete_column
from nnunet_dro.progress_bar import progress_bar


def rank(
    teams: Annotated[
        list[str],
        typer.Argument(
            metavar="TEAM=FOLDER...",
            help="Output folders of evaluate; with --evaluate, folders of predictions, whose names can be left out.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the results; must be new or empty.", readable=False)
    ],
    scheme: Annotated[
        RankingScheme,
        typer.Option(help="Ranking scheme; the ranks of the others are reported beside it."),
    ] = RankingScheme.MEAN,
    by: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns to rank by, as for evaluate; default: as in the first evaluation.",
            autocompletion=complete_column,
        ),
    ] = None,
    intersect: Annotated[
        bool, typer.Option("--intersect", help="Rank by the cases that all evaluations have.")
    ] = False,
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Number of bootstrap samples that are ranked; 0 for none.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the bootstrap samples.")] = 0,
    aggregate_only: Annotated[
        bool, typer.Option("--aggregate-only", help="Write nothing that names or shows a case, for hidden test sets.")
    ] = False,
    evaluate: Annotated[
        Path | None,
        typer.Option(
            metavar="REFERENCE",
            help="Score folders of predictions first, with these reference label maps.",
            readable=False,
        ),
    ] = None,
    evaluations: Annotated[
        Path | None,
        typer.Option(
            help="With --evaluate: folder to keep the evaluations in; a later run goes on there. "
            "Default: OUTPUT-evaluations.",
            readable=False,
        ),
    ] = None,
    dataset_json: Annotated[
        Path | None,
        typer.Option(help="With --evaluate: dataset.json; default: in or above REFERENCE.", readable=False),
    ] = None,
    cases: Annotated[
        Path | None,
        typer.Option(help="With --evaluate: case table with a row per case; default: as for evaluate.", readable=False),
    ] = None,
    patient: Annotated[
        str | None,
        typer.Option(
            help="With --evaluate: column of the case table that names the patient.", autocompletion=complete_column
        ),
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(help="With --evaluate: metrics, as for evaluate; default: dice.", show_default=False)
    ] = None,
    nsd_tolerance_mm: Annotated[
        float | None,
        typer.Option(help="With --evaluate: tolerance of the normalised surface distance; default: 1 mm."),
    ] = None,
    empty: Annotated[
        EmptyRule | None,
        typer.Option(help="With --evaluate: score of a label that reference or prediction lacks; as for evaluate."),
    ] = None,
    missing: Annotated[
        MissingRule | None,
        typer.Option(help="With --evaluate: stop at missing predictions (default), or score them as failed."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="With --evaluate: number of cases to score at a time; default: one per processor."),
    ] = None,
    workers: Annotated[
        str | None,
        typer.Option(
            help="With --evaluate: dask scheduler whose workers score the cases, such as tcp://scheduler:8786."
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace what an earlier run wrote to the output folder.")
    ] = False,
) -> None:
    """Rank many methods, with the stability of the ranks, tests of all pairs and ranks per stratum."""
    from joblib import cpu_count
    from rich.console import Console

    from nnunet_dro.evaluation.division import default_case_table
    from nnunet_dro.evaluation.result_files import named_evaluations, read_evaluation
    from nnunet_dro.output_folder import check_output, write_files
    from nnunet_dro.ranking.files import ranking_files
    from nnunet_dro.ranking.ranking import rank_evaluations
    from nnunet_dro.ranking.submissions import ScoringOptions, named_submissions, score_submissions
    from nnunet_dro.ranking.terminal import ranking_table

    given = {
        "dataset_json": dataset_json,
        "cases": cases or (evaluate and default_case_table(evaluate, by or (), patient)),
        "patient": patient,
        "metrics": None if metrics is None else tuple(name.strip() for name in metrics.split(",") if name.strip()),
        "nsd_tolerance_mm": nsd_tolerance_mm,
        "empty": empty,
        "missing": missing,
    }
    options = {name: value for name, value in given.items() if value is not None}
    check_output(output, overwrite=overwrite)
    if evaluate is None:
        scoring = {"jobs": jobs, "workers": workers, "evaluations": evaluations}
        _refuse_without_evaluate([*options, *(name for name, value in scoring.items() if value)])
        read = {name: read_evaluation(folder) for name, folder in named_evaluations(teams).items()}
    else:
        submissions = named_submissions(teams)
        kept = evaluations or output.absolute().with_name(f"{output.absolute().name}-evaluations")
        with progress_bar("Scoring the submissions") as progress:
            read = score_submissions(
                evaluate,
                submissions,
                kept,
                ScoringOptions(**options),  # type: ignore[arg-type]
                jobs=jobs or cpu_count(),
                workers=workers,
                progress=progress,
            )
    with progress_bar("Ranking the bootstrap samples") as progress:
        ranking = rank_evaluations(
            read,
            scheme=scheme,
            by=by or None,
            intersect=intersect,
            n_resamples=bootstrap,
            seed=seed,
            aggregate_only=aggregate_only,
            progress=progress,
        )
    write_files(output, ranking_files(ranking))
    Console(highlight=False).print(ranking_table(ranking))
    typer.echo(output / "report.html")


def _refuse_without_evaluate(names: list[str]) -> None:
    if names:
        option = f"--{names[0].replace('_', '-')}"
        cure = "Add --evaluate with the folder of the references, or leave it out."
        raise ValueError(f"`{option}` must come with --evaluate, got evaluations that are made already. {cure}")
