"""The command `nnunet-dro suspects`."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

from nnunet_dro.commands.shared import argument, option, show_with_page, takes
from nnunet_dro.progress_bar import progress_bar


class RankedBy(str, Enum):
    """What `suspects` can rank the cases by."""

    LOSS = "loss"
    WEIGHT = "weight"
    DICE = "dice"


@dataclass(frozen=True, kw_only=True)
class _Options:
    fold_folder: Annotated[
        list[Path],
        argument(
            "Results folder of a fold, folders of several folds of one model, or the model folder."
        ),
    ]
    top: Annotated[int, option("Number of cases to show with pictures.")] = 20
    by: Annotated[
        RankedBy | None,
        option(
            "What to rank by: logged loss or weight, or validation Dice; "
            "default: loss if there is any."
        ),
    ] = None
    write_splits: Annotated[
        bool,
        option(
            "Write splits_final.json without the cases of exclusions.txt in training.",
            "--write-splits",
        ),
    ] = False
    output: Annotated[
        Path | None, option("Results folder; default: the fold's or model's.", "--output", "-o")
    ] = None


@takes(_Options)
def suspects(options: _Options) -> None:
    """Rank the training cases by possible label errors, and show the first ones with pictures."""
    from nnunet_dro.inspection.suspects import write_suspects

    with progress_bar("Drawing the cases") as progress:
        table, page = write_suspects(
            options.fold_folder,
            options.output,
            top=options.top,
            by=options.by and options.by.value,
            write_splits=options.write_splits,
            progress=progress,
        )
    show_with_page(table, page)
