"""The commands of the evaluation: evaluate, compare, report and splits. Heavy modules are imported inside them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nnunet_dro.choices import EmptyRule, MissingRule
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
    Path | None, typer.Option(help="Case table with a row per case: CSV, TSV, XLSX or JSON.", readable=False)
]


_Reference = Annotated[Path, typer.Argument(help="Folder of reference label maps.", readable=False)]
_Prediction = Annotated[
    Path,
    typer.Argument(
        help="Folder of predicted label maps, model folder of nnU-Net, or its summary.json.", readable=False
    ),
]
_DatasetJson = Annotated[
    Path | None,
    typer.Option(help="dataset.json with the names of the labels; default: in or above REFERENCE.", readable=False),
]
_By = Annotated[
    list[str] | None,
    typer.Option(
        help="Column of the case table to report by (repeatable); centre,pathology for both at once; age:0,18,65 "
        "or volume:q3 to cut numbers."
    ),
]
_Overall = Annotated[
    bool, typer.Option("--overall/--no-overall", help="Report all cases together, too, where --by divides them.")
]
_ReferenceStratum = Annotated[
    str | None, typer.Option(help="Stratum that the worst one is compared with, in place of the best one.")
]
_Patient = Annotated[
    str | None, typer.Option(help="Column of the case table that names the patient, where some have several cases.")
]
_Metrics = Annotated[
    str, typer.Option(help="Any of dice, iou, sensitivity, precision, hd95, hd95_pooled, hd, assd and nsd.")
]
_NsdTolerance = Annotated[float, typer.Option(help="Tolerance of the normalised surface distance, in mm.")]
_Empty = Annotated[EmptyRule, typer.Option(help="Score of a label that reference, prediction or both lack.")]
_Missing = Annotated[MissingRule, typer.Option(help="Stop at missing predictions, or score them as failed.")]
_IgnoreUnknownCases = Annotated[
    bool, typer.Option("--ignore-unknown-cases", help="Ignore rows of the case table without a reference.")
]
_Jobs = Annotated[
    int | None, typer.Option(min=1, help="Number of cases to score at a time; default: one per processor.")
]
_Workers = Annotated[
    str | None, typer.Option(help="Dask scheduler whose workers score the cases, such as tcp://scheduler:8786.")
]
_Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with an interrupted run; files that changed are scored again.")
]
_Method = Annotated[str | None, typer.Option(help="Name of the method in tables; default: taken from the path.")]
_Require = Annotated[
    list[str] | None,
    typer.Option(help='Quality requirement (repeatable): "pathology=spina_bifida label=cerebellum p5>=0.70".'),
]
_RequireFile = Annotated[Path | None, typer.Option(help="File of quality requirements, one per line.", readable=False)]


def evaluate(
    reference: _Reference,
    prediction: _Prediction,
    output: Output,
    dataset_json: _DatasetJson = None,
    cases: CaseTable = None,
    by: _By = None,
    overall: _Overall = True,
    reference_stratum: _ReferenceStratum = None,
    patient: _Patient = None,
    metrics: _Metrics = "dice",
    nsd_tolerance_mm: _NsdTolerance = 1.0,
    empty: _Empty = EmptyRule.UNDEFINED,
    missing: _Missing = MissingRule.ERROR,
    ignore_unknown_cases: _IgnoreUnknownCases = False,
    bootstrap: Bootstrap = 2000,
    seed: Seed = 0,
    jobs: _Jobs = None,
    workers: _Workers = None,
    resume: _Resume = False,
    method: _Method = None,
    require: _Require = None,
    require_file: _RequireFile = None,
    overwrite: Overwrite = False,
) -> None:
    """Report Dice percentiles and other statistics per label and stratum of the cases."""
    from joblib import cpu_count

    from nnunet_dro.evaluation.evaluation import evaluate as evaluate_files
    from nnunet_dro.evaluation.kept_scores import keeping
    from nnunet_dro.evaluation.report import evaluation_reports, evaluation_table
    from nnunet_dro.evaluation.requirements import parse_requirement, read_requirements
    from nnunet_dro.evaluation.result_files import evaluation_files
    from nnunet_dro.output_folder import check_output, write_files

    requirements = [parse_requirement(text) for text in require or ()]
    requirements += read_requirements(require_file) if require_file else []
    check_output(output, overwrite=overwrite)
    kept_file = output.absolute().with_name(f".{output.absolute().name}.scored")
    with progress_bar("Reading label maps") as progress, keeping(kept_file, resume=resume) as kept:
        evaluation = evaluate_files(
            reference,
            prediction,
            dataset_json=dataset_json,
            cases=cases,
            by=by or (),
            overall=overall,
            reference_stratum=reference_stratum,
            patient=patient,
            metrics=[name.strip() for name in metrics.split(",") if name.strip()],
            nsd_tolerance_mm=nsd_tolerance_mm,
            empty=empty,
            missing=missing,
            ignore_unknown_cases=ignore_unknown_cases,
            n_resamples=bootstrap,
            seed=seed,
            jobs=jobs or cpu_count(),
            workers=workers,
            kept=kept,
            method=method,
            requirements=requirements,
            progress=progress,
        )
        write_files(output, {**evaluation_files(evaluation), **evaluation_reports(evaluation)})
    show(evaluation_table(evaluation), output / "report.html")
    _stop_if_unmet(evaluation.about["requirements"])


def compare(
    evaluations: Annotated[
        list[str],
        typer.Argument(metavar="NAME=FOLDER...", help="Output folders of evaluate; the first is the baseline."),
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
    bootstrap: Bootstrap = 2000,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Compare methods case by case and report the differences, with intervals and tests."""
    from nnunet_dro.evaluation.comparison import compare as compare_evaluations
    from nnunet_dro.evaluation.report import comparison_reports, comparison_table
    from nnunet_dro.evaluation.result_files import comparison_files, named_evaluations, read_evaluation
    from nnunet_dro.output_folder import check_output, write_files

    folders = named_evaluations(evaluations)
    check_output(output, overwrite=overwrite)
    read = {name: read_evaluation(folder) for name, folder in folders.items()}
    comparison = compare_evaluations(
        read, by=by or None, intersect=intersect, margin=margin, n_resamples=bootstrap, seed=seed
    )
    write_files(output, {**comparison_files(comparison), **comparison_reports(comparison)})
    show(comparison_table(comparison), output / "report.html")


