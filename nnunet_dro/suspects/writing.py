"""Find the cases to look at, and write the results: the function behind `nnunet-dro suspects`."""

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
    """Rank the training cases of a fold, and write suspects.csv and suspects.html, replacing earlier ones.

    Args:
        folder: Results folder of the fold.
        output: Folder to write to; None for that of the fold.
        top: Number of cases to show.
        by: Log to rank by, ``weight`` or ``loss``; None for weights if there are any, else losses.
        progress: Function to call with the number of finished pictures and the number of all pictures.

    Returns:
        The table for the terminal, and the path of the page.

    Raises:
        FileNotFoundError: If the folder or the log does not exist.
        ValueError: If ``top`` is below 1, ``by`` is something else, the folder is not that of a fold, or a log is
            empty or damaged.
        OSError: If the files cannot be written.
    """
    where = output or Fold.of(folder).folder
    check_output(where, overwrite=True)
    suspects = find_suspects(folder, top=top, by=by, progress=progress)
    write_files(where, suspects_files(suspects))
    return suspects_table(suspects), where / "suspects.html"
