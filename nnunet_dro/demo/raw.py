"""A raw nnU-Net dataset with a case table, and its division into training, validation and test cases."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.evaluation import Labels, attributes_of, check_cases, read_cases, strata
from nnunet_dro.naming import name_some

#: Fraction of each stratum that is held out where the dataset has no test set of its own.
TEST_FRACTION = 0.2

#: Smallest stratum from which a case is held out.
MIN_STRATUM = 3

#: nnU-Net validates on a few cases while it trains; nothing is chosen by them.
MAX_VALIDATION = 12

_SPLITS = {"train", "validation", "test"}


@dataclass(frozen=True)
class RawDataset:
    """A raw nnU-Net dataset.

    Attributes:
        folder: Its folder, named as nnU-Net wants it.
        labels: Its labels.
        file_ending: Of images and label maps.
        training_cases: Cases of imagesTr, sorted.
        test_cases: Cases of imagesTs with a label map in labelsTs, sorted; none if there is no such folder.
        table: Its case table.
    """

    folder: Path
    labels: Labels
    file_ending: str
    training_cases: tuple[str, ...]
    test_cases: tuple[str, ...]
    table: pd.DataFrame

    @property
    def name(self) -> str:
        """The dataset's name, such as Dataset900_DemoBrain."""
        return self.folder.name

    @property
    def number(self) -> int:
        """The number in its name."""
        return int(self.name[len("Dataset") :][:3])

    def label_map(self, case: str) -> Path:
        """The reference label map of a case."""
        return self.folder / ("labelsTs" if case in self.test_cases else "labelsTr") / f"{case}{self.file_ending}"

    def images(self, case: str) -> list[Path]:
        """The images of a case, one per channel."""
        folder = self.folder / ("imagesTs" if case in self.test_cases else "imagesTr")
        form = re.compile(re.escape(case) + r"_\d{4}" + re.escape(self.file_ending))
        return sorted(path for path in folder.glob(f"*{self.file_ending}") if form.fullmatch(path.name))


@dataclass(frozen=True)
class Division:
    """Which cases train, which ones nnU-Net validates on meanwhile, and which are held out for the test."""

    train: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]


def read_raw_dataset(folder: Path) -> RawDataset:
    """Read and check a raw nnU-Net dataset with a case table ``cases.csv``.

    Args:
        folder: The dataset's folder.

    Returns:
        The dataset.

    Raises:
        FileNotFoundError: If the folder, or dataset.json, cases.csv, imagesTr or labelsTr in it, is not there.
        ValueError: If the name is not nnU-Net's, a file cannot be used, or the table and the images do not agree.
    """
    folder = folder.absolute()
    if not folder.is_dir():
        raise FileNotFoundError(f"`data` must be a folder, got {str(folder)!r}, which is not there. Check the path.")
    if not re.fullmatch(r"Dataset\d{3}_\w[\w-]*", folder.name):
        cure = "Rename the folder, for example to Dataset123_MyName."
        raise ValueError(
            f"`data` must be a folder named DatasetXXX_Name, as nnU-Net wants it, got {folder.name!r}. {cure}"
        )
    for name in ("dataset.json", "cases.csv", "imagesTr", "labelsTr"):
        if not (folder / name).exists():
            cure = "See nnU-Net's dataset format; cases.csv has a column `case` and the columns to report by."
            raise FileNotFoundError(f"`data` must hold {name}, got no such file or folder in {str(folder)!r}. {cure}")
    try:
        dataset = json.loads((folder / "dataset.json").read_text(encoding="utf-8"))
        ending = str(dataset["file_ending"])
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        path = str(folder / "dataset.json")
        raise ValueError(
            f"`data` must have a readable dataset.json with `file_ending`, got {path!r}. Correct it."
        ) from error
    labels = Labels.from_dataset_json(dataset)
    training_cases = _cases_with_labels(folder, "Tr", ending)
    test_cases = _cases_with_labels(folder, "Ts", ending) if (folder / "labelsTs").is_dir() else ()
    if not training_cases:
        raise ValueError(f"`data` must have label maps *{ending} in labelsTr, got none in {str(folder)!r}. Add them.")
    table = read_cases(folder / "cases.csv")
    check_cases(table, {*training_cases, *test_cases})
    return RawDataset(folder, labels, ending, training_cases, test_cases, table)


