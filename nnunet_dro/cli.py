"""The command `nnunet-dro`: parse, call one function, print. Everything heavy is imported inside the commands."""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from nnunet_dro import __version__
from nnunet_dro.choices import EmptyRule, MissingRule
from nnunet_dro.nnunet.command import CommandError, Device
from nnunet_dro.progress_bar import progress_bar
from nnunet_dro.tuning import tune

_BAD_INPUT, _REQUIREMENT_FAILED, _INTERRUPTED = 2, 3, 130


class _Commands(TyperGroup):
    """Every command stops the same way: bad input is one line and exit code 2, Ctrl-C is exit code 130."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _stop("interrupted", _INTERRUPTED)
        except BrokenPipeError:
            # Whoever read the output has seen enough: for typer to end quietly.
            raise
        except (ValueError, OSError) as error:
            _stop(str(error), _BAD_INPUT)
        except typer.BadParameter as error:
            if type(error) is not typer.BadParameter:
                raise  # for a missing argument, typer shows how the command is used
            _stop(error.format_message(), _BAD_INPUT)


def _stop(message: str, code: int) -> None:
    typer.echo(f"nnunet-dro: {' '.join(message.splitlines())}", err=True)
    raise typer.Exit(code)


app = typer.Typer(
    name="nnunet-dro",
    cls=_Commands,
    help="nnU-Net v2, trained and evaluated for its hardest patients.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

# Paths are not for typer to check: it would tell what is not readable in a box of five lines.
Output = Annotated[Path, typer.Option("--output", "-o", help="Folder for the results; new or empty.", readable=False)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what an earlier run wrote to the output folder.")]
Bootstrap = Annotated[int, typer.Option(min=0, help="Resamples for the 95 % intervals; 0 for none.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the bootstrap.")]


class RankedBy(str, Enum):
    """The logs by which `suspects` can rank the cases."""

    WEIGHT = "weight"
    LOSS = "loss"


def _version(show: bool) -> None:
    if show:
        typer.echo(f"nnunet-dro {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def trainers(
    path: Annotated[
        bool, typer.Option("--path", help="Print only the folder to set in nnU-Net's variable nnUNet_extTrainer.")
    ] = False,
) -> None:
    """List the trainers and their options, and say whether nnU-Net finds them."""
    from nnunet_dro.trainers.installation import FOLDER, discover

    if path:
        typer.echo(FOLDER)
        return
    from rich.console import Console

    found = discover()
    console = Console(soft_wrap=True, highlight=False)
    if found.where is None:
        console.print(f"[bold red]nnU-Net does not find the trainers.[/] {found.cure}")
        raise typer.Exit(1)
    from nnunet_dro.trainers.overview import trainer_overview

    console.print(trainer_overview())
    console.print(f"\n[green]nnU-Net finds them[/] through {found.where}")


@app.command()
def evaluate(
    reference: Annotated[Path, typer.Argument(help="Folder of reference label maps.", readable=False)],
    prediction: Annotated[
        Path,
        typer.Argument(help="Folder of predictions, model folder of nnU-Net, or its summary.json.", readable=False),
    ],
    output: Output,
    dataset_json: Annotated[
        Path | None,
        typer.Option(help="Names of the labels; default: dataset.json beside or above REFERENCE.", readable=False),
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="Case table: CSV, TSV, XLSX or JSON, a row per case.", readable=False)
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Column to report by; centre,pathology for both at once; age:0,18,65 or volume:q3 to cut."),
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="Of dice, iou, sensitivity, precision, hd95, hd95_pooled, hd, assd, nsd.")
    ] = "dice",
    nsd_tolerance_mm: Annotated[float, typer.Option(help="Tolerance of the normalised surface distance.")] = 1.0,
    empty: Annotated[
        EmptyRule, typer.Option(help="Score of a label that is empty in both reference and prediction.")
    ] = EmptyRule.UNDEFINED,
    missing: Annotated[
        MissingRule, typer.Option(help="What a missing prediction is: an error, or a case that is scored as failed.")
    ] = MissingRule.ERROR,
    ignore_unknown_cases: Annotated[
        bool, typer.Option("--ignore-unknown-cases", help="Let rows of the case table be that have no reference.")
    ] = False,
    bootstrap: Bootstrap = 2000,
    seed: Seed = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Cases at a time; default: one per processor.")] = None,
    method: Annotated[str | None, typer.Option(help="Name of the method in tables; default: from the path.")] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(help='Quality requirement, such as "pathology=spina_bifida label=cerebellum p5>=0.70".'),
    ] = None,
    require_file: Annotated[Path | None, typer.Option(help="File of requirements, one a line.", readable=False)] = None,
    overwrite: Overwrite = False,
) -> None:
    """Dice percentiles and more, per label and stratum of the cases, with a report."""
    from joblib import cpu_count

    from nnunet_dro.evaluation.evaluation import evaluate as evaluate_files
    from nnunet_dro.evaluation.report import evaluation_reports, evaluation_table
    from nnunet_dro.evaluation.requirements import parse_requirement, read_requirements
    from nnunet_dro.evaluation.result_files import evaluation_files
    from nnunet_dro.output_folder import check_output, write_files

    requirements = [parse_requirement(text) for text in require or ()]
    requirements += read_requirements(require_file) if require_file else []
    check_output(output, overwrite=overwrite)
    with progress_bar("Reading label maps") as progress:
        evaluation = evaluate_files(
            reference,
            prediction,
            dataset_json=dataset_json,
            cases=cases,
            by=by or (),
            metrics=[name.strip() for name in metrics.split(",") if name.strip()],
            nsd_tolerance_mm=nsd_tolerance_mm,
            empty=empty,
            missing=missing,
            ignore_unknown_cases=ignore_unknown_cases,
            n_resamples=bootstrap,
            seed=seed,
            jobs=jobs or cpu_count(),
            method=method,
            requirements=requirements,
            progress=progress,
        )
    write_files(output, {**evaluation_files(evaluation), **evaluation_reports(evaluation)})
    _show(evaluation_table(evaluation), output)
    failed = [outcome["line"] for outcome in evaluation.about["requirements"] if not outcome["passed"]]
    for line in failed:
        typer.echo(f"nnunet-dro: requirement not met: {line}", err=True)
    if failed:
        raise typer.Exit(_REQUIREMENT_FAILED)


@app.command()
def compare(
    evaluations: Annotated[
        list[str], typer.Argument(metavar="NAME=FOLDER...", help="Outputs of evaluate; the first is the baseline.")
    ],
    output: Output,
    by: Annotated[
        list[str] | None, typer.Option(help="As for evaluate; default: as the first evaluation was divided.")
    ] = None,
    intersect: Annotated[
        bool, typer.Option("--intersect", help="Compare the cases that all have, where not all have the same.")
    ] = False,
    bootstrap: Bootstrap = 2000,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Compare methods on the same cases, paired, with intervals and tests, and with a report."""
    from nnunet_dro.evaluation.comparison import compare as compare_evaluations
    from nnunet_dro.evaluation.report import comparison_reports, comparison_table
    from nnunet_dro.evaluation.result_files import comparison_files, named_evaluations, read_evaluation
    from nnunet_dro.output_folder import check_output, write_files

    folders = named_evaluations(evaluations)
    check_output(output, overwrite=overwrite)
    read = {name: read_evaluation(folder) for name, folder in folders.items()}
    comparison = compare_evaluations(read, by=by or None, intersect=intersect, n_resamples=bootstrap, seed=seed)
    write_files(output, {**comparison_files(comparison), **comparison_reports(comparison)})
    _show(comparison_table(comparison), output)


