"""The command `nnunet-dro doctor`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import argument, option, show, takes
from nnunet_dro.nnunet.command import Device
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class _Options:
    fold_folder: Annotated[Path, argument("Results folder of a fold, with checkpoint_final.pth.")]
    output: Annotated[
        Path | None, option("Folder for the results; default: the fold's.", "--output", "-o")
    ] = None
    patches: Annotated[
        int, option("Augmented patches to measure per case; 0 to use the losses of hardness.csv.")
    ] = 4
    prediction: Annotated[
        bool, option("Predict every case; the rules need it.", "--prediction/--no-prediction")
    ] = True
    device: Annotated[
        Device | None, option("Device to measure on; default: cuda if there is one, else cpu.")
    ] = None
    cases: Annotated[
        Path | None, option("Case table; default: cases.csv in the folders of the dataset.")
    ] = None
    by: Annotated[
        list[str] | None,
        option(
            "Column of the case table with strata; repeatable. Default: all that divide the cases."
        ),
    ] = None


@takes(_Options)
def doctor(options: _Options) -> None:
    """Tell from a finished training, without training, whether robust training would help."""
    from nnunet_dro.doctor import examine
    from nnunet_dro.doctor.terminal import answer_lines

    with progress_bar("Measuring the cases") as progress:
        answer, page = examine(
            options.fold_folder,
            options.output,
            n_patches=options.patches,
            prediction=options.prediction,
            device=options.device and options.device.value,
            cases=options.cases,
            by=options.by or [],
            progress=progress,
            report=lambda line: typer.echo(line, err=True),
        )
    show(answer_lines(answer), page)
