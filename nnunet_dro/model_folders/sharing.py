"""A trained model as a zip file that nnU-Net installs and predicts with, without this package."""

import io
import json
import re
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.bad_input import InputError, check_folder
from nnunet_dro.files.output_folder import check_new_file, replacing
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import (
    CHECKPOINT,
    DATASET_JSON,
    PLANS_JSON,
    described_model,
    folds_in,
    settings_of,
)
from nnunet_dro.trainers.checkpoint import read_checkpoint, state_in, trained_cases
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.registry import find_trainer

#: What nnU-Net reads to predict, of the plans, of the description of the dataset and of a
#: checkpoint.
_KEYS_OF_PLANS = (
    "dataset_name",
    "plans_name",
    "original_median_spacing_after_transp",
    "original_median_shape_after_transp",
    "image_reader_writer",
    "transpose_forward",
    "transpose_backward",
    "configurations",
    "experiment_planner_used",
    "label_manager",
    "foreground_intensity_properties_per_channel",
    "foreground_intensity_properties_by_modality",
)
_KEYS_OF_DATASET = (
    "channel_names",
    "modality",
    "labels",
    "regions_class_order",
    "file_ending",
    "overwrite_image_reader_writer",
)
_KEYS_OF_CHECKPOINT = (
    "network_weights",
    "inference_allowed_mirroring_axes",
    "trainer_name",
    "init_args",
)

#: Texts of the description that tell the recipient where the model comes from.
_TEXTS = ("name", "description", "reference", "licence", "license", "release")

_GIVE = "Give the folder TRAINER__PLANS__CONFIGURATION in nnUNet_results."


@dataclass(frozen=True)
class SharedModel:
    """A model that has been written for others."""

    path: Path
    folder: str  # folder of the model in the file, and below nnUNet_results once it is installed
    predict: str  # command with which the recipient predicts
    #: What is not in the file: by ``checkpoints``, ``plans.json`` and ``dataset.json`` their keys,
    #: and by ``files`` the names of files and folders of the model folder and its folds.
    left_out: Mapping[str, Sequence[str]]


