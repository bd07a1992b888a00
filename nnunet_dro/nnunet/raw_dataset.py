"""Where nnU-Net keeps a dataset: its raw folder, its training cases, its folds."""

import json
import os
import re
from pathlib import Path

from nnunet_dro.naming import name_some

#: The file in which nnU-Net looks for folds.
SPLITS_FILE = "splits_final.json"


def find_raw_dataset(name: str) -> Path:
    """The folder of a raw dataset.

    Args:
        name: A path, or the name (Dataset123_Name) or number (123) of a dataset in the folder that the environment
            variable nnUNet_raw names. A folder at this path comes first.

    Returns:
        The absolute path of a folder with a dataset.json.

    Raises:
        FileNotFoundError: If there is no such folder, or no dataset.json in it.
        ValueError: If nnUNet_raw is needed and not set, or several datasets have the number.
    """
    folder = Path(name).absolute()
    is_number = re.fullmatch(r"\d+", name, re.ASCII) is not None
    if not folder.is_dir() and (is_number or re.fullmatch(r"Dataset\d{3,}_[^/\\]+", name)):
        raw = _folder_of("nnUNet_raw", "Set it as for nnU-Net (export nnUNet_raw=...), or give the dataset's path.")
        prefix = f"Dataset{int(name):03d}_" if is_number else name
        there = sorted(path.name for path in raw.iterdir() if path.is_dir()) if raw.is_dir() else []
        found = [other for other in there if other == name or (is_number and other.startswith(prefix))]
        if len(found) > 1:
            raise ValueError(f"`dataset` must be one dataset, got {name!r} for {name_some(found)}. Give its name.")
        if not found:
            cure = f"Choose from: {name_some(there, at_most=20)}."
            raise FileNotFoundError(f"`dataset` must be in {str(raw)!r}, got {name!r}, which is not there. {cure}")
        folder = raw / found[0]
    if not (folder / "dataset.json").is_file():
        cure = "Check the path, or give a name or number in $nnUNet_raw."
        raise FileNotFoundError(f"`dataset` must be a folder with a dataset.json, got {str(folder)!r}. {cure}")
    return folder


def _folder_of(variable: str, cure: str) -> Path:
    if not (value := os.environ.get(variable)):
        raise ValueError(f"`{variable}` must be set in the environment, got nothing. {cure}")
    return Path(value).absolute()


def training_cases(raw_dataset: Path) -> list[str]:
    """The training cases of a raw dataset.

    Args:
        raw_dataset: Its folder.

    Returns:
        Identifiers, sorted: the keys of ``dataset`` in dataset.json, or else the file names in labelsTr without
        dataset.json's ``file_ending`` (hidden files left out).

    Raises:
        FileNotFoundError: If dataset.json is not there, or there is no labelsTr where it is needed.
        ValueError: If dataset.json cannot be used, or there is no case.
    """
    path = raw_dataset / "dataset.json"
    if not path.is_file():
        raise FileNotFoundError(f"`dataset` must hold dataset.json, got none in {str(raw_dataset)!r}. Check the path.")
    try:
        dataset = json.loads(path.read_text(encoding="utf-8-sig"))
        listed = dataset.get("dataset")
        ending = "" if listed is not None else str(dataset["file_ending"])
        cases = sorted(listed.keys()) if listed is not None else []
    except (ValueError, KeyError, AttributeError) as error:
        cure = "Correct it: nnU-Net, too, needs `file_ending`, or `dataset` with an entry per case."
        raise ValueError(f"`dataset` must have a usable dataset.json, got {str(path)!r}. {cure}") from error
    if listed is None:
        folder = raw_dataset / "labelsTr"
        if not folder.is_dir():
            raise FileNotFoundError(f"`dataset` must hold labelsTr, got none in {str(raw_dataset)!r}. Check the path.")
        names = [file.name for file in folder.iterdir() if not file.name.startswith(".")]
        cases = sorted(name[: -len(ending)] for name in names if ending and name.endswith(ending))
    if not cases:
        raise ValueError(f"`dataset` must have label maps *{ending} in labelsTr, got none in {str(raw_dataset)!r}.")
    return cases


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
    cure = "Set it as for nnU-Net (export nnUNet_preprocessed=...), or name the file with --output."
    preprocessed = _folder_of("nnUNet_preprocessed", cure)
    name = raw_dataset.absolute().name
    if not re.fullmatch(r"Dataset\d{3,}_.+", name):
        cure = "Rename the folder, or name the file with --output."
        raise ValueError(f"`dataset` must be named DatasetXXX_Name, as nnU-Net wants it, got {name!r}. {cure}")
    return preprocessed / name / SPLITS_FILE