@app.command()
def report(
    evaluation: Annotated[
        Path, typer.Argument(help="Output folder of evaluate; its reports are made again.", readable=False)
    ],
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of the images (CASE_0000.nii.gz ...), to show the worst cases.", readable=False),
    ] = None,
    per_stratum: Annotated[int, typer.Option(min=1, help="Pictures per stratum and label.")] = 2,
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
    write_files(evaluation, evaluation_reports(read, gallery))
    typer.echo(evaluation / "report.html")


@app.command()
def splits(
    dataset: Annotated[str, typer.Argument(metavar="RAW_DATASET", help="Its folder, name or number.")],
    cases: Annotated[
        Path | None, typer.Option(help="Case table: CSV, TSV, XLSX or JSON, a row per case.", readable=False)
    ] = None,
    stratify: Annotated[str | None, typer.Option(help="Column whose strata every fold gets its share of.")] = None,
    group: Annotated[str | None, typer.Option(help="Column of the patient: a patient is in one fold only.")] = None,
    leave_out: Annotated[str | None, typer.Option(help="Column of the centre: a fold per centre.")] = None,
    folds: Annotated[int, typer.Option(help="Number of folds; not with --leave-out.")] = 5,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File; default: splits_final.json where nnU-Net reads it.", readable=False),
    ] = None,
    ignore_unknown_cases: Annotated[
        bool, typer.Option("--ignore-unknown-cases", help="Let rows of the case table be that have no label map.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace splits that are there.")] = False,
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


