"""The command `nnunet-dro rank`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Any

from nnunet_dro.choices import EmptyRule, MissingRule, RankingScheme
from nnunet_dro.commands.completion import complete_column
from nnunet_dro.commands.shared import Output, Overwrite, argument, names_in, option, show
from nnunet_dro.progress_bar import progress_bar

#: An option for predictions that are scored first.
_scoring = partial(option, rich_help_panel="With --evaluate")


def rank(
    *,
    teams: Annotated[
        list[str],
        argument(
            "Output folders of evaluate; with --evaluate, folders of predictions, whose names can be left out.",
            metavar="TEAM=FOLDER...",
        ),
    ],
    output: Output,
    scheme: Annotated[
        RankingScheme, option("Ranking scheme; the ranks of the others are reported beside it.")
    ] = RankingScheme.MEAN,
    by: Annotated[
        list[str] | None,
        option(
            "Columns to rank by, as for evaluate; default: as in the first evaluation.", autocompletion=complete_column
        ),
    ] = None,
    intersect: Annotated[bool, option("Rank by the cases that all evaluations have.", "--intersect")] = False,
    bootstrap: Annotated[int, option("Number of bootstrap samples that are ranked; 0 for none.", min=0)] = 1000,
    seed: Annotated[int, option("Random seed of the bootstrap samples.", min=0)] = 0,
    aggregate_only: Annotated[
        bool, option("Write nothing that names or shows a case, for hidden test sets.", "--aggregate-only")
    ] = False,
    overwrite: Overwrite = False,
    evaluate: Annotated[
        Path | None,
        _scoring("Score folders of predictions first, with these reference label maps.", metavar="REFERENCE"),
    ] = None,
    evaluations: Annotated[
        Path | None,
        _scoring("Folder to keep the evaluations in; a later run goes on there. Default: OUTPUT-evaluations."),
    ] = None,
    dataset_json: Annotated[Path | None, _scoring("dataset.json; default: in or above REFERENCE.")] = None,
    cases: Annotated[Path | None, _scoring("Case table with a row per case; default: as for evaluate.")] = None,
    patient: Annotated[
        str | None, _scoring("Column of the case table that names the patient.", autocompletion=complete_column)
    ] = None,
    metrics: Annotated[str | None, _scoring("Metrics, as for evaluate; default: dice.")] = None,
    nsd_tolerance_mm: Annotated[
        float | None, _scoring("Tolerance of the normalised surface distance; default: 1 mm.")
    ] = None,
    empty: Annotated[
        EmptyRule | None, _scoring("Score of a label that reference or prediction lacks; as for evaluate.")
    ] = None,
    missing: Annotated[
        MissingRule | None, _scoring("Stop at missing predictions (default), or score them as failed.")
    ] = None,
    jobs: Annotated[
        int | None, _scoring("Number of cases to score at a time; default: one per processor.", min=1)
    ] = None,
    workers: Annotated[
        str | None, _scoring("Dask scheduler whose workers score the cases, such as tcp://scheduler:8786.")
    ] = None,
) -> None:
    """Rank many methods, with the stability of the ranks, tests of all pairs and ranks per stratum."""
    scoring: dict[str, Any] = {
        **{"dataset_json": dataset_json, "cases": cases, "patient": patient, "metrics": metrics},
        **{"nsd_tolerance_mm": nsd_tolerance_mm, "empty": empty, "missing": missing},
    }
    running: dict[str, Any] = {"jobs": jobs, "workers": workers}
    given = [name for name, value in {**scoring, **running, "evaluations": evaluations}.items() if value is not None]
    if evaluate is None and given:
        cure = "Add --evaluate with the folder of the references, or leave it out."
        raise ValueError(f"`{given[0]}` must come with --evaluate, got evaluations that are made already. {cure}")
    from joblib import cpu_count

    from nnunet_dro.evaluation.result_files import named_evaluations, read_evaluation
    from nnunet_dro.evaluation.stratifying.division import default_case_table
    from nnunet_dro.files.output_folder import check_output, write_files
    from nnunet_dro.ranking.files import ranking_files
    from nnunet_dro.ranking.ranking import rank_evaluations
    from nnunet_dro.ranking.submissions import ScoringOptions, named_submissions, score_submissions
    from nnunet_dro.ranking.tables import ranking_table

    check_output(output, overwrite=overwrite)
    if evaluate is None:
        read = {name: read_evaluation(folder) for name, folder in named_evaluations(teams).items()}
    else:
        submissions = named_submissions(teams)
        kept = evaluations or output.absolute().with_name(f"{output.absolute().name}-evaluations")
        scoring["cases"] = cases or default_case_table(evaluate, by or [], patient)
        scoring["metrics"] = None if metrics is None else tuple(names_in(metrics))
        chosen = ScoringOptions(**{name: value for name, value in scoring.items() if value is not None})
        running["jobs"] = jobs or cpu_count()
        with progress_bar("Scoring the submissions") as progress:
            read = score_submissions(evaluate, submissions, kept, chosen, **running, progress=progress)
    with progress_bar("Ranking the bootstrap samples") as progress:
        ranking = rank_evaluations(
            read,
            scheme=scheme,
            by=by,
            intersect=intersect,
            n_resamples=bootstrap,
            seed=seed,
            aggregate_only=aggregate_only,
            progress=progress,
        )
    write_files(output, ranking_files(ranking))
    show(ranking_table(ranking), output / "report.html")
