"""The command `nnunet-dro doctor`."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import argument, option, show_with_page, takes
from nnunet_dro.nnunet.command import Device
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class _Options:
    fold_folder: Annotated[
        Path,
        argument(
            "Results folder of a fold, with checkpoint_final.pth; before a training, the name or "
            "number of the dataset.",
            metavar="FOLD_FOLDER|DATASET",
        ),
    ]
    configuration: Annotated[
        str | None,
        argument("Before a training: the configuration whose images are looked at for rare ones."),
    ] = None
    output: Annotated[
        Path | None,
        option("Folder for the results; default: the fold's or dataset's.", "--output", "-o"),
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
    plans: Annotated[str, option("Name of the plans, before a training.", "--plans", "-p")] = (
        "nnUNetPlans"
    )


#: What counts for a finished training only, and before one only.
_AFTER = ("patches", "prediction", "device")
_BEFORE = ("plans",)


@takes(_Options)
def doctor(options: _Options) -> None:
    """Say whether robust training would help, from a finished training and without a new one.

    Before a training, it says which images look rare.
    """
    _check_moment(options)
    if options.configuration is not None:
        _show_rare_images(options, options.configuration)
        return

    from nnunet_dro.inspection.doctor import examine
    from nnunet_dro.inspection.doctor.page import answer_lines

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
    show_with_page(answer_lines(answer), page)


def _show_rare_images(options: _Options, configuration: str) -> None:
    from nnunet_dro.inspection.doctor.rare_images import find_rare_images, rare_images_lines

    with progress_bar("Looking at the images") as progress:
        images, picture = find_rare_images(
            str(options.fold_folder),
            configuration,
            options.output,
            plans=options.plans,
            cases=options.cases,
            by=options.by or [],
            progress=progress,
            report=lambda line: typer.echo(line, err=True),
        )
    show_with_page(rare_images_lines(images), picture)


def _check_moment(options: _Options) -> None:
    """Refuse a dataset without a configuration, and options without effect at the moment."""
    folder = options.fold_folder
    if options.configuration is None and len(folder.parts) == 1 and not folder.exists():
        raise ValueError(
            f"`configuration` must come with a dataset, got {str(folder)!r} alone. Name it, such "
            "as 3d_fullres, or give the folder of a fold."
        )

    names: tuple[str, ...] = _BEFORE
    cure = "Name the dataset and its configuration in place of a fold's folder, or leave it out."
    moment = "after a training"
    if options.configuration is not None:
        names = _AFTER
        cure = "Leave it out."
        moment = "before a training"

    defaults = {field.name: field.default for field in fields(_Options)}
    for name in names:
        value = getattr(options, name)
        if value != defaults[name]:
            raise ValueError(f"`{name}` must be left out {moment}, got {value!r}. {cure}")
