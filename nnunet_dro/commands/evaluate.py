"""The commands of the evaluation: evaluate, compare, report and splits. Heavy modules are imported inside them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nnunet_dro.choices import EmptyRule, MissingRule
from nnunet_dro.commands import evaluate_options as options
from nnunet_dro.commands.locked_options import ProtocolFile
from nnunet_dro.pages.wording import plain
from nnunet_dro.progress_bar import progress_bar

_REQUIREMENT_FAILED = 3

# Typer does not check paths: it would report an unreadable one in a box of five lines.
Output = Annotated[
    Path, typer.Option("--output", "-o", help="Folder for the results; must be new or empty.", readable=False)
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote to the output folder.")]
Bootstrap = Annotated[
    int, typer.Option(min=0, help="Number of random draws for the 95 % intervals of means; 0 for no intervals.")
]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of the intervals.")]
CaseTable = Annotated[
    Path | None,
    typer.Option(help="Case table (CSV, TSV, XLSX, JSON); default: cases.csv of the dataset.", readable=False),
]

RequireFile = Annotated[Path | None, typer.Option(help="File of quality requirements, one per line.", readable=False)]


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
    _stop_if_unmet(evaluation.about["requirements"])


def compare(
    evaluations: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=FOLDER...",
            help="Output folders of evaluate; the first is the baseline. ERM=seed0,seed1,seed2 for several trainings.",
        ),
    ],
    output: Output,
    by: Annotated[
        list[str] | None, typer.Option(help="Columns to report by, as for evaluate; default: as in the baseline.")
    ] = None,
    intersect: Annotated[
        bool, typer.Option("--intersect", help="Compare only the cases that all evaluations have.")
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(help="How much worse the mean may be, in percentage points (distances: mm), to be not worse."),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help='Requirement on a difference (repeatable): "pathology=rare mean_difference_low>=0".'),
    ] = None,
    require_file: RequireFile = None,
    bootstrap: Bootstrap = 2000,
    seed: Seed = 0,
    protocol: ProtocolFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Compare methods case by case and report the differences, with intervals and tests."""
    from nnunet_dro.evaluation.comparison import compare as compare_evaluations
    from nnunet_dro.evaluation.protocol import check_made_under, read_protocol, under_protocol
    from nnunet_dro.evaluation.report import comparison_reports, comparison_table
    from nnunet_dro.evaluation.requirements import COMPARISON, parse_requirement, read_requirements
    from nnunet_dro.evaluation.result_files import comparison_files, named_trainings, read_evaluation
    from nnunet_dro.output_folder import check_output, write_files

    requirements = [parse_requirement(text, COMPARISON) for text in require or ()]
    requirements += read_requirements(require_file, COMPARISON) if require_file else []
    folders = named_trainings(evaluations)
    check_output(output, overwrite=overwrite)
    read = {name: [read_evaluation(folder) for folder in own] for name, own in folders.items()}
    if protocol:
        check_made_under(read_protocol(protocol), protocol, read)
    comparison = compare_evaluations(
        read,
        by=by or None,
        intersect=intersect,
        margin=margin,
        requirements=requirements,
        n_resamples=bootstrap,
        seed=seed,
    )
    if protocol:
        comparison = under_protocol(comparison, read_protocol(protocol), protocol)
    write_files(output, {**comparison_files(comparison), **comparison_reports(comparison)})
    show(comparison_table(comparison), output / "report.html")
    _stop_if_unmet(comparison.about["requirements"])


