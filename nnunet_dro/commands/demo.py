"""The command `nnunet-dro demo`."""

from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.completion import complete_trainer
from nnunet_dro.commands.shared import option
from nnunet_dro.commands.usage import stop
from nnunet_dro.nnunet.command import CommandError, Device


def demo(
    *,
    out: Annotated[Path, option("Folder for everything that the demo makes; a second run continues there.")] = Path(
        "nnunet-dro-demo"
    ),
    data: Annotated[
        Path | None, option("Raw dataset of nnU-Net with a cases.csv; default: slices of an MRI template.")
    ] = None,
    by: Annotated[str, option("Column of cases.csv to report by.")] = "centre",
    device: Annotated[Device, option("Device to train and predict on.")] = Device.CPU,
    trainer: Annotated[
        str,
        option(
            "Trainer of this package to compare with plain nnU-Net, with its options.", autocompletion=complete_trainer
        ),
    ] = "nnUNetTrainerDRO_share0.5",
    epochs: Annotated[int, option("Epochs of both trainings.")] = 10,
    iterations: Annotated[int, option("Iterations per epoch of both trainings.")] = 140,
    seed: Annotated[int, option("Random seed of the demo's dataset and of the choice of held-out cases.")] = 0,
) -> None:
    """Train plain nnU-Net and hardness weighted sampling on small real images, and compare them per centre.

    The share is fixed, because an earned one does not begin where, as here, nothing is found of the hardest cases.
    """
    from nnunet_dro.demo import Settings, run_demo

    settings = Settings(str(data.absolute()) if data else None, by, trainer, epochs, iterations, seed)
    try:
        run_demo(out, settings, device=device)
    except CommandError as error:
        stop(str(error), 1)
