"""A raw dataset of nnU-Net: its folder, its cases and its case table."""

import filecmp
import os
import re
from collections.abc import Mapping
from pathlib import Path

from nnunet_dro.files.case_table import find_case_table
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import (
    DATASET_JSON,
    dataset_folder,
    find_dataset,
    folder_of,
    read_dataset_json,
)

#: The folder of a preprocessed dataset with copies of labelsTr.
COPIES = "gt_segmentations"


def find_raw_dataset(name: str) -> Path:
    """The absolute path of a raw dataset, which has a dataset.json.

    Args:
        name: Its path, its name (Dataset123_Name) or its number.

    Raises:
        FileNotFoundError: If there is no such dataset.
    """
    folder = Path(name).absolute()
    if not folder.is_dir() and re.fullmatch(r"\d+|Dataset\d{3,}_[^/\\]+", name, re.ASCII):
        folder = find_dataset(name, folder_of("nnUNet_raw", cure="give the dataset's path"))
    if not (folder / DATASET_JSON).is_file():
        raise FileNotFoundError(
            f"`dataset` must be a folder with a dataset.json, got {str(folder)!r}. Check the path, "
            "or give a name or number in $nnUNet_raw."
        )
    return folder


def case_table_of(folder: Path) -> Path | None:
    """The ``cases.csv`` of a dataset, or None without one.

    It is looked for in a folder of the dataset, in the two folders above it, and in those of
    nnU-Net's variables.
    """
    near = [folder.absolute(), *folder.absolute().parents[:2]]
    names = [place.name for place in near if re.fullmatch(r"Dataset\d{3,}_.+", place.name)]

    far = []
    for name in names:
        far.append(dataset_folder("nnUNet_preprocessed", name))
        far.append(dataset_folder("nnUNet_raw", name))
    return find_case_table(*near, *far)


def original_reference(copy: Path) -> Path | None:
    """The file in labelsTr that one in gt_segmentations is a copy of; None for any other file."""
    folder = copy.absolute().parent
    if folder.name != COPIES:
        return None
    raw_dataset = dataset_folder("nnUNet_raw", folder.parent.name)
    if raw_dataset is None:
        return None
    return raw_dataset / "labelsTr" / copy.name


def notes_on_copies(references: Mapping[str, Path]) -> list[str]:
    """A sentence on the references that nnU-Net has not copied again since labelsTr changed.

    nnU-Net trains on labelsTr as it was preprocessed last, but replaces a copy only by a file of a
    later date.

    Args:
        references: Case to the file of its reference.
    """
    changed = []
    for case, copy in references.items():
        original = original_reference(copy)
        if (
            original
            and os.access(original, os.R_OK)
            and not filecmp.cmp(copy, original, shallow=False)
        ):
            changed.append(case)
    if not changed:
        return []
    return [
        f"In labelsTr these cases have other files than their copies in {COPIES}, which were "
        f"read: {name_some(changed, at_most=20)}. nnU-Net keeps a copy where the original has an "
        "earlier date. Name labelsTr as the folder of references to score by it."
    ]


def training_cases(raw_dataset: Path) -> list[str]:
    """The training cases of a raw dataset, sorted.

    They are those that dataset.json lists, or else the files in labelsTr.

    Raises:
        FileNotFoundError: If dataset.json or labelsTr is missing.
        ValueError: If dataset.json is not usable, or there are no cases.
    """
    path = raw_dataset / DATASET_JSON
    description = read_dataset_json(path)
    listed = description.get("dataset")
    ending = ""
    if isinstance(listed, Mapping):
        cases = sorted(listed)
    elif listed is None and "file_ending" in description:
        ending = str(description["file_ending"])
        folder = raw_dataset / "labelsTr"
        if not folder.is_dir():
            raise FileNotFoundError(
                f"`dataset` must hold labelsTr, got none in {str(raw_dataset)!r}. Check the path."
            )
        cases = sorted(case_names(folder, ending))
    else:
        raise ValueError(
            f"`dataset` must have a usable dataset.json, got {str(path)!r}. Add `file_ending`, or "
            "`dataset` with an entry per case, which nnU-Net needs as well."
        )
    if not cases:
        raise ValueError(
            f"`dataset` must have label maps *{ending} in labelsTr, got none in "
            f"{str(raw_dataset)!r}."
        )
    return cases


def case_names(folder: Path, ending: str) -> set[str]:
    """The names of a folder's files without their ending.

    Hidden files, which systems leave behind, do not count.
    """
    if not ending or not folder.is_dir():
        return set()

    names = (path.name for path in folder.iterdir() if not path.name.startswith("."))
    return {name[: -len(ending)] for name in names if name.endswith(ending)}
