"""What is trained on: a fold of a configuration of a preprocessed dataset, where nnU-Net keeps it."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from nnunet_dro.evaluation.label_maps import list_label_maps
from nnunet_dro.evaluation.raw_datasets import SPLITS_FILE
from nnunet_dro.naming import name_some
from nnunet_dro.trainers.data.case_groups import case_table


@dataclass(frozen=True)
class Target:
    """A fold to train and validate on.

    Attributes:
        dataset: Its name (Dataset123_Name).
        configuration: Of the plans.
        fold: A number, or ``all``.
        plans: Their name.
        preprocessed: The dataset's folder in nnUNet_preprocessed.
        results: The dataset's folder in nnUNet_results.
    """

    dataset: str
    configuration: str
    fold: str
    plans: str
    preprocessed: Path
    results: Path

    @property
    def references(self) -> Path:
        """The reference label maps, where nnU-Net's own validation reads them."""
        return self.preprocessed / "gt_segmentations"

    @property
    def dataset_json(self) -> Path:
        """Names of labels and regions."""
        return self.preprocessed / "dataset.json"

    @property
    def cases(self) -> Path | None:
        """The dataset's case table, where the trainers look for it; None if there is none."""
        plans_manager = SimpleNamespace(dataset_name=self.dataset)
        return case_table(
            SimpleNamespace(preprocessed_dataset_folder_base=self.preprocessed, plans_manager=plans_manager)
        )

    def fold_folder(self, trainer: str) -> Path:
        """Where nnU-Net writes the training of a trainer."""
        return self.results / f"{trainer}__{self.plans}__{self.configuration}" / f"fold_{self.fold}"

    def validation_cases(self) -> list[str]:
        """The cases of the fold; all cases where nnU-Net has not divided them yet, or divides them by itself."""
        every = sorted(list_label_maps(self.references))
        path = self.preprocessed / SPLITS_FILE
        if self.fold == "all" or not path.is_file():
            return every
        try:
            splits = json.loads(path.read_text(encoding="utf-8"))
            return sorted(splits[int(self.fold)]["val"]) if int(self.fold) < len(splits) else every
        except (ValueError, KeyError, TypeError) as error:
            cure = "Write it again with `nnunet-dro splits --force`, or remove it."
            raise ValueError(f"`fold` must be in usable splits, got {str(path)!r}. {cure}") from error


def find_target(dataset: str, configuration: str, fold: str, *, plans: str) -> Target:
    """Look for what nnU-Net would train on.

    Args:
        dataset: Its name (Dataset123_Name) or number.
        configuration: Of the plans.
        fold: A number, or ``all``.
        plans: Their name.

    Returns:
        The target.

    Raises:
        FileNotFoundError: If dataset, plans or reference label maps are not there.
        PermissionError: If the folder of results may not be written to.
        ValueError: If a variable of nnU-Net is not set, the configuration is not in the plans, or the fold no fold.
    """
    if not re.fullmatch(r"\d+|all", fold, re.ASCII):
        raise ValueError(f"`fold` must be a number or all, got {fold!r}. Give it as nnUNetv2_train has it.")
    preprocessed = _dataset_folder(dataset, _folder_of("nnUNet_preprocessed"))
    results = _folder_of("nnUNet_results") / preprocessed.name
    target = Target(
        preprocessed.name, configuration, str(int(fold)) if fold != "all" else fold, plans, preprocessed, results
    )
    path = preprocessed / f"{plans}.json"
    if not path.is_file() or not target.dataset_json.is_file() or not target.references.is_dir():
        lacking = next(p for p in (path, target.dataset_json, target.references) if not p.exists())
        cure = "Run nnUNetv2_plan_and_preprocess, or name other plans with -p."
        raise FileNotFoundError(f"`dataset` must be planned and preprocessed, got no {str(lacking)!r}. {cure}")
    try:
        configurations = list(json.loads(path.read_text(encoding="utf-8"))["configurations"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"`plans` must be nnU-Net's, got {str(path)!r}, which is not. Plan again.") from error
    if configuration not in configurations:
        cure = f"Choose from: {name_some(configurations, at_most=20)}."
        raise ValueError(f"`configuration` must be in {str(path)!r}, got {configuration!r}. {cure}")
    check_writable(results)
    return target


def check_writable(folder: Path) -> None:
    """Check, before long work, that a folder can be made or written to.

    Raises:
        NotADirectoryError: If there is a file of that name.
        PermissionError: If it, or the folder it would be made in, may not be written to.
    """
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    if not existing.is_dir():
        raise NotADirectoryError(f"`nnUNet_results` must lead to folders, got the file {str(existing)!r}. Remove it.")
    if not os.access(existing, os.W_OK):
        cure = "Set nnUNet_results to a folder of yours."
        raise PermissionError(f"`nnUNet_results` must be writable, got {str(existing)!r}. {cure}")


def _folder_of(variable: str) -> Path:
    if not (value := os.environ.get(variable)):
        cure = f"Set it as for nnU-Net (export {variable}=...)."
        raise ValueError(f"`{variable}` must be set in the environment, got nothing. {cure}")
    return Path(value).absolute()


def _dataset_folder(dataset: str, preprocessed: Path) -> Path:
    there = sorted(path.name for path in preprocessed.iterdir() if path.is_dir()) if preprocessed.is_dir() else []
    is_number = re.fullmatch(r"\d+", dataset, re.ASCII) is not None
    prefix = f"Dataset{int(dataset):03d}_" if is_number else ""
    found = [name for name in there if name == dataset or (is_number and name.startswith(prefix))]
    if len(found) > 1:
        raise ValueError(f"`dataset` must be one dataset, got {dataset!r} for {name_some(found)}. Give its name.")
    if not found:
        there = [name for name in there if name.startswith("Dataset")]
        cure = f"Choose from: {name_some(there, at_most=20)}; or run nnUNetv2_plan_and_preprocess."
        raise FileNotFoundError(f"`dataset` must be in {str(preprocessed)!r}, got {dataset!r}, which is not. {cure}")
    return preprocessed / found[0]