@app.command()
def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for everything that the demo makes; a second run continues there.")
    ] = Path("nnunet-dro-demo"),
    data: Annotated[
        Path | None, typer.Option(help="Raw dataset of nnU-Net with a cases.csv; default: slices of an MRI template.")
    ] = None,
    by: Annotated[str, typer.Option(help="Column of cases.csv to report by.")] = "centre",
    device: Annotated[Device, typer.Option(help="Device to train and predict on.")] = Device.CPU,
    beta: Annotated[float, typer.Option(help="Robustness (beta) of nnUNetTrainerDRO.")] = 3.0,
    importance_sampling: Annotated[bool, typer.Option(help="Give nnUNetTrainerDRO importance weights.")] = False,
    epochs: Annotated[int, typer.Option(help="Epochs of both trainings.")] = 10,
    iterations: Annotated[int, typer.Option(help="Iterations per epoch of both trainings.")] = 140,
    seed: Annotated[
        int, typer.Option(help="Random seed of the demo's dataset and of the choice of held-out cases.")
    ] = 0,
) -> None:
    """Train plain nnU-Net and nnUNetTrainerDRO on small real images, and compare them per centre."""
    from nnunet_dro.demo import run_demo
    from nnunet_dro.trainers.options import DROOptions

    options = DROOptions(beta=beta, importance_sampling=importance_sampling, epochs=epochs, iterations=iterations)
    try:
        run_demo(out, data=data, by=by, device=device.value, options=options, seed=seed)
    except CommandError as error:
        _stop(str(error), 1)


@app.command()
def suspects(
    fold_folder: Annotated[
        Path, typer.Argument(help="Results folder of a fold, with weights.csv or hardness.csv.", readable=False)
    ],
    top: Annotated[int, typer.Option(help="Number of cases to show with pictures.")] = 20,
    by: Annotated[RankedBy | None, typer.Option(help="Log to rank by; default: weights if there are any.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the results; default: that of the fold.", readable=False),
    ] = None,
) -> None:
    """Rank the training cases by possible label errors, and show the first ones with pictures."""
    from nnunet_dro.suspects import write_suspects

    with progress_bar("Drawing the cases") as progress:
        table, page = write_suspects(fold_folder, output, top=top, by=by.value if by else None, progress=progress)
    _show(table, page.parent, page.name)


app.command()(tune)


def _show(table: Any, output: Path, page: str = "report.html") -> None:
    from rich.console import Console

    Console(highlight=False).print(table)
    typer.echo(output / page)


def main() -> None:
    """Entry point."""
    try:
        app()
    except SystemExit as end:
        if end.code != _INTERRUPTED:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_INTERRUPTED)  # the interpreter's own end aborts where a thread still reads


if __name__ == "__main__":
    main()
