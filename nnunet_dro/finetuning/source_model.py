"""The model that a finetuning starts from: found, read, and compared with what is to be trained."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnunetv2.utilities.plans_handling.plans_handler import PlansManager
from torch import Tensor

from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.dataset_json import DATASET_JSON, read_dataset_json, read_if_usable
from nnunet_dro.nnunet.training import Target
from nnunet_dro.trainers.checkpoint import Source, digest_of, read_checkpoint

FINAL = "checkpoint_final.pth"

#: Prefixes of the names of weights that distributed training and torch.compile leave.
_PREFIXES = ("module.", "_orig_mod.")

#: What a configuration must have in common with the source's: the network expects images as they were.
_OF_CONFIGURATION = ("spacing", "normalization_schemes", "use_mask_for_norm")


@dataclass(frozen=True)
class SourceModel:
    """A trained model.

    Attributes:
        path: Its checkpoint.
        source: What the new training's checkpoints will say of it.
        weights: Weights of the network, with the names that nnU-Net's networks have.
        mirroring_axes: Axes along which prediction may mirror, None if the checkpoint does not say.
        fold: Its fold, None if the checkpoint does not say.
        configuration: Name of its configuration.
        plans: Its plans; None if neither the checkpoint nor the model's folder has them.
        dataset: Its dataset.json; None likewise.
    """

    path: Path
    source: Source
    weights: Mapping[str, Tensor]
    mirroring_axes: tuple[int, ...] | None
    fold: int | str | None
    configuration: str
    plans: Mapping[str, Any] | None
    dataset: Mapping[str, Any] | None

    def has_seen_validation_cases_of(self, target: Target) -> bool:
        """Whether it may have been trained on cases that the fold of the target validates on."""
        if self.plans is None or self.plans.get("dataset_name") != target.dataset:
            return False
        return target.fold != "all" and str(self.fold) != target.fold


def find_source(given: str, target: Target) -> Path:
    """Find the checkpoint to start from; a trainer's name means its model of the target's plans and fold."""
    is_path = os.sep in given or Path(given).exists()
    path = Path(given) if is_path else target.fold_folder(given)
    if path.is_file():
        return path
    if (path / FINAL).is_file():
        return path / FINAL
    if path.is_dir():
        cure = "Finish that training, or name another checkpoint of it."
        raise FileNotFoundError(f"`from` must be a finished training, got {str(path)!r} without {FINAL}. {cure}")
    ending = f"__{target.plans}__{target.configuration}"
    models = target.results.glob(f"*{ending}/fold_{target.fold}/{FINAL}")
    trained = sorted(model.parents[1].name.removesuffix(ending) for model in models)
    raise FileNotFoundError(
        f"`from` must be a trainer, a fold's folder or a checkpoint, got {given!r}; {str(path)!r} does not exist. "
        f"Trainers that have finished fold {target.fold}: {name_some(trained, at_most=10)}."
    )


def read_source(path: Path) -> SourceModel:
    """Read a model; what is not a checkpoint of nnU-Net is refused."""
    checkpoint = read_checkpoint(path, cure="Name one of nnU-Net's with --from.")
    try:
        return _model(path, checkpoint)
    except (TypeError, AttributeError, ValueError) as error:
        cure = "Copy it again from where the model was trained."
        raise ValueError(f"`from` must be a checkpoint of nnU-Net, got {str(path)!r}: {error}. {cure}") from error


def _model(path: Path, checkpoint: Mapping[str, Any]) -> SourceModel:
    weights = {_bare(name): values for name, values in checkpoint["network_weights"].items()}
    arguments, model_folder = checkpoint["init_args"], path.absolute().parents[1]
    axes = checkpoint.get("inference_allowed_mirroring_axes")
    trainer, epochs = str(checkpoint["trainer_name"]), int(checkpoint.get("current_epoch", 0))
    return SourceModel(
        path=path,
        source=Source(trainer, str(path.absolute()), epochs, digest_of(weights)),
        weights=weights,
        mirroring_axes=None if axes is None else tuple(axes),
        fold=arguments.get("fold"),
        configuration=str(arguments["configuration"]),
        plans=arguments.get("plans") or read_if_usable(model_folder / "plans.json"),
        dataset=arguments.get("dataset_json") or read_if_usable(model_folder / DATASET_JSON),
    )


def _bare(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name


def check_same_task(model: SourceModel, target: Target) -> None:
    """Check that the target has the source's labels and channels, and images as the source's network expects them."""
    try:
        _check_same_task(model, target)
    except (KeyError, TypeError, AttributeError) as error:
        places = f"{str(model.path)!r} or {str(target.preprocessed)!r}"
        cure = "Copy the model again, or plan again."
        raise ValueError(
            f"`from` must have nnU-Net's plans and dataset.json, got others in {places}. {cure}"
        ) from error


def _check_same_task(model: SourceModel, target: Target) -> None:
    if model.dataset is not None:
        before, now = _task(model.dataset), _task(read_dataset_json(target.dataset_json))
        for what in before:
            if before[what] != now[what]:
                _refuse(model, what, before[what], now[what], "Train a model of this dataset first.")
    if model.plans is None:
        return
    plans = read_json(target.preprocessed / f"{target.plans}.json")
    before, now = _images(model.plans, model.configuration), _images(plans, target.configuration)
    for what in before:
        if before[what] != now[what]:
            cure = "Plan and preprocess with the plans of that model (nnUNetv2_move_plans_between_datasets)."
            _refuse(model, what, before[what], now[what], cure)


def _task(dataset: Mapping[str, Any]) -> dict[str, Any]:
    labels = {name: value if isinstance(value, int) else list(value) for name, value in dataset["labels"].items()}
    has_regions = any(isinstance(value, list) for value in labels.values())
    channels = dataset.get("channel_names", dataset.get("modality", {}))
    return {
        # The heads of regions follow the order of the file.
        "labels": list(labels.items()) if has_regions else labels,
        "regions_class_order": list(dataset.get("regions_class_order") or ()),
        "channel_names": [channels[key] for key in sorted(channels, key=int)],
    }


def _images(plans: Mapping[str, Any], name: str) -> dict[str, Any]:
    configuration = PlansManager(dict(plans)).get_configuration(name).configuration
    images = {key: _plain(configuration.get(key)) for key in _OF_CONFIGURATION}
    images["transpose_forward"] = list(plans["transpose_forward"])
    if "CTNormalization" in configuration["normalization_schemes"]:
        key = "foreground_intensity_properties_per_channel"
        images[key] = plans.get(key, plans.get("foreground_intensity_properties_by_modality"))
    return images


def _plain(value: Any) -> Any:
    """The value as JSON reads it."""
    return json.loads(json.dumps(value))


def _refuse(model: SourceModel, what: str, before: Any, now: Any, cure: str) -> None:
    raise ValueError(f"`from` must have the {what} of what is trained, {now!r}, got {before!r} in {model.path}. {cure}")


def check_same_network(model: SourceModel, weights: Mapping[str, Tensor]) -> None:
    """Check that the source's weights fit a network; the error names the first difference."""
    before, now = ({name: tuple(w.shape) for name, w in each.items()} for each in (model.weights, weights))
    differing = [name for name in {**now, **before} if before.get(name) != now.get(name)]
    if differing:
        shapes = " and ".join(str(each[differing[0]]) if differing[0] in each else "none" for each in (before, now))
        raise ValueError(
            f"`from` must have the network that is trained, got {model.path}, where {len(differing)} of {len(now)} "
            f"weights differ ({differing[0]} has the shapes {shapes}). Use the plans and the configuration of that "
            "model (-p), or train one with these."
        )
