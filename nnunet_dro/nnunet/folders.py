"""nnU-Net's folders: those that its variables name, and in them datasets, folds of data and folds of a training."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.dataset_json import read_if_usable

#: The file in which nnU-Net looks for the folds of a dataset.
SPLITS_FILE = "splits_final.json"

#: What nnU-Net calls the folder of a fold.
FOLD_NAME = re.compile(r"fold_(\d+|all)", re.ASCII)


def folder_of(variable: str, *, cure: str = "") -> Path:
    """The folder that a variable of nnU-Net names.

    Args:
        variable: Such as nnUNet_raw.
        cure: What to do instead of setting it.

    Returns:
        The absolute path; the folder need not be there.

    Raises:
        ValueError: If the variable is not set.
    """
    if not (value := os.environ.get(variable)):
        also = f", or {cure}" if cure else ""
        raise ValueError(
            f"`{variable}` must be set in the environment, got nothing. Set it as for nnU-Net (export {variable}=...)"
            f"{also}."
        )
    return Path(value).absolute()


def raw_folder_of(dataset: str) -> Path | None:
    """The folder of a dataset in the one that nnUNet_raw names, which need not be there; None if it is not set."""
    return folder_of("nnUNet_raw") / dataset if os.environ.get("nnUNet_raw") else None


def find_dataset(name: str, folder: Path, *, cure: str = "") -> Path:
    """The dataset of a name or number.

    Args:
        name: The name (Dataset123_Name) or number (123).
        folder: The folder that holds the datasets.
        cure: What to do instead of choosing another.

    Returns:
        Its folder.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If several have the number.
    """
    there = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    prefix = f"Dataset{int(name):03d}_" if re.fullmatch(r"\d+", name, re.ASCII) else None
    found = [other for other in there if other == name or (prefix and other.startswith(prefix))]
    if len(found) > 1:
        raise ValueError(f"`dataset` must be one dataset, got {name!r} for {name_some(found)}. Give its name.")
    if not found:
        known = name_some([other for other in there if other.startswith("Dataset")], at_most=20)
        also = f"; or {cure}" if cure else ""
        raise FileNotFoundError(
            f"`dataset` must be in {str(folder)!r}, got {name!r}, which is not there. Choose from: {known}{also}."
        )
    return folder / found[0]


def splits_path(raw_dataset: Path) -> Path:
    """Where nnU-Net looks for the folds of a dataset.

    Args:
        raw_dataset: The folder of the raw dataset.

    Returns:
        splits_final.json in the dataset's folder, which need not be there yet, in the folder that the environment
        variable nnUNet_preprocessed names.

    Raises:
        ValueError: If the variable is not set, or the dataset is not named DatasetXXX_Name.
    """
    preprocessed = folder_of("nnUNet_preprocessed", cure="name the file with --output")
    name = raw_dataset.absolute().name
    if not re.fullmatch(r"Dataset\d{3,}_.+", name):
        cure = "Rename the folder, or name the file with --output."
        raise ValueError(f"`dataset` must be named DatasetXXX_Name, as nnU-Net wants it, got {name!r}. {cure}")
    return preprocessed / name / SPLITS_FILE


def fold_folder(results: Path, trainer: str, plans: str, configuration: str, fold: int | str) -> Path:
    """Where nnU-Net writes what it learns from a fold.

    Args:
        results: The dataset's folder in nnUNet_results.
        trainer: Name of the trainer.
        plans: Name of the plans.
        configuration: Such as 3d_fullres.
        fold: A number, or ``all``.

    Returns:
        The folder, which need not be there.
    """
    return results / f"{trainer}__{plans}__{configuration}" / f"fold_{fold}"


@dataclass(frozen=True)
class Fold:
    """A fold's results folder, and what its path says.

    Attributes:
        folder: ``DATASET/TRAINER__PLANS__CONFIGURATION/fold_X``, absolute.
        dataset: Such as Dataset123_Name.
        trainer: Name of the trainer.
        plans: Name of the plans.
        configuration: Such as 3d_fullres.
    """

    folder: Path
    dataset: str
    trainer: str
    plans: str
    configuration: str

    @classmethod
    def of(cls, folder: Path) -> "Fold":
        """The fold of a folder.

        Raises:
            FileNotFoundError: If there is no such folder.
            ValueError: If its path is not that of a fold of nnU-Net.
        """
        path = Path(os.path.abspath(folder))
        form = "DatasetXXX_Name/TRAINER__PLANS__CONFIGURATION/fold_X"
        if not path.is_dir():
            cure = f"Give the folder of a fold in nnUNet_results: {form}."
            raise FileNotFoundError(f"`fold_folder` must be a folder, got {str(folder)!r}, which is not there. {cure}")
        parts = path.parent.name.split("__")
        if not FOLD_NAME.fullmatch(path.name) or len(parts) != 3 or not all(parts) or not path.parent.parent.name:
            cure = "Give one fold of a training."
            raise ValueError(f"`fold_folder` must be {form} of nnUNet_results, got {str(path)!r}. {cure}")
        return cls(path, path.parent.parent.name, *parts)

    def description(self, name: str) -> Mapping[str, Any] | None:
        """The contents of ``plans.json`` or ``dataset.json`` beside the folds; None if it is not there or damaged."""
        return read_if_usable(self.folder.parent / name)
