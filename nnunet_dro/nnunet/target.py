"""The target of a training: a fold of a configuration of a preprocessed dataset."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from nnunet_dro.files.case_table import find_case_table
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.dataset_json import read_dataset_json
from nnunet_dro.nnunet.folders import SPLITS_FILE, dataset_folder, find_dataset, fold_folder, folder_of
from nnunet_dro.nnunet.raw_dataset import case_names


@dataclass(frozen=True)
class Target:
    """A fold to train and validate on."""

    dataset: str  # name of the dataset (Dataset123_Name)
    configuration: str  # name of the configuration, which the plans have
    fold: str  # number of the fold, or ``all``
    plans: str
    preprocessed: Path  # the dataset's folder in nnUNet_preprocessed
    results: Path  # the dataset's folder in nnUNet_results

    @property
    def references(self) -> Path:
        """Folder of the reference label maps, which nnU-Net's own validation reads."""
        return self.preprocessed / "gt_segmentations"

    @property
    def dataset_json(self) -> Path:
        """File with the names of labels and regions."""
        return self.preprocessed / "dataset.json"

    @property
    def cases(self) -> Path | None:
        """The dataset's case table, which the trainers read as well; None if there is none."""
        return find_case_table(self.preprocessed, dataset_folder("nnUNet_raw", self.dataset))

    def validation_cases(self) -> list[str]:
        """The validation cases of the fold; all cases if nnU-Net has not divided them yet, or divides them itself."""
        every = sorted(case_names(self.references, str(read_dataset_json(self.dataset_json).get("file_ending", ""))))
        path = self.preprocessed / SPLITS_FILE
        if self.fold == "all" or not path.is_file():
            return every
        try:
            splits = read_json(path)
            return sorted(splits[int(self.fold)]["val"]) if int(self.fold) < len(splits) else every
        except (ValueError, KeyError, TypeError) as error:
            cure = "Write it again with `nnunet-dro splits --force`, or remove it."
            raise ValueError(f"`fold` must be in a usable splits_final.json, got {str(path)!r}. {cure}") from error

    def fold_folder(self, trainer: str) -> Path:
        """The folder in which nnU-Net writes the results of a trainer."""
        return fold_folder(self.results, trainer, self.plans, self.configuration, self.fold)


def find_target(dataset: str, configuration: str, fold: str, *, plans: str) -> Target:
    """Find what nnU-Net would train on, or say what is missing or not writable."""
    if not re.fullmatch(r"\d+|all", fold, re.ASCII):
        raise ValueError(f"`fold` must be a number or all, got {fold!r}. Give it as to nnUNetv2_train.")
    preprocessed = find_dataset(dataset, folder_of("nnUNet_preprocessed"), cure="run nnUNetv2_plan_and_preprocess")
    results = folder_of("nnUNet_results") / preprocessed.name
    target = Target(
        preprocessed.name, configuration, str(int(fold)) if fold != "all" else fold, plans, preprocessed, results
    )
    path = preprocessed / f"{plans}.json"
    lacking = [file for file in (path, target.dataset_json) if not file.is_file()]
    lacking += [] if target.references.is_dir() else [target.references]
    if lacking:
        cure = "Run nnUNetv2_plan_and_preprocess, or name other plans with -p."
        raise FileNotFoundError(f"`dataset` must be planned and preprocessed, got no {str(lacking[0])!r}. {cure}")
    try:
        configurations = list(read_json(path)["configurations"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"`plans` must be a plans file of nnU-Net, got {str(path)!r}. Plan again.") from error
    if configuration not in configurations:
        cure = f"Choose from: {name_some(configurations, at_most=20)}."
        raise ValueError(f"`configuration` must be in {str(path)!r}, got {configuration!r}. {cure}")
    check_writable(results)
    return target


def check_writable(folder: Path) -> None:
    """Check, before long work, that a folder can be written to, or made."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise NotADirectoryError(f"`nnUNet_results` must lead to folders, got the file {str(existing)!r}. Remove it.")
    if not os.access(existing, os.W_OK):
        cure = "Set nnUNet_results to a folder that you may write to."
        raise PermissionError(f"`nnUNet_results` must be writable, got {str(existing)!r}. {cure}")
