"""The folders of nnU-Net, below those of its environment variables, and what they hold."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnunet_dro.bad_input import check_folder
from nnunet_dro.files.json_file import read_json, without_twins
from nnunet_dro.naming import name_some

#: The file in which nnU-Net keeps the description of a dataset.
DATASET_JSON = "dataset.json"
#: The file in which nnU-Net keeps the plans of a model.
PLANS_JSON = "plans.json"
#: The file in which nnU-Net looks for the folds of a dataset.
SPLITS_FILE = "splits_final.json"

#: The plans that nnU-Net makes where nothing else is asked for.
USUAL_PLANS = "nnUNetPlans"

#: The checkpoint of a finished training, and all in the order in which nnU-Net's ``--c`` looks for
#: them.
CHECKPOINT = "checkpoint_final.pth"
CHECKPOINTS = (CHECKPOINT, "checkpoint_latest.pth", "checkpoint_best.pth")

#: Name of the folder of a fold.
FOLD_NAME = re.compile(r"fold_(\d+|all)", re.ASCII)


def first_checkpoint(fold: Path) -> Path | None:
    """The checkpoint that nnU-Net's ``--c`` continues; None if there is none."""
    paths = (fold / name for name in CHECKPOINTS)
    return next(filter(Path.is_file, paths), None)


def check_last_training(fold: Path) -> None:
    """Refuse to continue the training before the last one.

    nnU-Net's ``--c`` prefers checkpoint_final.pth. One that is older than checkpoint_latest.pth is
    of a training that was finished before another was begun in its folder, or made longer.

    Raises:
        ValueError: If the last training has yet to be finished.
    """
    final, latest = (fold / name for name in CHECKPOINTS[:2])
    has_both = final.is_file() and latest.is_file()
    if has_both and final.stat().st_mtime_ns < latest.stat().st_mtime_ns:
        raise ValueError(
            f"A later training in {str(fold)!r} is not finished: {latest.name} is newer than "
            f"{final.name}, which --c would continue. Remove {final.name} to go on with the later "
            f"training, or {latest.name} to keep the finished one."
        )


def find_dataset_json(reference: Path) -> Path | None:
    """Find dataset.json in a folder of references or in one of the two folders above it.

    It is None if no folder has one.
    """
    folder = reference.absolute()
    places = [place / DATASET_JSON for place in (folder, *folder.parents[:2])]
    return next(filter(Path.is_file, places), None)


