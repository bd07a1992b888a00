"""The command `nnunet-dro`: parse, call one function, print. Heavy modules are imported inside the commands."""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro import __version__
from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.evaluate import compare, evaluate, plan, report, show, splits
from nnunet_dro.commands.explore import explore
from nnunet_dro.commands.finetune import finetune
from nnunet_dro.commands.locked_options import LockedCommand
from nnunet_dro.commands.protocol import commands as protocol_commands
from nnunet_dro.commands.rank import rank
from nnunet_dro.commands.strata import strata
from nnunet_dro.commands.tune import tune
from nnunet_dro.commands.usage import INTERRUPTED, START, Command, Commands, stop
from nnunet_dro.nnunet.command import CommandError, Device
from nnunet_dro.progress_bar import progress_bar

app = typer.Typer(
    name="nnunet-dro",
    cls=Commands,
    help="nnU-Net v2, trained and evaluated for its hardest patients.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its tables cut long flags on a narrow terminal
    context_settings={"help_option_names": ["-h", "--help"]},
)


class RankedBy(str, Enum):
    """What `suspects` can rank the cases by."""

    LOSS = "loss"
    WEIGHT = "weight"
    DICE = "dice"


def _version(show: bool) -> None:
    if show:
        typer.echo(f"nnunet-dro {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _main(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        typer.echo(START)


@app.command(cls=Command)
def trainers(
    path: Annotated[
        bool, typer.Option("--path", help="Print only the folder to set in nnU-Net's variable nnUNet_extTrainer.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Explain a trainer's name in words.", autocompletion=complete_trainer),
    ] = None,
) -> None:
    """List the trainers and their options, and say whether nnU-Net finds them."""
    from nnunet_dro.trainers.installation import FOLDER, discover

    if path:
        typer.echo(FOLDER)
        return
    if check is not None:
        from nnunet_dro.trainers.explanation import explain

        typer.echo("\n".join(explain(check)))
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


app.command(cls=LockedCommand)(evaluate)
app.command(cls=LockedCommand)(compare)
for _command in (rank, plan, report, explore, splits):
    app.command(cls=Command)(_command)
app.add_typer(protocol_commands, name="protocol")


@app.command(cls=Command)
def demo(
    out: Annotated[
        Path, typer.Option(help="Folder for everything that the demo makes; a second run continues there.")
    ] = Path("nnunet-dro-demo"),
    data: Annotated[
        Path | None, typer.Option(help="Raw dataset of nnU-Net with a cases.csv; default: slices of an MRI template.")
    ] = None,
    by: Annotated[str, typer.Option(help="Column of cases.csv to report by.")] = "centre",
    device: Annotated[Device, typer.Option(help="Device to train and predict on.")] = Device.CPU,
    trainer: Annotated[
        str,
        typer.Option(
            help="Trainer of this package to compare with plain nnU-Net, with its options.",
            autocompletion=complete_trainer,
        ),
    ] = "nnUNetTrainerDRO",
    epochs: Annotated[int, typer.Option(help="Epochs of both trainings.")] = 10,
    iterations: Annotated[int, typer.Option(help="Iterations per epoch of both trainings.")] = 140,
    seed: Annotated[
        int, typer.Option(help="Random seed of the demo's dataset and of the choice of held-out cases.")
    ] = 0,
) -> None:
    """Train plain nnU-Net and nnUNetTrainerDRO on small real images, and compare them per centre."""
    from nnunet_dro.demo import run_demo

    try:
        run_demo(
            out,
            data=data,
            by=by,
            device=device.value,
            trainer=trainer,
            epochs=epochs,
            iterations=iterations,
            seed=seed,
        )
    except CommandError as error:
        stop(str(error), 1)


@app.command(cls=Command)
def suspects(
    fold_folder: Annotated[
        list[Path],
        typer.Argument(help="Results folder of a fold, several of one model, or that of the model.", readable=False),
    ],
    top: Annotated[int, typer.Option(help="Number of cases to show with pictures.")] = 20,
    by: Annotated[
        RankedBy | None,
        typer.Option(help="What to rank by: logged loss or weight, or validation Dice; default: loss if there is any."),
    ] = None,
    write_splits: Annotated[
        bool,
        typer.Option("--write-splits", help="Write splits_final.json without the cases of exclusions.txt in training."),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder for the results; default: that of the fold or model.", readable=False
        ),
    ] = None,
) -> None:
    """Rank the training cases by possible label errors, and show the first ones with pictures."""
    from nnunet_dro.suspects import write_suspects

    ranked_by = by.value if by else None
    with progress_bar("Drawing the cases") as progress:
        table, page = write_suspects(
            fold_folder, output, top=top, by=ranked_by, write_splits=write_splits, progress=progress
        )
    show(table, page)


