"""The command `nnunet-dro suspects`."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from nnunet_dro.commands.shared import show, takes
from nnunet_dro.progress_bar import progress_bar


class RankedBy(str, Enum):
    """What `suspects` can rank the cases by."""

    LOSS = "loss"
    WEIGHT = "weight"
    DICE = "dice"


@dataclass(frozen=True, kw_only=True)
class SuspectsOptions:
    """What `suspects` takes."""

    fold_folder: Annotated[
        list[Path],
        typer.Argument(help="Results folder of a fold, several of one model, or that of the model.", readable=False),
    ]
    top: Annotated[int, typer.Option(help="Number of cases to show with pictures.")] = 20
    by: Annotated[
        RankedBy | None,
        typer.Option(help="What to rank by: logged loss or weight, or validation Dice; default: loss if there is any."),
    ] = None
    write_splits: Annotated[
        bool,
        typer.Option("--write-splits", help="Write splits_final.json without the cases of exclusions.txt in training."),
    ] = False
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder for the results; default: that of the fold or model.", readable=False
        ),
    ] = None


@takes(SuspectsOptions)
def suspects(options: SuspectsOptions) -> None:
    """Rank the training cases by possible label errors, and show the first ones with pictures."""
    from nnunet_dro.suspects import write_suspects

    ranked_by = options.by.value if options.by else None
    with progress_bar("Drawing the cases") as progress:
        table, page = write_suspects(
            options.fold_folder,
            options.output,
            top=options.top,
            by=ranked_by,
            write_splits=options.write_splits,
            progress=progress,
        )
    show(table, page)
