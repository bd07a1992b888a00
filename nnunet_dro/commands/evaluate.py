"""The command `nnunet-dro evaluate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.locked_command import ProtocolFile
from nnunet_dro.commands.locked_options import RUNNING, SCORES, STRATA, LockedEvaluation
from nnunet_dro.commands.shared import (
    CaseTable,
    Output,
    Overwrite,
    RequireFile,
    names_in,
    show,
    stop_if_unmet,
    takes,
)
from nnunet_dro.progress_bar import progress_bar


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
            rich_help_panel=STRATA,
        ),
    ] = None
    dataset_json: Annotated[
        Path | None,
        typer.Option(
            help="dataset.json with the names of the labels; default: in or above REFERENCE.",
            readable=False,
            rich_help_panel=SCORES,
        ),
    ] = None
    require_file: RequireFile = None
    protocol: ProtocolFile = None
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of cases to score at a time; default: one per processor.", rich_help_panel=RUNNING
        ),
    ] = None
    workers: Annotated[
        str | None,
        typer.Option(
            help="Dask scheduler whose workers score the cases, such as tcp://scheduler:8786.",
            rich_help_panel=RUNNING,
        ),
    ] = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with an interrupted run; files that changed are scored again.",
            rich_help_panel=RUNNING,
        ),
    ] = False
    method: Annotated[
        str | None,
        typer.Option(help="Name of the method in tables; default: taken from the path.", rich_help_panel=RUNNING),
    ] = None


@takes(EvaluateOptions)
def evaluate(options: EvaluateOptions) -> None:
    """Report Dice percentiles and other statistics per label and stratum of the cases."""
    from joblib import cpu_count

    from nnunet_dro.commands.protocol_file import read_protocol, under_protocol
    from nnunet_dro.evaluation.evaluation import evaluate as evaluate_files
    from nnunet_dro.evaluation.judging.requirements import parse_requirement, read_requirements
    from nnunet_dro.evaluation.report import evaluation_reports, evaluation_table
    from nnunet_dro.evaluation.result_files import OF_LESIONS, evaluation_files
    from nnunet_dro.evaluation.scoring.instances import Instances
    from nnunet_dro.evaluation.scoring.kept_scores import keeping
    from nnunet_dro.files.output_folder import check_output, write_files
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
