"""A raw dataset of nnU-Net: its folder, its cases and their files, and its case table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.files.case_table import CASE_TABLE_FILE, check_cases, find_case_table, read_cases
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import DATASET_JSON, dataset_folder, find_dataset, folder_of, read_dataset_json


def find_raw_dataset(name: str) -> Path:
    """The absolute path of a raw dataset, which has a dataset.json: by its path, name (Dataset123_Name) or number."""
    folder = Path(name).absolute()
    if not folder.is_dir() and re.fullmatch(r"\d+|Dataset\d{3,}_[^/\\]+", name, re.ASCII):
        folder = find_dataset(name, folder_of("nnUNet_raw", cure="give the dataset's path"))
    if not (folder / DATASET_JSON).is_file():
        cure = "Check the path, or give a name or number in $nnUNet_raw."
        raise FileNotFoundError(f"`dataset` must be a folder with a dataset.json, got {str(folder)!r}. {cure}")
    return folder


def case_table_of(folder: Path) -> Path | None:
    """The ``cases.csv`` of a dataset: in a folder of it, the two above, or nnU-Net's folders; None without one."""
    near = (folder.absolute(), *folder.absolute().parents[:2])
    names = [place.name for place in near if re.fullmatch(r"Dataset\d{3,}_.+", place.name)]
    known = [dataset_folder(variable, name) for name in names for variable in ("nnUNet_preprocessed", "nnUNet_raw")]
    return find_case_table(*near, *known)


def training_cases(raw_dataset: Path) -> list[str]:
    """The training cases of a raw dataset, sorted: those that dataset.json lists, or else the files in labelsTr."""
    path = raw_dataset / DATASET_JSON
    if not path.is_file():
        raise FileNotFoundError(f"`dataset` must hold dataset.json, got none in {str(raw_dataset)!r}. Check the path.")
    try:
        description = read_dataset_json(path)
        listed = description.get("dataset")
        ending = "" if listed is not None else str(description["file_ending"])
        cases = sorted(listed.keys()) if listed is not None else []
    except (ValueError, KeyError, AttributeError) as error:
        cure = "Add `file_ending`, or `dataset` with an entry per case, which nnU-Net needs as well."
        raise ValueError(f"`dataset` must have a usable dataset.json, got {str(path)!r}. {cure}") from error
    if listed is None:
        folder = raw_dataset / "labelsTr"
        if not folder.is_dir():
            raise FileNotFoundError(f"`dataset` must hold labelsTr, got none in {str(raw_dataset)!r}. Check the path.")
        cases = sorted(case_names(folder, ending))
    if not cases:
        raise ValueError(f"`dataset` must have label maps *{ending} in labelsTr, got none in {str(raw_dataset)!r}.")
    return cases


@dataclass(frozen=True, eq=False)
class RawDataset:
    """A raw dataset with a case table."""

    folder: Path  # the dataset's folder, which has the name that nnU-Net requires
    description: Mapping[str, Any]  # the contents of dataset.json
    file_ending: str  # ending of the names of images and label maps
    training_cases: tuple[str, ...]  # cases with a label map in labelsTr, sorted
    test_cases: tuple[str, ...]  # cases with a label map in labelsTs, sorted; empty if there is no such folder
    table: pd.DataFrame

    @property
    def name(self) -> str:
        """Name of the dataset, such as Dataset900_DemoBrain."""
        return self.folder.name

    @property
    def number(self) -> int:
        """Number in the dataset's name."""
        return int(self.name[len("Dataset") :][:3])

    def label_map(self, case: str) -> Path:
        """Path of the reference label map of a case."""
        return self.folder / ("labelsTs" if case in self.test_cases else "labelsTr") / f"{case}{self.file_ending}"

    def images(self, case: str) -> list[Path]:
        """Paths of the images of a case, one per channel."""
        folder = self.folder / ("imagesTs" if case in self.test_cases else "imagesTr")
        form = re.compile(re.escape(case) + r"_\d{4}" + re.escape(self.file_ending))
        return sorted(path for path in folder.glob(f"*{self.file_ending}") if form.fullmatch(path.name))


def read_raw_dataset(folder: Path) -> RawDataset:
    """Read and check a raw dataset with a case table ``cases.csv``."""
    folder = folder.absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"`data` must be a folder, got {str(folder)!r}, which does not exist. Check the path.")
    if not re.fullmatch(r"Dataset\d{3}_\w[\w-]*", folder.name):
        cure = "Rename the folder, for example to Dataset123_MyName."
        raise ValueError(
            f"`data` must be a folder named DatasetXXX_Name, as nnU-Net requires, got {folder.name!r}. {cure}"
        )
    for name in (DATASET_JSON, CASE_TABLE_FILE, "imagesTr", "labelsTr"):
        if not (folder / name).exists():
            cure = "See nnU-Net's dataset format; cases.csv has a column `case` and the columns to report by."
            raise FileNotFoundError(f"`data` must hold {name}, got no such file or folder in {str(folder)!r}. {cure}")
    try:
        description = read_dataset_json(folder / DATASET_JSON)
        ending = str(description["file_ending"])
    except (ValueError, KeyError) as error:
        path = str(folder / DATASET_JSON)
        raise ValueError(
            f"`data` must have a readable dataset.json with `file_ending`, got {path!r}. Correct it."
        ) from error
    training = _cases_with_labels(folder, "Tr", ending)
    test = _cases_with_labels(folder, "Ts", ending) if (folder / "labelsTs").is_dir() else ()
    if not training:
        raise ValueError(f"`data` must have label maps *{ending} in labelsTr, got none in {str(folder)!r}. Add them.")
    table = read_cases(folder / CASE_TABLE_FILE)
    check_cases(table, {*training, *test})
    return RawDataset(folder, description, ending, training, test, table)


def _cases_with_labels(folder: Path, suffix: str, ending: str) -> tuple[str, ...]:
    label_maps = case_names(folder / f"labels{suffix}", ending)
    channel = re.compile(r"_\d{4}$")
    images = {channel.sub("", name) for name in case_names(folder / f"images{suffix}", ending) if channel.search(name)}
    if without := sorted(label_maps - images):
        where = str(folder / f"images{suffix}")
        raise FileNotFoundError(
            f"`data` must have an image for every label map, got none for {name_some(without)} in {where!r}. Add it."
        )
    return tuple(sorted(label_maps))


def case_names(folder: Path, ending: str) -> set[str]:
    """The names of a folder's files without their ending; hidden files, which systems leave behind, do not count."""
    if not ending or not folder.is_dir():
        return set()
    names = (path.name for path in folder.iterdir() if not path.name.startswith("."))
    return {name[: -len(ending)] for name in names if name.endswith(ending)}
