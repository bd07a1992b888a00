"""The folders of nnU-Net, below those that its environment variables name, and the descriptions that they hold."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some, nearest_names

DATASET_JSON = "dataset.json"  # The file in which nnU-Net keeps the description of a dataset.
SPLITS_FILE = "splits_final.json"  # The file in which nnU-Net looks for the folds of a dataset.

#: The checkpoint of a finished training, and all in the order in which nnU-Net's ``--c`` looks for
#: them.
CHECKPOINT = "checkpoint_final.pth"
CHECKPOINTS = (CHECKPOINT, "checkpoint_latest.pth", "checkpoint_best.pth")

FOLD_NAME = re.compile(r"fold_(\d+|all)", re.ASCII)  # Name of the folder of a fold.


def find_dataset_json(reference: Path) -> Path | None:
    """Find dataset.json in a folder of references or in one of the two folders above it.

    None if there is none.
    """
    folder = reference.absolute()
    candidates = (parent / DATASET_JSON for parent in (folder, folder.parent, folder.parent.parent))
    return next((path for path in candidates if path.is_file()), None)


def read_dataset_json(path: Path) -> Mapping[str, Any]:
    """Read a dataset.json."""
    if not path.is_file():
        got = f"{str(path)!r}, which does not exist"
        raise FileNotFoundError(f"`dataset_json` must be a file, got {got}. Check the path.")
    try:
        content = read_json(path, encoding="utf-8-sig")
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
    """Read a dataset.json or plans.json; None if it does not exist or is damaged."""
    try:
        content = read_json(path, encoding="utf-8-sig")
    except (OSError, ValueError):
        return None
    return content if isinstance(content, Mapping) else None


def folder_of(variable: str, *, cure: str = "") -> Path:
    """The folder that one of nnU-Net's environment variables names; it need not exist."""
    if not (value := os.environ.get(variable)):
        also = f", or {cure}" if cure else ""
        raise ValueError(
            f"`{variable}` must be set in the environment, got nothing. Set it as for nnU-Net (export {variable}=...)"
            f"{also}."
        )
    return Path(value).absolute()


def dataset_folder(variable: str, dataset: str) -> Path | None:
    """The folder of a dataset below nnUNet_raw or another variable, if it exists or not.

    None if that is not set.
    """
    return folder_of(variable) / dataset if os.environ.get(variable) else None


def find_dataset(name: str, folder: Path, *, cure: str = "") -> Path:
    """The folder of a dataset, by its name (Dataset123_Name) or number (123)."""
    there = (
        sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    )
    prefix = f"Dataset{int(name):03d}_" if re.fullmatch(r"\d+", name, re.ASCII) else None
    found = [other for other in there if other == name or (prefix and other.startswith(prefix))]
    if len(found) > 1:
        raise ValueError(
            f"`dataset` must be one dataset, got {name!r} for {name_some(found)}. Give its name."
        )
    if not found:
        known = name_some([other for other in there if other.startswith("Dataset")], at_most=20)
        also = f"; or {cure}" if cure else ""
        raise FileNotFoundError(
            f"`dataset` must be in {str(folder)!r}, got {name!r}, which does not exist. Choose from: {known}{also}."
        )
    return folder / found[0]


def splits_path(raw_dataset: Path) -> Path:
    """The file, below nnUNet_preprocessed, in which nnU-Net looks for the folds of a raw dataset.

    It need not exist.
    """
    preprocessed = folder_of("nnUNet_preprocessed", cure="name the file with --output")
    name = raw_dataset.absolute().name
    if not re.fullmatch(r"Dataset\d{3,}_.+", name):
        cure = "Rename the folder, or name the file with --output."
        raise ValueError(
            f"`dataset` must be named DatasetXXX_Name, as nnU-Net requires, got {name!r}. {cure}"
        )
    return preprocessed / name / SPLITS_FILE


def fold_folder(
    results: Path, trainer: str, plans: str, configuration: str, fold: int | str
) -> Path:
    """The folder in which nnU-Net writes the results of training on a fold, a number or ``all``.

    It need not exist.
    """
    return results / f"{trainer}__{plans}__{configuration}" / f"fold_{fold}"


def trained_model(dataset: str, trainer: str, plans: str, configuration: str | None) -> Path:
    """The folder of a trained model in nnUNet_results.

    Whichever of its names is wrong, those that fit are named.
    """
    results = find_dataset(dataset, folder_of("nnUNet_results", cure="give folders"))
    models = [path.name.split("__") for path in sorted(results.glob("*__*__*")) if path.is_dir()]
    wanted = {"trainer": trainer, "plans": plans, "configuration": configuration}
    for place, (kind, name) in enumerate(wanted.items()):
        known = dict.fromkeys(model[place] for model in models)
        models = [model for model in models if model[place] == name]
        if not models:
            got = repr(name) if name else "none"
            cure = f"Choose from: {nearest_names(name or '', list(known))}."
            raise FileNotFoundError(
                f"`{kind}` must be one that was trained in {str(results)!r}, got {got}. {cure}"
            )
    return results / "__".join(models[0])


