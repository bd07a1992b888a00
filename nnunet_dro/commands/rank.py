"""The command `nnunet-dro rank`."""

from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from nnunet_dro.choices import EmptyRule, MissingRule, RankingScheme
from nnunet_dro.commands.completion import complete_column
from nnunet_dro.commands.shared import Output, Overwrite, argument, option, show
from nnunet_dro.evaluation.options import EvaluateOptions, declared
from nnunet_dro.progress_bar import progress_bar

#: An option for predictions that are scored first.
_own = partial(option, rich_help_panel="With --evaluate")

#: The options of evaluate, and what they are without words.
_OF_EVALUATE, _DEFAULTS = declared(EvaluateOptions), {one.name: one.default for one in fields(EvaluateOptions)}


def _scoring(name: str, text: str = "") -> Any:
    """An option of evaluate for predictions that are scored first; without a value where it is not given."""
    flag, default = _OF_EVALUATE[name].flag, _DEFAULTS[name]
    shown = "" if text or default is None else f" Default: {getattr(default, 'value', default)}."
    completion = complete_column if flag.is_column else None
    return _own(f"{text or flag.help}{shown}", min=flag.least, autocompletion=completion)


def rank(
    *,
    teams: Annotated[
        list[str],
        argument(
            "Output folders of evaluate, or tables of MIST (CSV) or panoptica (TSV); with --evaluate, folders of "
            "predictions, whose names can be left out.",
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
        Path | None, _own("Score folders of predictions first, with these reference label maps.", metavar="REFERENCE")
    ] = None,
    kept: Annotated[  # errors about `evaluations` mean those of the teams
        Path | None,
        _own(
            "Folder to keep the evaluations in; a later run goes on there. Default: OUTPUT-evaluations.",
            "--evaluations",
        ),
    ] = None,
    dataset_json: Annotated[Path | None, _scoring("dataset_json")] = None,
    cases: Annotated[Path | None, _scoring("cases")] = None,
    patient: Annotated[str | None, _scoring("patient")] = None,
    metrics: Annotated[str | None, _scoring("metrics", "Metrics, as for evaluate; default: dice.")] = None,
    nsd_tolerance_mm: Annotated[float | None, _scoring("nsd_tolerance_mm")] = None,
    empty: Annotated[EmptyRule | None, _scoring("empty")] = None,
    missing: Annotated[MissingRule | None, _scoring("missing")] = None,
    jobs: Annotated[int | None, _scoring("jobs")] = None,
    workers: Annotated[str | None, _scoring("workers")] = None,
) -> None:
    """Rank many methods, with the stability of the ranks, tests of all pairs and ranks per stratum."""
    scoring: dict[str, Any] = {
        **{"dataset_json": dataset_json, "cases": cases, "patient": patient, "metrics": metrics},
        **{"nsd_tolerance_mm": nsd_tolerance_mm, "empty": empty, "missing": missing, "jobs": jobs, "workers": workers},
    }
    given = [name for name, value in {**scoring, "kept": kept}.items() if value is not None]
    if evaluate is None and given:
        cure = "Add --evaluate with the folder of the references, or leave it out."
        raise ValueError(f"`{given[0]}` must come with --evaluate, got evaluations that are made already. {cure}")
    from joblib import cpu_count

    from nnunet_dro.evaluation.other_tables import read_scores
    from nnunet_dro.evaluation.result_files import named_evaluations
    from nnunet_dro.evaluation.stratifying.division import default_case_table
    from nnunet_dro.files.output_folder import check_output, write_files
    from nnunet_dro.ranking.page import ranking_files
    from nnunet_dro.ranking.ranking import rank_evaluations
    from nnunet_dro.ranking.submissions import named_submissions, score_submissions
    from nnunet_dro.ranking.tables import ranking_table

    check_output(output, overwrite=overwrite)
    if evaluate is None:
        read = {name: read_scores(folder) for name, folder in named_evaluations(teams).items()}
    else:
        submissions = named_submissions(teams)
        kept = kept or output.absolute().with_name(f"{output.absolute().name}-evaluations")
        table = cases or default_case_table(evaluate, by or [], patient)
        chosen = {name: _OF_EVALUATE[name].flag.value(value) for name, value in scoring.items() if value is not None}
        options = EvaluateOptions(**{**chosen, "cases": table, "jobs": jobs or cpu_count()})
        with progress_bar("Scoring the submissions") as progress:
            read = score_submissions(evaluate, submissions, kept, options, progress=progress)
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
    write_files(output, ranking_files(ranking), outdated=("cases.csv",))
    show(ranking_table(ranking), output / "report.html")
