"""The command `nnunet-dro evaluate`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.choices import EmptyRule, MissingRule
from nnunet_dro.commands.completion import complete_column
from nnunet_dro.commands.locked_options import ProtocolFile
from nnunet_dro.commands.shared import (
    Bootstrap,
    CaseTable,
    Output,
    Overwrite,
    RequireFile,
    Seed,
    names_in,
    show,
    stop_if_unmet,
    takes,
)
from nnunet_dro.progress_bar import progress_bar

# The panels of the help, beside the one with what everybody uses.
_STRATA, _SCORES, _LESIONS, _REQUIREMENTS, _RUNNING = "Strata", "Scores", "Lesions", "Requirements", "Running"


@dataclass(frozen=True, kw_only=True)
class LockedEvaluation:
    """The options of `evaluate` that a protocol locks."""

    by: Annotated[
        list[str],
        typer.Option(
            help="Column of the case table to report by (repeatable); centre,pathology for both at once; age:0,18,65 "
            "or volume:q3 to cut numbers; auto:size, auto:components, auto:spacing, auto:volume, auto:contrast or "
            "auto:noise to compute it.",
            autocompletion=complete_column,
        ),
    ] = field(default_factory=list)
    metrics: Annotated[
        str,
        typer.Option(
            help="Any of dice, iou, sensitivity, precision, hd95, hd95_pooled, hd, assd and nsd; with --instances also "
            "lesion_recall, lesion_precision, lesion_f1, pq, sq, rq, lesion_dice, lesion_hd95 and lesion_nsd."
        ),
    ] = "dice"
    overall: Annotated[
        bool,
        typer.Option(
            "--overall/--no-overall",
            help="Report all cases together, too, where --by divides them.",
            rich_help_panel=_STRATA,
        ),
    ] = True
    reference_stratum: Annotated[
        str | None,
        typer.Option(
            help="Stratum that the worst one is compared with, in place of the best one.", rich_help_panel=_STRATA
        ),
    ] = None
    patient: Annotated[
        str | None,
        typer.Option(
            help="Column of the case table that names the patient, where some have several cases.",
            autocompletion=complete_column,
            rich_help_panel=_STRATA,
        ),
    ] = None
    nsd_tolerance_mm: Annotated[
        float, typer.Option(help="Tolerance of the normalised surface distance, in mm.", rich_help_panel=_SCORES)
    ] = 1.0
    empty: Annotated[
        EmptyRule,
        typer.Option(help="Score of a label that reference, prediction or both lack.", rich_help_panel=_SCORES),
    ] = EmptyRule.UNDEFINED
    missing: Annotated[
        MissingRule,
        typer.Option(help="Stop at missing predictions, or score them as failed.", rich_help_panel=_SCORES),
    ] = MissingRule.ERROR
    failure: Annotated[
        str | None,
        typer.Option(
            help="When a case has failed: a condition on one metric. Default: dice<0.5.", rich_help_panel=_SCORES
        ),
    ] = None
    instances: Annotated[
        list[str],
        typer.Option(
            help="Label to compare lesion by lesion, by components (repeatable); * for every label.",
            rich_help_panel=_LESIONS,
        ),
    ] = field(default_factory=list)
    match: Annotated[
        str | None,
        typer.Option(
            help="How lesions are matched: iou:0.5 (one to one), overlap or brats:3. Default: iou:0.5.",
            rich_help_panel=_LESIONS,
        ),
    ] = None
    connectivity: Annotated[
        int | None,
        typer.Option(
            help="Neighbours of a voxel that belong to its lesion: 6, 18 or 26. Default: 26.", rich_help_panel=_LESIONS
        ),
    ] = None
    lesions_above_mm3: Annotated[
        float | None,
        typer.Option(
            help="Count only lesions of the reference above this volume. Default: all.", rich_help_panel=_LESIONS
        ),
    ] = None
    require: Annotated[
        list[str],
        typer.Option(
            help='Quality requirement (repeatable): "pathology=spina_bifida label=cerebellum p5>=0.70".',
            rich_help_panel=_REQUIREMENTS,
        ),
    ] = field(default_factory=list)
    bootstrap: Bootstrap = 2000
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(LockedEvaluation):
    """What `evaluate` takes."""

    reference: Annotated[Path, typer.Argument(help="Folder of reference label maps.", readable=False)]
    prediction: Annotated[
        Path,
        typer.Argument(
            help="Folder of predicted label maps, model folder of nnU-Net, or its summary.json.", readable=False
        ),
    ]
    output: Output
    cases: CaseTable = None
    overwrite: Overwrite = False
    images: Annotated[
        Path | None,
        typer.Option(
            help="Folder of images (CASE_0000.nii.gz ...), for auto:contrast and auto:noise.",
            readable=False,
            rich_help_panel=_STRATA,
        ),
    ] = None
    dataset_json: Annotated[
        Path | None,
        typer.Option(
            help="dataset.json with the names of the labels; default: in or above REFERENCE.",
            readable=False,
            rich_help_panel=_SCORES,
        ),
    ] = None
    require_file: RequireFile = None
    protocol: ProtocolFile = None
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of cases to score at a time; default: one per processor.", rich_help_panel=_RUNNING
        ),
    ] = None
    workers: Annotated[
        str | None,
        typer.Option(
            help="Dask scheduler whose workers score the cases, such as tcp://scheduler:8786.",
            rich_help_panel=_RUNNING,
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with an interrupted run; files that changed are scored again.",
            rich_help_panel=_RUNNING,
        ),
    ] = False
    method: Annotated[
        str | None,
        typer.Option(help="Name of the method in tables; default: taken from the path.", rich_help_panel=_RUNNING),
    ] = None


@takes(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> None:
    """Report Dice percentiles and other statistics per label and stratum of the cases."""
    from joblib import cpu_count

    from nnunet_dro.evaluation.evaluation import evaluate as evaluate_files
    from nnunet_dro.evaluation.instances import Instances
    from nnunet_dro.evaluation.kept_scores import keeping
    from nnunet_dro.evaluation.protocol import read_protocol, under_protocol
    from nnunet_dro.evaluation.report import evaluation_reports, evaluation_table
    from nnunet_dro.evaluation.requirements import parse_requirement, read_requirements
    from nnunet_dro.evaluation.result_files import OF_LESIONS, evaluation_files
    from nnunet_dro.output_folder import check_output, write_files
    from nnunet_dro.viewer import PAGE as VIEWER_PAGE

    requirements = [parse_requirement(text) for text in options.require]
    requirements += read_requirements(options.require_file) if options.require_file else []
    lesions = Instances.of(
        options.instances,
        match=options.match,
        connectivity=options.connectivity,
        above_mm3=options.lesions_above_mm3,
    )
    output = options.output
    check_output(output, overwrite=options.overwrite)
    kept_file = output.absolute().with_name(f".{output.absolute().name}.scored")
    with progress_bar("Reading label maps") as progress, keeping(kept_file, resume=options.resume) as kept:
        evaluation = evaluate_files(
            options.reference,
            options.prediction,
            dataset_json=options.dataset_json,
            cases=options.cases,
            by=options.by,
            images=options.images,
            overall=options.overall,
            reference_stratum=options.reference_stratum,
            patient=options.patient,
            metrics=names_in(options.metrics),
            nsd_tolerance_mm=options.nsd_tolerance_mm,
            empty=options.empty,
            instances=lesions,
            missing=options.missing,
            failure=options.failure,
            n_resamples=options.bootstrap,
            seed=options.seed,
            jobs=options.jobs or cpu_count(),
            workers=options.workers,
            kept=kept,
            method=options.method,
            requirements=requirements,
            progress=progress,
        )
        if options.protocol:
            evaluation = under_protocol(evaluation, read_protocol(options.protocol), options.protocol)
        files = {**evaluation_files(evaluation), **evaluation_reports(evaluation)}
        write_files(output, files, outdated=(*OF_LESIONS, VIEWER_PAGE))
    show(evaluation_table(evaluation), output / "report.html")
    stop_if_unmet(evaluation.about["requirements"])