def share_model(
    model_folder: Path,
    output: Path,
    *,
    folds: Sequence[str] | None = None,
    checkpoint: str = CHECKPOINT,
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> SharedModel:
    """Write a trained model as a zip file for ``nnUNetv2_install_pretrained_model_from_zip``.

    The checkpoints get the name of nnU-Net's own trainer, whose network they are for. The file has
    what prediction needs: no names and no losses of training cases, and no state of the optimiser.

    Args:
        model_folder: The folder TRAINER__PLANS__CONFIGURATION of a model.
        output: The file to write.
        folds: The folds to share, such as ``0``; None for those with a number, or else ``all``.
        checkpoint: Name of the checkpoint of each fold.
        overwrite: Whether to replace a file that exists.
        progress: Called with the numbers of checkpoints that are written and of all.

    Raises:
        FileNotFoundError: If the folder, a checkpoint, or what describes the model is missing.
        FileExistsError: If the file exists and is not to be replaced.
        ValueError: If a fold is none of the model's, or nnU-Net cannot build the network itself.
    """
    check_new_file(output, overwrite=overwrite)
    shared_folds = _folds(model_folder, folds, checkpoint)
    plans = described_model(model_folder, PLANS_JSON, needed=("plans_name", "configurations"))
    dataset = described_model(model_folder, DATASET_JSON, needed=("labels", "file_ending"))
    dataset_name = _dataset_name(model_folder, plans)
    cases: set[str] = set()
    left_out: dict[str, Sequence[str]] = {}
    with (
        replacing(output) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for n_done, fold in enumerate(shared_folds):
            progress(n_done, len(shared_folds))
            state = _checked(model_folder / f"fold_{fold}" / checkpoint)
            cases |= trained_cases(state_in(state))
            configuration = state["init_args"]["configuration"]
            folder = f"{dataset_name}/nnUNetTrainer__{plans['plans_name']}__{configuration}"
            left_out["checkpoints"] = [key for key in state if key not in _KEYS_OF_CHECKPOINT]
            archive.writestr(f"{folder}/fold_{fold}/{checkpoint}", _for_prediction(state))
        progress(len(shared_folds), len(shared_folds))

        left_out |= _write_descriptions(archive, folder, plans, dataset, cases)
        postprocessing = f"crossval_results_folds_{'_'.join(shared_folds)}/postprocessing.pkl"
        if (model_folder / postprocessing).is_file():
            archive.write(model_folder / postprocessing, f"{folder}/{postprocessing}")
        left_out["files"] = _other_files(model_folder, archive.namelist(), folder)

    return SharedModel(
        output,
        folder,
        predict=_prediction(dataset_name, plans, configuration, shared_folds, checkpoint),
        left_out=left_out,
    )


def _dataset_name(model_folder: Path, plans: Mapping[str, Any]) -> str:
    """The name of the dataset that a model is of: its folder's, unless the model has been moved."""
    name = model_folder.absolute().parent.name
    return name if re.fullmatch(r"Dataset\d{3,}_.+", name) else str(plans["dataset_name"])


def _prediction(
    dataset: str,
    plans: Mapping[str, Any],
    configuration: str,
    folds: Sequence[str],
    checkpoint: str,
) -> str:
    """The command that predicts with a model."""
    words = ["nnUNetv2_predict", "-d", dataset, "-c", configuration, "-p", plans["plans_name"]]
    if settings_of(plans, configuration).get("previous_stage"):
        words += ["-prev_stage_predictions", "PREDICTIONS_OF_THE_STAGE_BEFORE"]
    words += ["-f", *folds]
    if checkpoint != CHECKPOINT:
        words += ["-chk", checkpoint]
    return " ".join([*words, "-i", "INPUT", "-o", "OUTPUT"])


def _folds(model_folder: Path, folds: Sequence[str] | None, checkpoint: str) -> list[str]:
    """The folds to share, each of which has the checkpoint."""
    check_folder("model_folder", model_folder, _GIVE)
    there = folds_in(model_folder)
    if not there:
        raise ValueError(
            f"`model_folder` must hold folders fold_X, got {str(model_folder)!r}, which has none. "
            f"{_GIVE}"
        )
    if folds is None:
        folds = [fold for fold in there if fold != "all"] or there

    if unknown := [fold for fold in folds if fold not in there]:
        raise ValueError(
            f"`folds` must be folds of the model, got {name_some(unknown)}. Choose from: "
            f"{name_some(there)}."
        )
    if len(set(folds)) < len(folds) or not folds:
        raise ValueError(
            f"`folds` must be different folds, at least one, got {name_some(folds)}. "
            "Name one or several, each once."
        )

    if Path(checkpoint).name != checkpoint:
        raise InputError(
            "checkpoint",
            must="be the name of a file that every fold has",
            got=repr(checkpoint),
            cure="Leave out its folder.",
        )
    names = [f"fold_{fold}" for fold in folds]
    without = [name for name in names if not (model_folder / name / checkpoint).is_file()]
    if without:
        raise FileNotFoundError(
            f"`checkpoint` must be a file of every fold, got {checkpoint!r}, which does not exist "
            f"in {name_some(without)}. Finish the training, choose the folds with --folds, or name "
            "another checkpoint with --checkpoint."
        )
    return sorted(folds, key=there.index)


def _checked(path: Path) -> dict[str, Any]:
    """Read a checkpoint, for whose trainer nnU-Net's own must build the network."""
    checkpoint = read_checkpoint(path, cure="Name one with --checkpoint.")
    name = checkpoint["trainer_name"]
    trainer = find_trainer(name)
    if trainer is None or not issubclass(trainer, HardnessWeighted):
        raise ValueError(
            "`trainer` must be one of nnunet-dro, or a mix-in of HardnessWeighted that nnU-Net "
            f"finds, got {name!r}. Share other models with nnUNetv2_export_model_to_zip."
        )
    if trainer.build_network_architecture is not nnUNetTrainer.build_network_architecture:
        raise ValueError(
            f"`trainer` must have the network of nnUNetTrainer, got {name!r}, which builds its "
            "own: nnU-Net cannot predict without the trainer. Share it together with its code, "
            "with nnUNetv2_export_model_to_zip."
        )
    return checkpoint


def _for_prediction(checkpoint: Mapping[str, Any]) -> bytes:
    """The file of a checkpoint with what prediction needs, by the name of nnU-Net's trainer."""
    kept = {key: checkpoint[key] for key in _KEYS_OF_CHECKPOINT if key in checkpoint}
    kept["trainer_name"] = nnUNetTrainer.__name__
    arguments = checkpoint["init_args"]
    kept["init_args"] = {
        key: arguments[key] for key in ("configuration", "fold") if key in arguments
    }

    with io.BytesIO() as buffer:
        torch.save(kept, buffer)
        return buffer.getvalue()


def _write_descriptions(
    archive: zipfile.ZipFile,
    folder: str,
    plans: Mapping[str, Any],
    dataset: Mapping[str, Any],
    cases: Collection[str],
) -> dict[str, list[str]]:
    """Write what describes a model into its folder, and return the keys that are left out.

    No text that names one of the cases is written.
    """
    keys_of_dataset = [*_KEYS_OF_DATASET, *_anonymous_texts(dataset, cases)]
    return {
        PLANS_JSON: _write_json(archive, f"{folder}/{PLANS_JSON}", plans, _KEYS_OF_PLANS),
        DATASET_JSON: _write_json(archive, f"{folder}/{DATASET_JSON}", dataset, keys_of_dataset),
    }


def _anonymous_texts(dataset: Mapping[str, Any], trained_cases: Collection[str]) -> list[str]:
    """The keys of the texts of a description that name no training case, as a word of its own."""
    cases = set(trained_cases)
    # The logs of the checkpoints may name cases that the description does not list.
    listed = dataset.get("dataset")
    if isinstance(listed, Mapping):
        cases.update(map(str, listed))
    patterns = [re.compile(rf"(?<!\w){re.escape(case)}(?!\w)") for case in cases]
    anonymous = []
    for key in _TEXTS:
        text = str(dataset.get(key, ""))
        if key in dataset and not any(pattern.search(text) for pattern in patterns):
            anonymous.append(key)
    return anonymous


def _write_json(
    archive: zipfile.ZipFile, name: str, content: Mapping[str, Any], keys: Collection[str]
) -> list[str]:
    """Write some keys of a description into the archive, and return those that are left out."""
    kept = {key: content[key] for key in keys if key in content}
    archive.writestr(name, json.dumps(kept, indent=4))
    return [key for key in content if key not in keys]


def _other_files(model_folder: Path, archived: Collection[str], folder_there: str) -> list[str]:
    """Names of the files and folders that are not in the archive, where the model has a folder.

    Only the model folder and the folders of what is there are looked into.
    """
    shared_paths = set()
    for name in archived:
        path = Path(name.removeprefix(f"{folder_there}/"))
        shared_paths |= {path, *path.parents}

    others = set()
    for folder in shared_paths:
        if (model_folder / folder).is_dir():
            paths = {path.relative_to(model_folder) for path in (model_folder / folder).iterdir()}
            others |= {path.name for path in paths - shared_paths}
    return sorted(others)