def _cases_with_labels(folder: Path, suffix: str, ending: str) -> tuple[str, ...]:
    label_maps = {path.name[: -len(ending)] for path in (folder / f"labels{suffix}").glob(f"*{ending}")}
    images = {path.name[: -len(ending) - len("_0000")] for path in (folder / f"images{suffix}").glob(f"*_????{ending}")}
    if without := sorted(label_maps - images):
        where = str(folder / f"images{suffix}")
        raise FileNotFoundError(
            f"`data` must have an image for every label map, got none for {name_some(without)} in {where!r}."
        )
    return tuple(sorted(label_maps))


def strata_by(dataset: RawDataset, by: str) -> "pd.Series[str]":
    """The stratum of every case.

    Raises:
        ValueError: If the case table has no column ``by``; the message names those there are.
    """
    if by not in attributes_of(dataset.table):
        columns = name_some(attributes_of(dataset.table), at_most=20)
        where = str(dataset.folder / "cases.csv")
        raise ValueError(f"`by` must be a column of {where!r}, got {by!r}. Choose one with --by: {columns}.")
    return strata(dataset.table, by)


def divide(dataset: RawDataset, stratum_of_case: "pd.Series[str]", *, rng: np.random.Generator) -> Division:
    """Divide a dataset's cases for one training and one test.

    The test cases are the dataset's own (imagesTs, labelsTs), or else those that a column ``split`` of the case table
    calls ``test``, or else a fifth of every stratum of at least three cases. The validation cases are those which that
    column calls ``validation``, or else a few of the most frequent stratum, so that no rare case is lost to training.

    Args:
        dataset: The dataset.
        stratum_of_case: Strata, indexed by case.
        rng: Draws the cases.

    Returns:
        The division; no case is in two parts.

    Raises:
        ValueError: If there are too few cases to train, validate and test.
    """
    cases = list(dataset.training_cases)
    splits = dataset.table.set_index("case")["split"] if "split" in dataset.table else pd.Series(dtype=str)
    named = {case: str(splits[case]) for case in cases} if set(splits) <= _SPLITS and len(splits) else {}
    test = list(dataset.test_cases) or [case for case in cases if named.get(case) == "test"]
    if not test:
        test = _hold_out(cases, stratum_of_case, rng)
    rest = [case for case in cases if case not in set(test)]
    validation = [case for case in rest if named.get(case) == "validation"]
    if not validation and rest:
        frequent = str(stratum_of_case[rest].value_counts().idxmax())
        candidates = [case for case in rest if stratum_of_case[case] == frequent]
        n_validation = min(MAX_VALIDATION, max(1, len(candidates) // 10))
        validation = sorted(str(case) for case in rng.choice(candidates, n_validation, replace=False))
    train = [case for case in rest if case not in set(validation)]
    if len(train) < 2 or not test:
        sizes = f"{len(train)} to train, {len(validation)} to validate and {len(test)} to test"
        cure = f"Give more cases; a stratum needs {MIN_STRATUM} for one of them to be held out."
        raise ValueError(f"`data` must have enough cases, got {sizes}. {cure}")
    return Division(tuple(train), tuple(validation), tuple(sorted(test)))


def _hold_out(cases: list[str], stratum_of_case: "pd.Series[str]", rng: np.random.Generator) -> list[str]:
    held_out: list[str] = []
    for stratum in sorted(set(stratum_of_case[cases])):
        inside = [case for case in cases if stratum_of_case[case] == stratum]
        if len(inside) >= MIN_STRATUM:
            n_test = max(1, round(TEST_FRACTION * len(inside)))
            held_out += [str(case) for case in rng.choice(inside, n_test, replace=False)]
    return held_out
