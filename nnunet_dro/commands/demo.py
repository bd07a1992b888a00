"""The command `nnunet-dro demo`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.shared import option, takes
from nnunet_dro.commands.usage import stop
from nnunet_dro.nnunet.command import CommandError, Device


@dataclass(frozen=True, kw_only=True)
class _Options:
    out: Annotated[
        Path, option("Folder for everything that the demo makes; a second run continues there.")
    ] = Path("nnunet-dro-demo")
    device: Annotated[Device, option("Device to train and predict on.")] = Device.CPU
    trainer: Annotated[
        str,
        option(
            "Trainer of this package to compare with plain nnU-Net, with its options.",
            autocompletion=complete_trainer,
        ),
    ] = "nnUNetTrainerDRO"
    epochs: Annotated[int, option("Epochs of both trainings.")] = 10
    iterations: Annotated[int, option("Iterations per epoch of both trainings.")] = 140
    seed: Annotated[int, option("Random seed of the dataset.", min=0)] = 0


@takes(_Options)
def demo(options: _Options) -> None:
    """Train plain nnU-Net and `nnUNetTrainerDRO`, and compare them per centre.

    The images are slices of an MRI template. Those of the rarest centre look different, so that the
    robust trainer draws them more often from the start.
    """
    from nnunet_dro.demo import DemoSettings, run_demo

    settings = DemoSettings(options.trainer, options.epochs, options.iterations, options.seed)
    try:
        run_demo(options.out, settings, device=options.device)
    except CommandError as error:
        stop(str(error), 1)
