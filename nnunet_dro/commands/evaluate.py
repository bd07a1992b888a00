"""The command `nnunet-dro evaluate`."""

from nnunet_dro.choices import EmptyRule, MissingRule
from nnunet_dro.commands import evaluate_options as options
from nnunet_dro.commands.locked_options import ProtocolFile
from nnunet_dro.commands.shared import Bootstrap, CaseTable, Output, Overwrite, RequireFile, Seed, show, stop_if_unmet
from nnunet_dro.progress_bar import progress_bar


def evaluate(
    reference: options.Reference,
    prediction: options.Prediction,
    output: Output,
    dataset_json: options.DatasetJson = None,
    cases: CaseTable = None,
    by: options.By = None,
    images: options.Images = None,
    overall: options.Overall = True,
    reference_stratum: options.ReferenceStratum = None,
    patient: options.Patient = None,
    metrics: options.Metrics = "dice",
    nsd_tolerance_mm: options.NsdTolerance = 1.0,
    empty: options.Empty = EmptyRule.UNDEFINED,
    instances: options.Instances = None,
    match: options.Match = None,
    connectivity: options.Connectivity = None,
    lesions_above_mm3: options.LesionsAbove = None,
    missing: options.Missing = MissingRule.ERROR,
    bootstrap: Bootstrap = 2000,
    seed: Seed = 0,
    jobs: options.Jobs = None,
    workers: options.Workers = None,
    resume: options.Resume = False,
    method: options.Method = None,
    require: options.Require = None,
    require_file: RequireFile = None,
    protocol: ProtocolFile = None,
    overwrite: Overwrite = False,
) -> None:
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

    requirements = [parse_requirement(text) for text in require or ()]
    requirements += read_requirements(require_file) if require_file else []
    lesions = Instances.of(instances or (), match=match, connectivity=connectivity, above_mm3=lesions_above_mm3)
    check_output(output, overwrite=overwrite)
    kept_file = output.absolute().with_name(f".{output.absolute().name}.scored")
    with progress_bar("Reading label maps") as progress, keeping(kept_file, resume=resume) as kept:
        evaluation = evaluate_files(
            reference,
            prediction,
            dataset_json=dataset_json,
            cases=cases,
            by=by or (),
            images=images,
            overall=overall,
            reference_stratum=reference_stratum,
            patient=patient,
            metrics=[name.strip() for name in metrics.split(",") if name.strip()],
            nsd_tolerance_mm=nsd_tolerance_mm,
            empty=empty,
            instances=lesions,
            missing=missing,
            n_resamples=bootstrap,
            seed=seed,
            jobs=jobs or cpu_count(),
            workers=workers,
            kept=kept,
            method=method,
            requirements=requirements,
            progress=progress,
        )
        if protocol:
            evaluation = under_protocol(evaluation, read_protocol(protocol), protocol)
        files = {**evaluation_files(evaluation), **evaluation_reports(evaluation)}
        write_files(output, files, outdated=(*OF_LESIONS, VIEWER_PAGE))
    show(evaluation_table(evaluation), output / "report.html")
    stop_if_unmet(evaluation.about["requirements"])
