"""The command `nnunet-dro rank`."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nnunet_dro.bad_input import InputError
from nnunet_dro.choices import EmptyRule, InvalidRule, MissingRule, PatientScore
from nnunet_dro.commands.completion import complete_column
from nnunet_dro.commands.named_folders import named_evaluations
from nnunet_dro.commands.shared import Output, Overwrite, argument, option, show_with_page, takes
from nnunet_dro.commands.usage import stop
from nnunet_dro.evaluation.inputs.flags import declared
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.progress_bar import progress_bar
from nnunet_dro.ranking.options import RankOptions

#: An option for predictions that are scored first.
_own = partial(option, rich_help_panel="With --evaluate")

_EVALUATE = declared(EvaluateOptions)

#: The exit code where the ranking is written and invalid predictions are scored as failed.
SOME_INVALID = 5

#: The options of evaluate that predictions are scored by.
_SCORING = (
    "dataset_json",
    "cases",
    "patient",
    "patient_score",
    "metrics",
    "nsd_tolerance_mm",
    "empty",
    "missing",
    "jobs",
    "workers",
)


def _scoring(name: str, text: str = "") -> Any:
    """An option of evaluate for predictions that are scored first.

    Its field is None where it is left out. The help is that of evaluate, with the default; or else
    the text.
    """
    flag = _EVALUATE[name].flag
    default = getattr(EvaluateOptions, name)
    if not text:
        text = flag.help
        if default is not None:
            text += f" Default: {getattr(default, 'value', default)}."
    completion = complete_column if flag.is_column else None
    return _own(text, min=flag.least, autocompletion=completion)


@dataclass(frozen=True, kw_only=True)
class _Options(RankOptions):
    teams: Annotated[
        list[str],
        argument(
            "Output folders of evaluate, or tables of MIST (CSV) or panoptica (TSV); with "
            "--evaluate, folders of predictions, whose names can be left out.",
            metavar="TEAM=FOLDER...",
        ),
    ]
    output: Output
    overwrite: Overwrite = False
    evaluate: Annotated[
        Path | None,
        _own(
            "Score folders of predictions first, with these reference label maps.",
            metavar="REFERENCE",
        ),
    ] = None
    kept: Annotated[  # errors about `evaluations` mean those of the teams
        Path | None,
        _own(
            "Folder to keep the evaluations in; later runs go on. Default: OUTPUT-evaluations.",
            "--evaluations",
        ),
    ] = None
    dataset_json: Annotated[Path | None, _scoring("dataset_json")] = None
    cases: Annotated[Path | None, _scoring("cases")] = None
    patient: Annotated[str | None, _scoring("patient")] = None
    patient_score: Annotated[PatientScore | None, _scoring("patient_score")] = None
    metrics: Annotated[
        str | None, _scoring("metrics", "Metrics, as for evaluate; default: dice.")
    ] = None
    nsd_tolerance_mm: Annotated[float | None, _scoring("nsd_tolerance_mm")] = None
    empty: Annotated[
        EmptyRule | None,
        _scoring("empty", "Score of a label that one or both maps lack; default: diagonal."),
    ] = None
    missing: Annotated[MissingRule | None, _scoring("missing")] = None
    invalid: Annotated[
        InvalidRule | None,
        _own(
            "What to do with predictions that cannot be scored: stop and list them (error), or "
            "score them as failed and end with exit code 5 (worst). Default: error."
        ),
    ] = None
    jobs: Annotated[int | None, _scoring("jobs")] = None
    workers: Annotated[str | None, _scoring("workers")] = None


@takes(_Options)
def rank(options: _Options) -> None:
    """Rank methods, with the stability of the ranks, tests of all pairs and ranks per stratum."""
    from nnunet_dro.evaluation.evaluating.other_tables import read_scores
    from nnunet_dro.files.output_folder import check_output, write_files
    from nnunet_dro.ranking.page import ranking_files
    from nnunet_dro.ranking.ranking import rank_evaluations
    from nnunet_dro.ranking.tables import ranking_table

    values = {name: getattr(options, name) for name in _SCORING}
    scoring = {name: value for name, value in values.items() if value is not None}
    if options.evaluate is None:
        _check_none_of_evaluate(options, scoring)
    inputs = [entry.partition("=")[2] or entry for entry in options.teams]
    check_output(
        options.output,
        overwrite=options.overwrite,
        inputs=inputs,
        kinds=("ranking",),
    )

    if options.evaluate is None:
        folders = named_evaluations(options.teams)
        evaluations = {name: read_scores(folder) for name, folder in folders.items()}
    else:
        evaluations = _scored(options, options.evaluate, scoring)
    with progress_bar("Ranking the bootstrap samples") as progress:
        ranking = rank_evaluations(evaluations, options, progress=progress)
    write_files(options.output, ranking_files(ranking), outdated=("cases.csv", "invalid.csv"))
    show_with_page(ranking_table(ranking), options.output / "report.html")
    if not ranking.invalid.empty:
        names = ", ".join(ranking.invalid["team"].unique())
        stop(f"invalid predictions are scored as failed: {names}; see invalid.csv", SOME_INVALID)


def _check_none_of_evaluate(options: _Options, scoring: Collection[str]) -> None:
    """Check that no option is given that is for predictions that are scored first."""
    names = [*scoring, *(name for name in ("kept", "invalid") if getattr(options, name))]
    if names:
        raise InputError(
            names[0],
            must="come with --evaluate",
            got="evaluations that are made already",
            cure="Add --evaluate with the folder of the references, or leave it out.",
        )


def _scored(options: _Options, reference: Path, scoring: dict[str, Any]) -> dict[str, Any]:
    """The evaluations of folders of predictions, which are made first, by team."""
    from joblib import cpu_count

    from nnunet_dro.evaluation.stratifying.division import default_case_table
    from nnunet_dro.ranking.invalid_files import InvalidFilesError
    from nnunet_dro.ranking.submissions import named_submissions, score_submissions

    submissions = named_submissions(options.teams)
    values = {name: _EVALUATE[name].flag.value(value) for name, value in scoring.items()}
    values["cases"] = options.cases or default_case_table(reference, options.by, options.patient)
    values["jobs"] = options.jobs or cpu_count()
    # A missed label needs a distance.
    values.setdefault("empty", EmptyRule.DIAGONAL)
    evaluate_options = EvaluateOptions(**values)

    output = options.output.absolute()
    kept = options.kept or output.with_name(f"{output.name}-evaluations")
    try:
        with progress_bar("Scoring the submissions") as progress:
            return score_submissions(
                reference,
                submissions,
                kept,
                evaluate_options,
                invalid=options.invalid or InvalidRule.ERROR,
                progress=progress,
            )
    except InvalidFilesError as error:
        for team, cases in error.invalid.items():
            for case, reason in cases.items():
                typer.echo(f"nnunet-dro: {team}, {case}: {reason}", err=True)
        raise
