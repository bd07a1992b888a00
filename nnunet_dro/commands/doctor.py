"""The command `nnunet-dro doctor`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import show, takes
from nnunet_dro.nnunet.command import Device
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class DoctorOptions:
    """What `doctor` takes."""

    fold_folder: Annotated[
        Path, typer.Argument(help="Results folder of a fold, with checkpoint_final.pth.", readable=False)
    ]
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the results; default: that of the fold.", readable=False),
    ] = None
    patches: Annotated[
        int, typer.Option(help="Augmented patches to measure per case; 0 to use the losses of hardness.csv.")
    ] = 4
    prediction: Annotated[
        bool, typer.Option("--prediction/--no-prediction", help="Predict every case; the rules need it.")
    ] = True
    device: Annotated[
        Device | None, typer.Option(help="Device to measure on; default: cuda if there is one, else cpu.")
    ] = None
    cases: Annotated[
        Path | None, typer.Option(help="Case table; default: cases.csv in the folders of the dataset.", readable=False)
    ] = None
    by: Annotated[
        list[str],
        typer.Option(help="Column of the case table with strata; repeatable. Default: all that divide the cases."),
    ] = field(default_factory=list)


@takes(DoctorOptions)
def doctor(options: DoctorOptions) -> None:
    """Tell from a finished training, without training, whether robust training would help."""
    from nnunet_dro.doctor import examine
    from nnunet_dro.doctor.terminal import answer_lines

    with progress_bar("Measuring the cases") as progress:
        answer, page = examine(
            options.fold_folder,
            options.output,
            n_patches=options.patches,
            prediction=options.prediction,
            device=None if options.device is None else options.device.value,
            cases=options.cases,
            by=options.by,
            progress=progress,
            report=lambda line: typer.echo(line, err=True),
        )
    show(answer_lines(answer), page)
