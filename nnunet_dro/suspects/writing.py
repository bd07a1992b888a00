"""`nnunet-dro suspects`: check, search, write."""

from collections.abc import Callable
from pathlib import Path

from rich.console import RenderableType

from nnunet_dro.nnunet.folders import Fold
from nnunet_dro.output_folder import check_output, write_files
from nnunet_dro.suspects.page import suspects_files
from nnunet_dro.suspects.search import find_suspects
from nnunet_dro.suspects.terminal import suspects_table


def write_suspects(
    folder: Path,
    output: Path | None = None,
    *,
    top: int = 20,
    by: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[RenderableType, Path]:
    """Rank the training cases of a fold, and write suspects.csv and suspects.html; older ones are replaced.

    Args:
        folder: The fold's results folder.
        output: Where to write; None for the fold's folder.
        top: How many cases to show.
        by: What to rank by, ``weight`` or ``loss``; None for weights where there are any.
        progress: Called with the number of pictures made and to make.

    Returns:
        The table for the terminal, and the page.

    Raises:
        FileNotFoundError: If the folder, both logs, or the one that is asked for are not there.
        ValueError: If ``top`` is below 1, ``by`` is something else, the folder is not that of a fold, or a log is
            empty or damaged.
        OSError: If the files cannot be written.
    """
    where = output or Fold.of(folder).folder
    check_output(where, overwrite=True)
    suspects = find_suspects(folder, top=top, by=by, progress=progress)
    write_files(where, suspects_files(suspects))
    return suspects_table(suspects), where / "suspects.html"