def references_of(dataset: str) -> Path:
    """The reference label maps of the training cases of a dataset.

    Those that nnU-Net validates with, or labelsTr.
    """
    inner = {"nnUNet_preprocessed": "gt_segmentations", "nnUNet_raw": "labelsTr"}
    places = [
        known / name
        for variable, name in inner.items()
        if (known := dataset_folder(variable, dataset))
    ]
    if found := next((place for place in places if place.is_dir()), None):
        return found
    got = name_some(list(map(str, places))) if places else "neither variable set"
    raise FileNotFoundError(
        f"`reference` must be gt_segmentations of {dataset} in nnUNet_preprocessed or labelsTr in nnUNet_raw, got "
        f"{'no such folder: ' * bool(places)}{got}. Set the variables as for nnU-Net, or give folders."
    )


def folds_of(folders: Sequence[Path]) -> list["Fold"]:
    """The folds by name, each once, of folders of folds of one model, or of the folder of the model."""
    found: dict[Path, Fold] = {}
    for folder in folders:
        inner = sorted(
            path
            for path in folder.glob("fold_*")
            if path.is_dir() and FOLD_NAME.fullmatch(path.name)
        )
        is_model = folder.is_dir() and not FOLD_NAME.fullmatch(folder.absolute().name)
        for fold in map(Fold.of, inner if is_model and inner else [folder]):
            found[fold.folder] = fold
    if len(models := {str(path.parent) for path in found}) > 1:
        cure = "Give the folder of the model, or several of its folds."
        raise ValueError(
            f"`fold_folder` must be folds of one model, got {name_some(sorted(models))}. {cure}"
        )
    return [found[path] for path in sorted(found, key=lambda path: (len(path.name), path.name))]


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
        """Recognise the fold that a folder belongs to."""
        path = Path(os.path.abspath(folder))
        form = "DatasetXXX_Name/TRAINER__PLANS__CONFIGURATION/fold_X"
        if not path.is_dir():
            what = "is a file" if path.exists() else "does not exist"
            got = f"{str(folder)!r}, which {what}"
            cure = f"the folder of a fold in nnUNet_results: {form}"
            raise FileNotFoundError(f"`fold_folder` must be a folder, got {got}. Give {cure}.")
        parts = path.parent.name.split("__")
        if (
            not FOLD_NAME.fullmatch(path.name)
            or len(parts) != 3
            or not all(parts)
            or not path.parent.parent.name
        ):
            cure = "Give the folder of one fold."
            raise ValueError(
                f"`fold_folder` must be {form} in nnUNet_results, got {str(path)!r}. {cure}"
            )
        return cls(path, path.parent.parent.name, *parts)

    @property
    def about(self) -> dict[str, str]:
        """What the model is trained with, and on what, under headings."""
        of_model = {
            "Trainer": self.trainer,
            "Plans": self.plans,
            "Configuration": self.configuration,
        }
        return {"Dataset": self.dataset, **of_model}

    @property
    def number(self) -> str:
        """Its number, or ``all``."""
        return self.folder.name.removeprefix("fold_")

    def dataset_folder(self, variable: str) -> Path | None:
        """The dataset's folder below nnUNet_raw or nnUNet_preprocessed, or in a folder beside the results; or None."""
        if os.environ.get(variable):
            return dataset_folder(variable, self.dataset)
        results = self.folder.parents[2]
        kind = variable.removeprefix("nnUNet_")
        places = [results.parent / variable]
        if "results" in results.name:
            places.append(results.parent / results.name.replace("results", kind))
        return next(
            (place / self.dataset for place in places if (place / self.dataset).is_dir()), None
        )

    def description(self, name: str) -> Mapping[str, Any] | None:
        """Read ``plans.json`` or ``dataset.json`` next to the folds.

        None if it does not exist or is damaged.
        """
        return read_if_usable(self.folder.parent / name)

    def settings_in(self, plans: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the configuration in plans.json, with those that it inherits.

        Empty if there are none.
        """
        configurations = plans.get("configurations")
        name = self.configuration
        known = configurations if isinstance(configurations, Mapping) else {}
        settings: dict[str, Any] = {}
        seen: set[str] = set()
        while isinstance(known.get(name), Mapping) and name not in seen:
            seen.add(name)
            settings = {**known[name], **settings}
            name = str(known[name].get("inherits_from"))
        return settings