def report(
    evaluation: Annotated[
        Path, typer.Argument(help="Output folder of evaluate whose reports are made again.", readable=False)
    ],
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of images (CASE_0000.nii.gz ...), for pictures of the worst cases.", readable=False),
    ] = None,
    per_stratum: Annotated[int, typer.Option(min=1, help="Number of pictures per stratum and label.")] = 2,
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
    from nnunet_dro.output_folder import write_files

    read = read_evaluation(evaluation)
    gallery = []
    if images is not None:
        with progress_bar("Drawing the worst cases") as progress:
            gallery = pictures_of(read, images, per_stratum=per_stratum, progress=progress)
    if pack is not None:
        from nnunet_dro.evidence import evidence_pack
        from nnunet_dro.output_folder import check_output

        check_output(pack, overwrite=False)
        write_files(pack, evidence_pack(read, gallery))
        typer.echo(pack / "README.md")
        return
    write_files(evaluation, evaluation_reports(read, gallery))
    typer.echo(evaluation / "report.html")


def plan(
    requirement: Annotated[
        str, typer.Argument(help='Quality requirement with confidence: "pathology=* label=tumour p5>=0.70@95".')
    ],
    pilot: Annotated[
        Path | None, typer.Option(help="Output folder of evaluate, to estimate the chance to pass.", readable=False)
    ] = None,
    n: Annotated[list[int] | None, typer.Option(min=1, help="Number of cases in each stratum (repeatable).")] = None,
) -> None:
    """Say how many cases a requirement with confidence needs, and the chance that it is met."""
    from rich.console import Console

    from nnunet_dro.evaluation.outcomes import rows_of
    from nnunet_dro.evaluation.planning import chances
    from nnunet_dro.evaluation.report.plan import plan_table, planned_sizes
    from nnunet_dro.evaluation.requirements import parse_requirement
    from nnunet_dro.evaluation.result_files import read_evaluation

    parsed = parse_requirement(requirement)
    sizes = planned_sizes(parsed, n or [])
    found = None
    if pilot is not None:
        evaluation = read_evaluation(pilot)
        found = chances(evaluation, parsed, rows_of(evaluation.strata, parsed, planned=True), sizes)
    Console(highlight=False).print(plan_table(parsed, sizes, found))


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
    ignore_unknown_cases: Annotated[
        bool, typer.Option("--ignore-unknown-cases", help="Ignore rows of the case table without a label map.")
    ] = False,
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
        ignore_unknown_cases=ignore_unknown_cases,
        force=force,
    )
    Console(highlight=False).print(splits_table(made.table, made.notes))
    typer.echo(made.path)


def _stop_if_unmet(requirements: Sequence[Mapping[str, Any]]) -> None:
    unmet = [outcome["line"] for outcome in requirements if not outcome["passed"]]
    for line in unmet:
        typer.echo(f"nnunet-dro: requirement not met: {line}", err=True)
    if unmet:
        raise typer.Exit(_REQUIREMENT_FAILED)


def show(table: Any, page: Path) -> None:
    """Print a table, and on the last line where the page is."""
    from rich.console import Console

    Console(highlight=False).print(table)
    typer.echo(page)
