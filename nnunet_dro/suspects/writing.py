"""Find the cases to look at, and write the results: the function behind `nnunet-dro suspects`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import RenderableType

from nnunet_dro.files.output_folder import check_output, write_files
from nnunet_dro.nnunet.folders import SPLITS_FILE, folds_of
from nnunet_dro.suspects.exclusions import (
    EXCLUSIONS_FILE,
    check_apart,
    exclusions_text,
    next_steps,
    nnunet_splits,
    read_exclusions,
    splits_steps,
    splits_without,
)
from nnunet_dro.suspects.page import suspects_files
from nnunet_dro.suspects.search import find_suspects
from nnunet_dro.suspects.terminal import suspects_table


def write_suspects(
    folders: Path | Sequence[Path],
    output: Path | None = None,
    *,
    top: int = 20,
    by: str | None = None,
    write_splits: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[RenderableType, Path]:
    """Rank the cases of a model, and write suspects.csv and suspects.html, replacing earlier ones.

    The first cases are also written to exclusions.txt, unless it exists: users edit it.

    Args:
        folders: As for `find_suspects`.
        output: Folder to write to; None for that of the fold, or of the model where there are several folds.
        top: Number of cases to show.
        by: What to rank by, as for `find_suspects`.
        write_splits: Whether to write splits_final.json without the cases of exclusions.txt in training.
        progress: Function to call with the number of finished pictures and the number of all pictures.

    Returns:
        The table for the terminal, and the path of the page.

    Raises:
        FileNotFoundError: If a folder or log does not exist, or nnU-Net's splits_final.json where it is needed.
        ValueError: If an option is out of range, a folder is neither that of a fold nor of a model, or a log,
            exclusions.txt or splits_final.json cannot be used.
        OSError: If the files cannot be written.
    """
    folders = [folders] if isinstance(folders, Path) else list(folders)
    folds = folds_of(folders)
    is_one_fold = len(folds) == 1 and folds[0].folder.name == folders[0].absolute().name
    where = output or (folds[0].folder if is_one_fold else folds[0].folder.parent)
    check_output(where, overwrite=True)
    splits = nnunet_splits(folds[0]) if write_splits else None
    if splits:
        check_apart(where, splits)
    kept = read_exclusions(where / EXCLUSIONS_FILE) if (where / EXCLUSIONS_FILE).is_file() else None
    if splits and kept is not None:
        splits_without(splits, kept)  # what is wrong with the list is said before the pictures are drawn
    suspects = find_suspects(folders, top=top, by=by, progress=progress)
    excluded = suspects.to_exclude if kept is None else kept
    files = {} if kept is not None else {EXCLUSIONS_FILE: exclusions_text(excluded)}
    steps = next_steps(where, is_kept=kept is not None, n_excluded=len(excluded))
    if splits:
        files[SPLITS_FILE] = splits_without(splits, excluded)
        steps = splits_steps(where, splits, excluded)
    write_files(where, {**suspects_files(suspects, steps), **files})
    return suspects_table(suspects, steps), where / "suspects.html"