def read_dataset_json(path: Path) -> Mapping[str, Any]:
    """Read a dataset.json.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is no JSON, has a name twice, or has no names at its top.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"`dataset_json` must be a file, got {str(path)!r}, which does not exist. Check the "
            "path."
        )

    try:
        content = read_json(path, encoding="utf-8-sig", object_pairs_hook=without_twins)
    except ValueError as error:
        raise ValueError(
            f"`dataset_json` must be JSON, got {str(path)!r}: {error}. Correct it."
        ) from error

    if not isinstance(content, Mapping):
        raise ValueError(
            f"`dataset_json` must be a mapping, got {str(path)!r}. Give nnU-Net's dataset.json."
        )
    return content


def read_if_usable(path: Path) -> Mapping[str, Any] | None:
    """Read a dataset.json or plans.json, or give None if it does not exist or is damaged."""
    try:
        return read_dataset_json(path)
    except (OSError, ValueError):
        return None


def described_model(folder: Path, name: str, *, needed: Collection[str]) -> Mapping[str, Any]:
    """Read ``plans.json`` or ``dataset.json`` in the folder of a model.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, or lacks a name that is needed.
    """
    path = folder / name
    cure = "Copy it from where the model was trained."
    if not path.is_file():
        raise FileNotFoundError(f"`{name}` must be beside the folds, got no {str(path)!r}. {cure}")

    content = read_if_usable(path)
    if content is None or not set(needed) <= set(content):
        names = " and ".join(needed)
        raise ValueError(f"`{name}` must be JSON with {names}, got {str(path)!r}. {cure}")
    return content


def folds_in(model: Path) -> list[str]:
    """The folds of a model that have a folder, by their number; ``all`` is the last."""
    folds = []
    for path in model.glob("fold_*"):
        match = FOLD_NAME.fullmatch(path.name)
        if match and path.is_dir():
            folds.append(match[1])
    return sorted(folds, key=lambda fold: (fold == "all", len(fold), fold))


def folder_of(variable: str, *, cure: str = "") -> Path:
    """The folder that one of nnU-Net's environment variables names; it need not exist.

    Raises:
        ValueError: If the variable is not set.
    """
    value = os.environ.get(variable)
    if not value:
        also = f", or {cure}" if cure else ""
        raise ValueError(
            f"`{variable}` must be set in the environment, got nothing. Set it as for nnU-Net "
            f"(export {variable}=...){also}."
        )
    return Path(value).absolute()


def dataset_folder(variable: str, dataset: str) -> Path | None:
    """The folder of a dataset below nnUNet_raw or another variable, or None if that is not set.

    It need not exist.
    """
    if not os.environ.get(variable):
        return None
    return folder_of(variable) / dataset


def find_dataset(
    name: str, folder: Path, *, cure: str = "", absent: str = "which does not exist"
) -> Path:
    """The folder of a dataset, by its name (Dataset123_Name) or number (123).

    ``absent`` says of a dataset without a folder what it lacks, and ``cure`` what to do about it.

    Raises:
        FileNotFoundError: If no dataset has this name or number.
        ValueError: If several datasets have this number.
    """
    names = sorted(path.name for path in folder.glob("*") if path.is_dir())
    matching = [name] if name in names else []
    if re.fullmatch(r"\d+", name, re.ASCII):
        prefix = f"Dataset{int(name):03d}_"
        matching += [other for other in names if other.startswith(prefix)]

    if len(matching) > 1:
        raise ValueError(
            f"`dataset` must be one dataset, got {name!r} for {name_some(matching)}. Give its name."
        )
    if not matching:
        choices = name_some([other for other in names if other.startswith("Dataset")], at_most=20)
        also = f"; or {cure}" if cure else ""
        raise FileNotFoundError(
            f"`dataset` must be in {str(folder)!r}, got {name!r}, {absent}. Choose from: "
            f"{choices}{also}."
        )
    return folder / matching[0]


def splits_path(raw_dataset: Path) -> Path:
    """The file, below nnUNet_preprocessed, in which nnU-Net looks for the folds of a raw dataset.

    It need not exist.
    """
    preprocessed = folder_of("nnUNet_preprocessed", cure="name the file with --output")
    name = raw_dataset.absolute().name
    if not re.fullmatch(r"Dataset\d{3,}_.+", name):
        raise ValueError(
            f"`dataset` must be named DatasetXXX_Name, as nnU-Net requires, got {name!r}. Rename "
            "the folder, or name the file with --output."
        )
    return preprocessed / name / SPLITS_FILE


def fold_folder(
    results: Path, trainer: str, plans: str, configuration: str, fold: int | str
) -> Path:
    """The folder in which nnU-Net writes the results of training on a fold, a number or ``all``.

    It need not exist.
    """
    return results / f"{trainer}__{plans}__{configuration}" / f"fold_{fold}"


def plans_option(plans: str) -> str:
    """The option of nnU-Net's commands that names the plans, with a space before it; or nothing."""
    return "" if plans == USUAL_PLANS else f" -p {plans}"


