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
    out: Annotated[Path, option("Folder for everything that the demo makes; a second run continues there.")] = Path(
        "nnunet-dro-demo"
    )
    data: Annotated[
        Path | None, option("Raw dataset of nnU-Net with a cases.csv; default: slices of an MRI template.")
    ] = None
    by: Annotated[str, option("Column of cases.csv to report by.")] = "centre"
    device: Annotated[Device, option("Device to train and predict on.")] = Device.CPU
    trainer: Annotated[
        str,
        option(
            "Trainer of this package to compare with plain nnU-Net, with its options.", autocompletion=complete_trainer
        ),
    ] = "nnUNetTrainerDRO_share0.5"
    epochs: Annotated[int, option("Epochs of both trainings.")] = 10
    iterations: Annotated[int, option("Iterations per epoch of both trainings.")] = 140
    seed: Annotated[int, option("Random seed of the demo's dataset and of the choice of held-out cases.")] = 0


@takes(_Options)
def demo(options: _Options) -> None:
    """Train plain nnU-Net and hardness weighted sampling on small real images, and compare them per centre.

    The share is fixed, because an earned one does not begin where, as here, nothing is found of the hardest cases.
    """
    from nnunet_dro.demo import Settings, run_demo

    data = str(options.data.absolute()) if options.data else None
    names = ("by", "trainer", "epochs", "iterations", "seed")
    settings = Settings(data, **{name: getattr(options, name) for name in names})
    try:
        run_demo(options.out, settings, device=options.device)
    except CommandError as error:
        stop(str(error), 1)
