"""The command `nnunet-dro share`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import argument, option, takes
from nnunet_dro.progress_bar import progress_bar


@dataclass(frozen=True, kw_only=True)
class _Options:
    model_folder: Annotated[
        Path, argument("Folder TRAINER__PLANS__CONFIGURATION in nnUNet_results.")
    ]
    output: Annotated[Path, option("Zip file to write.", "--output", "-o")]
    folds: Annotated[
        str | None, option("Folds to share, such as 0,1 or all; default: all that are numbered.")
    ] = None
    checkpoint: Annotated[str, option("File name of the checkpoints to share.")] = (
        "checkpoint_final.pth"
    )
    overwrite: Annotated[bool, option("Replace the file if it exists.", "--overwrite")] = False


@takes(_Options)
def share(options: _Options) -> None:
    """Write a trained model as a zip file that nnU-Net alone installs and predicts with."""
    from nnunet_dro.model_folders.sharing import share_model

    folds = None
    if options.folds is not None:
        words = [word.strip() for word in options.folds.split(",")]
        folds = [word for word in words if word]

    with progress_bar("Writing the folds") as progress:
        shared = share_model(
            options.model_folder,
            options.output,
            folds=folds,
            checkpoint=options.checkpoint,
            overwrite=options.overwrite,
            progress=progress,
        )

    for name, parts in shared.left_out.items():
        typer.echo(f"left out of {name}: {', '.join(parts) or 'nothing'}")
    typer.echo(
        "No names or losses of training cases are in the file, "
        "and it cannot be trained further with --c."
    )
    typer.echo("Whoever gets the file installs it and predicts, with nnU-Net alone:")
    typer.echo(f"    nnUNetv2_install_pretrained_model_from_zip {shared.path.name}")
    typer.echo(f"    {shared.predict}")
    typer.echo(shared.path)
