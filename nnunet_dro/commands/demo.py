"""The command `nnunet-dro demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.shared import takes
from nnunet_dro.commands.usage import stop
from nnunet_dro.nnunet.command import CommandError, Device


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What `demo` takes."""

    out: Annotated[
        Path, typer.Option(help="Folder for everything that the demo makes; a second run continues there.")
    ] = Path("nnunet-dro-demo")
    data: Annotated[
        Path | None, typer.Option(help="Raw dataset of nnU-Net with a cases.csv; default: slices of an MRI template.")
    ] = None
    by: Annotated[str, typer.Option(help="Column of cases.csv to report by.")] = "centre"
    device: Annotated[Device, typer.Option(help="Device to train and predict on.")] = Device.CPU
    trainer: Annotated[
        str,
        typer.Option(
            help="Trainer of this package to compare with plain nnU-Net, with its options.",
            autocompletion=complete_trainer,
        ),
    ] = "nnUNetTrainerDRO"
    epochs: Annotated[int, typer.Option(help="Epochs of both trainings.")] = 10
    iterations: Annotated[int, typer.Option(help="Iterations per epoch of both trainings.")] = 140
    seed: Annotated[
        int, typer.Option(help="Random seed of the demo's dataset and of the choice of held-out cases.")
    ] = 0


@takes(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Train plain nnU-Net and nnUNetTrainerDRO on small real images, and compare them per centre."""
    from nnunet_dro.demo import Settings, run_demo

    data = None if options.data is None else str(options.data.absolute())
    settings = Settings(data, options.by, options.trainer, options.epochs, options.iterations, options.seed)
    try:
        run_demo(options.out, settings, device=options.device)
    except CommandError as error:
        stop(str(error), 1)