@app.command(cls=Command)
def doctor(
    fold_folder: Annotated[
        Path, typer.Argument(help="Results folder of a fold, with checkpoint_final.pth.", readable=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the results; default: that of the fold.", readable=False),
    ] = None,
    patches: Annotated[
        int, typer.Option(help="Augmented patches to measure per case; 0 to use the losses of hardness.csv.")
    ] = 4,
    prediction: Annotated[
        bool, typer.Option("--prediction/--no-prediction", help="Predict every case; the rules need it.")
    ] = True,
    device: Annotated[
        Device | None, typer.Option(help="Device to measure on; default: cuda if there is one, else cpu.")
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(help="Case table; default: cases.csv in the folders of the dataset.", readable=False)
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="Column of the case table with strata; repeatable. Default: all that divide the cases."),
    ] = None,
) -> None:
    """Tell from a finished training, without training, whether robust training would help."""
    from nnunet_dro.doctor import examine
    from nnunet_dro.doctor.terminal import answer_lines

    with progress_bar("Measuring the cases") as progress:
        answer, page = examine(
            fold_folder,
            output,
            n_patches=patches,
            prediction=prediction,
            device=None if device is None else device.value,
            cases=cases,
            by=by or (),
            progress=progress,
            report=lambda line: typer.echo(line, err=True),
        )
    show(answer_lines(answer), page)


app.command(cls=Command)(strata)
app.command(cls=Command)(tune)
app.command(cls=Command)(finetune)


@app.command(cls=Command)
def share(
    model_folder: Annotated[
        Path, typer.Argument(help="Folder TRAINER__PLANS__CONFIGURATION in nnUNet_results.", readable=False)
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Zip file to write.", readable=False)],
    folds: Annotated[
        str | None, typer.Option(help="Folds to share, such as 0,1 or all; default: all that are numbered.")
    ] = None,
    checkpoint: Annotated[str, typer.Option(help="File name of the checkpoints to share.")] = "checkpoint_final.pth",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a trained model as a zip file that nnU-Net installs and predicts with, without this package."""
    from nnunet_dro.sharing import share_model

    with progress_bar("Writing the folds") as progress:
        shared = share_model(
            model_folder,
            output,
            folds=None if folds is None else [fold.strip() for fold in folds.split(",") if fold.strip()],
            checkpoint=checkpoint,
            overwrite=overwrite,
            progress=progress,
        )
    for name, parts in shared.left_out.items():
        typer.echo(f"left out of {name}: {', '.join(parts) or 'nothing'}")
    typer.echo("No names or losses of training cases are in the file, and it cannot be trained further with --c.")
    typer.echo("Whoever gets the file installs it and predicts, with nnU-Net alone:")
    typer.echo(f"    nnUNetv2_install_pretrained_model_from_zip {shared.path.name}\n    {shared.predict}")
    typer.echo(shared.path)


@app.command(cls=Command)
def selfcheck(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON file for the record.", readable=False)
    ] = None,
) -> None:
    """Compute numbers that are known by hand, and record what this installation finds."""
    from nnunet_dro.selfcheck import selfcheck as check

    record = check()
    typer.echo("\n".join(record.lines()))
    if output is not None:
        record.write(output)
        typer.echo(output)
    if not record.agrees:
        raise typer.Exit(1)


def main() -> None:
    """Entry point."""
    try:
        app()
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)  # the interpreter's own end aborts where a thread still reads


if __name__ == "__main__":
    main()
