"""The function behind `nnunet-dro suspects`.

The results, a list of cases to leave out, and folds without them.
"""

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from rich.console import RenderableType

from nnunet_dro.files.output_folder import check_writable, write_files
from nnunet_dro.inspection.suspects.page import suspects_files, suspects_table
from nnunet_dro.inspection.suspects.search import find_suspects
from nnunet_dro.inspection.suspects.words import EXCLUSIONS_FILE, WORDS
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import SPLITS_FILE, Fold, folds_of
from nnunet_dro.nnunet.splits_file import read_splits

_HEAD = (
    "# Cases to leave out of the training, one per line: the first of suspects.csv, trusted cases "
    "aside\n# and those that were seen too rarely, which have a dagger.\n"
    "# They are suspects only. Look at each (suspects.html) and delete the line if its label map "
    "is right.\n"
    "# Then give the same command with --write-splits. This file is not replaced while it exists.\n"
    "# The name of a case that begins with # stands after a space.\n"
)


def write_suspects(
    folders: Sequence[Path],
    output: Path | None = None,
    *,
    top: int = 20,
    by: str | None = None,
    write_splits: bool = False,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> tuple[RenderableType, Path]:
    """Rank the cases of a model and write the results, with a list of cases to leave out.

    Users edit the list. With ``write_splits``, folds without its cases are written, too.

    Returns:
        What the terminal shows, and the path of the page.
    """
    folds = folds_of(folders)
    where = output or _usual_folder(folds, folders)
    check_writable(where, name="output", cure="Name another folder.")
    nnunet_file = _nnunet_splits(folds[0], where) if write_splits else None
    kept = _read_exclusions(where / EXCLUSIONS_FILE)
    # What is wrong with the list is said before the pictures are drawn.
    if nnunet_file is not None and kept is not None:
        _splits_without(nnunet_file, kept)

    suspects = find_suspects(folders, top=top, by=by, progress=progress)
    files = {}
    if kept is None:
        shown = suspects.shown
        is_spared = shown["trusted"] | suspects.is_few(shown["times_seen"])
        excluded = shown.loc[~is_spared, "case"].tolist()
        files[EXCLUSIONS_FILE] = _HEAD + "".join(map(_line, excluded))
    else:
        excluded = kept
    if nnunet_file is None:
        steps = WORDS.sentences(
            "next_steps",
            folder=repr(str(where)),
            n_excluded=len(excluded),
            is_kept=kept is not None,
        )
    else:
        files[SPLITS_FILE] = _splits_without(nnunet_file, excluded)
        steps = WORDS.sentences(
            "steps_with_splits",
            new_file=repr(str(where / SPLITS_FILE)),
            own_file=repr(str(nnunet_file)),
            n_excluded=len(excluded),
        )

    write_files(where, {**suspects_files(suspects, steps), **files})
    return suspects_table(suspects, steps), where / "suspects.html"


def _usual_folder(folds: Sequence[Fold], folders: Sequence[Path]) -> Path:
    """The folder of a single fold that was named, or else that of the model."""
    fold = folds[0].folder
    is_one_fold = len(folds) == 1 and fold.name == folders[0].absolute().name
    return fold if is_one_fold else fold.parent


def _line(case: str) -> str:
    """The line of a case in the list; one that begins with # would be a comment."""
    indent = " " if case.startswith("#") else ""
    return f"{indent}{case}\n"


def _read_exclusions(path: Path) -> list[str] | None:
    """The cases of a list, None if there is none.

    Empty lines and those that begin with # do not count.
    """
    if not path.is_file():
        return None
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="strict").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{EXCLUSIONS_FILE}` must be text in UTF-8, got {str(path)!r}. Save it again, or "
            "remove it."
        ) from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def _nnunet_splits(fold: Fold, output: Path) -> Path:
    """nnU-Net's own file of folds.

    The output must be no folder in which nnU-Net looks for one.
    """
    folder = fold.dataset_folder("nnUNet_preprocessed")
    path = folder / SPLITS_FILE if folder is not None else None
    if path is None or not path.is_file():
        lacking = f"no file in {str(folder)!r}" if folder else "no folder nnUNet_preprocessed"
        raise FileNotFoundError(
            f"`--write-splits` needs nnU-Net's {SPLITS_FILE}, got {lacking}. Set "
            f"nnUNet_preprocessed to the folder that holds {fold.dataset}, with the folds of the "
            "training."
        )

    if output.resolve().parent == path.resolve().parents[1]:
        raise ValueError(
            "`output` must not be a dataset's folder in nnUNet_preprocessed, got "
            f"{str(output)!r}. Name another folder: nnU-Net's own {SPLITS_FILE} is not touched."
        )
    return path


def _splits_without(nnunet_file: Path, excluded: Collection[str]) -> str:
    """nnU-Net's folds without some cases in training.

    They stay in ``val``, so that results can be compared.
    """
    splits = read_splits(nnunet_file)
    cases = {case for fold in splits for part in fold.values() for case in part}
    strangers = sorted(set(excluded) - cases)
    if strangers:
        raise ValueError(
            f"`{EXCLUSIONS_FILE}` must name cases of the folds, got {name_some(strangers)}. "
            "Correct its lines, or remove the file for a new one. The folds are those of "
            f"{str(nnunet_file)!r}."
        )

    for n, fold in enumerate(splits):
        fold["train"] = [case for case in fold["train"] if case not in excluded]
        if not fold["train"]:
            raise ValueError(
                f"`{EXCLUSIONS_FILE}` must leave training cases, got none for fold {n}. Delete "
                f"lines of {EXCLUSIONS_FILE}."
            )
    # In ASCII, because nnU-Net reads the file in the encoding of the locale.
    return json.dumps(splits, indent=4) + "\n"