def report(
    evaluation: Annotated[
        Path, typer.Argument(help="Output folder of evaluate whose reports are made again.", readable=False)
    ],
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of images (CASE_0000.nii.gz ...), for pictures of the worst cases.", readable=False),
    ] = None,
    per_stratum: Annotated[int, typer.Option(min=1, help="Number of cases to show per stratum and label.")] = 2,
    viewer: Annotated[
        bool, typer.Option("--viewer", help="Write cases.html, too: the worst cases in every plane and in 3-D.")
    ] = False,
    viewer_mb: Annotated[
        float | None, typer.Option(help="Largest size of cases.html, in MB.", show_default="100")
    ] = None,
    pack: Annotated[
        Path | None,
        typer.Option(
            help="New folder for everything to put on record: Table 1, model card, what CLAIM 2024 asks, all reports.",
            readable=False,
        ),
    ] = None,
) -> None:
    """Make the reports of an evaluation again, with pictures of the worst cases."""
    from nnunet_dro.evaluation.report import evaluation_reports, pictures_of
    from nnunet_dro.evaluation.result_files import read_evaluation
    from nnunet_dro.output_folder import check_output, write_files
    from nnunet_dro.viewer import MOST_MB, PAGE, viewer_page

    if viewer and images is None:
        raise ValueError("`viewer` must be given with the images that it shows, got none. Name their folder: --images.")
    if viewer_mb is not None and not viewer:
        raise ValueError(f"`viewer_mb` bounds {PAGE}, got it without --viewer, which writes that page. Give both.")
    if pack is not None:
        check_output(pack, overwrite=False)
    read = read_evaluation(evaluation)
    gallery, page = [], None
    if images is not None:
        with progress_bar("Drawing the worst cases") as progress:
            gallery = pictures_of(read, images, per_stratum=per_stratum, progress=progress)
    if viewer and images is not None:
        most_mb = MOST_MB if viewer_mb is None else viewer_mb
        with progress_bar("Packing the worst cases") as progress:
            page = viewer_page(read, images, per_stratum=per_stratum, most_mb=most_mb, progress=progress)
    links, pages = (page.links, {page.name: page.html}) if page else ({}, {})
    if pack is not None:
        from nnunet_dro.evidence import evidence_pack

        files, folder, main = evidence_pack(read, gallery, links), pack, "README.md"
    else:
        files, folder, main = evaluation_reports(read, gallery, links), evaluation, "report.html"
    # Without its links, an earlier viewer would be a page that nothing leads to, perhaps of other scores.
    for name in write_files(folder, files | pages, outdated=(PAGE,)):
        said = f"{folder / name} of an earlier run was deleted. Give --viewer to write it again."
        typer.echo(f"nnunet-dro: {plain(said)}", err=True)
    typer.echo(folder / main)
    if page:
        typer.echo(folder / page.name)
        for line in (f"{page.name} has {page.summary}.", *page.notes):
            typer.echo(f"nnunet-dro: {plain(line)}", err=True)


def plan(
    requirement: Annotated[
        str, typer.Argument(help='Quality requirement with confidence: "pathology=* label=tumour p5>=0.70@95".')
    ],
    pilot: Annotated[
        Path | None, typer.Option(help="Output folder of evaluate, to estimate the chance to pass.", readable=False)
    ] = None,
    n: Annotated[list[int] | None, typer.Option(min=1, help="Number of cases in each stratum (repeatable).")] = None,
    with_label: Annotated[
        float | None,
        typer.Option(help="Share of the cases that have the label, such as 0.9.", show_default="as in the pilot"),
    ] = None,
) -> None:
    """Say how many cases a requirement with confidence needs, and the chance that it is met."""
    from rich.console import Console

    from nnunet_dro.evaluation.outcomes import rows_of
    from nnunet_dro.evaluation.planning import chances, check_share, least_share
    from nnunet_dro.evaluation.report.plan import plan_table, planned_sizes
    from nnunet_dro.evaluation.requirements import parse_requirement
    from nnunet_dro.evaluation.result_files import read_evaluation

    parsed = parse_requirement(requirement)
    check_share(with_label)
    share, found = with_label, None
    if pilot is not None:
        evaluation = read_evaluation(pilot)
        rows = rows_of(evaluation.strata, parsed, planned=True)
        share = share or least_share(rows)
        sizes = planned_sizes(parsed, n or [], share=share)
        found = chances(evaluation, parsed, rows, sizes, share=with_label)
    Console(highlight=False).print(plan_table(parsed, planned_sizes(parsed, n or [], share=share), found, share=share))


def splits(
    dataset: Annotated[str, typer.Argument(metavar="RAW_DATASET", help="Folder, name or number of a raw dataset.")],
    cases: CaseTable = None,
    stratify: Annotated[str | None, typer.Option(help="Column whose strata are spread evenly over the folds.")] = None,
    group: Annotated[
        str | None, typer.Option(help="Column that names the patient; no patient is in two folds.")
    ] = None,
    leave_out: Annotated[
        str | None, typer.Option(help="Column that names the centre; every centre becomes a fold.")
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of folds; ignored with --leave-out.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; default: splits_final.json for nnU-Net.", readable=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write nnU-Net's splits_final.json: stratified, patient-safe or leave-one-centre-out."""
    from rich.console import Console

    from nnunet_dro.evaluation.report import splits_table
    from nnunet_dro.evaluation.splits import split_dataset

    made = split_dataset(
        dataset,
        cases,
        stratify=stratify,
        group=group,
        leave_out=leave_out,
        folds=folds,
        output=output,
        force=force,
    )
    Console(highlight=False).print(splits_table(made.table, made.notes))
    typer.echo(made.path)


def _stop_if_unmet(requirements: Sequence[Mapping[str, Any]]) -> None:
    unmet = [outcome for outcome in requirements if not outcome["passed"]]
    for outcome in unmet:
        said = "cannot tell if a requirement is met" if outcome["verdict"] == "cannot tell" else "requirement not met"
        typer.echo(f"nnunet-dro: {said}: {outcome['line']}", err=True)
    if unmet:
        raise typer.Exit(_REQUIREMENT_FAILED)


def show(table: Any, page: Path) -> None:
    """Print a table, and on the last line where the page is."""
    from rich.console import Console

    Console(highlight=False).print(table)
    typer.echo(page)