def folds_of(folders: Sequence[Path]) -> list["Fold"]:
    """The folds of one model, in the order of their names and each once.

    Args:
        folders: The folder of the model, or folders of its folds.

    Raises:
        FileNotFoundError: If a folder does not exist.
        ValueError: If a folder is not one of nnU-Net's, or they belong to several models.
    """
    folds: dict[Path, Fold] = {}
    for folder in folders:
        inner = [folder / f"fold_{fold}" for fold in folds_in(folder)]
        is_fold = not folder.is_dir() or FOLD_NAME.fullmatch(folder.absolute().name)
        if is_fold or not inner:
            inner = [folder]
        for fold in map(Fold.of, inner):
            folds[fold.folder] = fold

    models = {str(path.parent) for path in folds}
    if len(models) > 1:
        raise ValueError(
            f"`fold_folder` must be folds of one model, got {name_some(sorted(models))}. Give the "
            "folder of the model, or several of its folds."
        )

    # By length first, so that fold_10 comes after fold_9.
    ordered = sorted(folds, key=lambda path: (len(path.name), path.name))
    return [folds[path] for path in ordered]


@dataclass(frozen=True)
class Fold:
    """The results folder of a fold, with the names that its path consists of."""

    folder: Path  # absolute path ``.../DATASET/TRAINER__PLANS__CONFIGURATION/fold_X``
    dataset: str  # name of the dataset, such as Dataset123_Name
    trainer: str
    plans: str
    configuration: str  # name of the configuration, such as 3d_fullres

    @classmethod
    def of(cls, folder: Path) -> "Fold":
        """Recognise the fold that a folder belongs to.

        Raises:
            FileNotFoundError: If there is no such folder.
            ValueError: If it is not the folder of a fold in nnUNet_results.
        """
        path = Path(os.path.abspath(folder))
        form = "DatasetXXX_Name/TRAINER__PLANS__CONFIGURATION/fold_X"
        check_folder(
            "fold_folder", Path(folder), f"Give the folder of a fold in nnUNet_results: {form}."
        )

        model = path.parent
        parts = model.name.split("__")
        has_parts = len(parts) == 3 and all(parts)
        if not FOLD_NAME.fullmatch(path.name) or not has_parts or not model.parent.name:
            raise ValueError(
                f"`fold_folder` must be {form} in nnUNet_results, got {str(path)!r}. Give the "
                "folder of one fold."
            )
        return cls(path, model.parent.name, *parts)

    @property
    def about(self) -> dict[str, str]:
        """What the model is trained with, and on what, under headings."""
        return {
            "Dataset": self.dataset,
            "Trainer": self.trainer,
            "Plans": self.plans,
            "Configuration": self.configuration,
        }

    @property
    def number(self) -> str:
        """Its number, or ``all``."""
        return self.folder.name.removeprefix("fold_")

    def dataset_folder(self, variable: str) -> Path | None:
        """The dataset's folder below nnUNet_raw or nnUNet_preprocessed.

        If the variable is not set, it is looked for in folders beside the results, which are named
        after the variable or as the results are; it is None if there is none.
        """
        if os.environ.get(variable):
            return dataset_folder(variable, self.dataset)

        results = self.folder.parents[2]
        kind = variable.removeprefix("nnUNet_")
        places = [results.parent / variable]
        if "results" in results.name:
            places.append(results.parent / results.name.replace("results", kind))

        folders = [place / self.dataset for place in places]
        return next(filter(Path.is_dir, folders), None)

    def description(self, name: str) -> Mapping[str, Any] | None:
        """Read ``plans.json`` or ``dataset.json`` next to the folds.

        It is None if it does not exist or is damaged.
        """
        return read_if_usable(self.folder.parent / name)


def settings_of(plans: Mapping[str, Any], configuration: str) -> dict[str, Any]:
    """The settings of a configuration in plans.json, with those that it inherits.

    They are empty if plans.json does not have the configuration.
    """
    configurations = plans.get("configurations")
    if not isinstance(configurations, Mapping):
        return {}

    settings: dict[str, Any] = {}
    seen: set[str] = set()
    name = configuration
    while isinstance(configurations.get(name), Mapping) and name not in seen:
        seen.add(name)
        settings = {**configurations[name], **settings}
        name = str(configurations[name].get("inherits_from"))
    return settings
