"""The next step after looking at the suspects: a list of cases to leave out, and folds without them."""

import json
from collections.abc import Collection, Sequence
from pathlib import Path

from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import SPLITS_FILE, Fold
from nnunet_dro.pages.wording import count

#: The list of cases to leave out, which users edit.
EXCLUSIONS_FILE = "exclusions.txt"

_HEAD = """\
# Cases to leave out of the training, one per line: the first of suspects.csv, trusted cases aside.
# They are suspects only. Look at each (suspects.html) and delete the line if its label map is right.
# Then give the same command with --write-splits. This file is not replaced while it exists.
"""


def exclusions_text(cases: Sequence[str]) -> str:
    """The file with these cases."""
    return _HEAD + "".join(f"{case}\n" for case in cases)


def read_exclusions(path: Path) -> list[str]:
    """Read the cases of a list; empty lines and those that begin with # do not count.

    Raises:
        ValueError: If the file is not text.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig", errors="strict").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{EXCLUSIONS_FILE}` must be text in UTF-8, got {str(path)!r}. Save it again, or remove it."
        ) from error
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def nnunet_splits(fold: Fold) -> Path:
    """nnU-Net's own file of folds.

    Raises:
        FileNotFoundError: If it is not found.
    """
    folder = fold.dataset_folder("nnUNet_preprocessed")
    if folder is None or not (folder / SPLITS_FILE).is_file():
        where = f"no file in {str(folder)!r}" if folder else "no folder nnUNet_preprocessed"
        cure = f"Set nnUNet_preprocessed to the folder that holds {fold.dataset}, with the folds of the training."
        raise FileNotFoundError(f"`--write-splits` needs nnU-Net's {SPLITS_FILE}, got {where}. {cure}")
    return folder / SPLITS_FILE


def check_apart(output: Path, nnunet_file: Path) -> None:
    """Check that the output folder is none in which nnU-Net looks for folds.

    Raises:
        ValueError: If it is.
    """
    if output.resolve().parent == nnunet_file.resolve().parents[1]:
        cure = f"Name another folder: nnU-Net's own {SPLITS_FILE} is not touched."
        raise ValueError(f"`output` must not be a dataset's folder in nnUNet_preprocessed, got {str(output)!r}. {cure}")


def splits_without(nnunet_file: Path, excluded: Collection[str]) -> str:
    """nnU-Net's folds without some cases in training.

    Args:
        nnunet_file: nnU-Net's splits_final.json.
        excluded: Cases to leave out of ``train`` of every fold; in ``val`` they stay, so that results on the same
            validation cases can be compared.

    Returns:
        The content of another splits_final.json.

    Raises:
        ValueError: If the file cannot be used, a case is in no fold, or a fold is left without training cases.
    """
    try:
        content = read_json(nnunet_file)
        if not (isinstance(content, list) and content):
            raise TypeError("it is no list of folds")
        splits = [{part: [str(case) for case in fold[part]] for part in ("train", "val")} for fold in content]
    except (ValueError, KeyError, TypeError) as error:
        cure = "Write it again with `nnunet-dro splits --force`."
        raise ValueError(f"`{SPLITS_FILE}` must be a list of folds, got {str(nnunet_file)!r}. {cure}") from error
    known = {case for fold in splits for part in fold.values() for case in part}
    if strangers := sorted(set(excluded) - known):
        cure = f"Correct its lines, or remove the file for a new one. The folds are those of {str(nnunet_file)!r}."
        raise ValueError(f"`{EXCLUSIONS_FILE}` must name cases of the folds, got {name_some(strangers)}. {cure}")
    for n, fold in enumerate(splits):
        fold["train"] = [case for case in fold["train"] if case not in excluded]
        if not fold["train"]:
            cure = f"Delete lines of {EXCLUSIONS_FILE}."
            raise ValueError(f"`{EXCLUSIONS_FILE}` must leave training cases, got none for fold {n}. {cure}")
    # In ASCII, because nnU-Net reads the file in the encoding of the locale.
    return json.dumps(splits, indent=4) + "\n"


def next_steps(where: Path, *, is_kept: bool, n_excluded: int) -> list[str]:
    """What to do with the list, in sentences.

    Args:
        where: The folder of the results.
        is_kept: Whether the list is that of an earlier run.
        n_excluded: Number of cases on it.
    """
    kept = " It is kept from an earlier run; remove it for a new one." if is_kept else ""
    return [
        "Look at these cases with a viewer. Best is to correct a label map that is wrong, to preprocess the dataset "
        "again, and to train.",
        f"To train without some cases: {EXCLUSIONS_FILE} in {str(where)!r} lists {count(n_excluded, 'case')}.{kept} "
        "Delete the lines of cases whose label maps are right, and give the same command with --write-splits. It "
        f"writes a {SPLITS_FILE} beside the list, without these cases in training. nnU-Net's own file is not touched.",
    ]


def splits_steps(where: Path, nnunet_file: Path, excluded: Collection[str]) -> list[str]:
    """How to use the folds that were written, in sentences.

    Args:
        where: The folder of the results.
        nnunet_file: nnU-Net's splits_final.json.
        excluded: The cases that were left out.
    """
    return [
        f"{str(where / SPLITS_FILE)!r} leaves the {count(len(excluded), 'case')} of {EXCLUSIONS_FILE} out of training. "
        "Validation cases stay, so that results can be compared.",
        f"To use it: keep a copy of {str(nnunet_file)!r}, copy the new file over it, and train with another "
        "nnUNet_results: otherwise nnU-Net replaces the trained model. Fold all ignores the file and trains on every "
        "case.",
    ]
