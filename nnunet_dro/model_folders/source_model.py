"""The finished model that a finetuning starts from: found, read and compared with the target."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnunetv2.utilities.plans_handling.plans_handler import PlansManager
from torch import Tensor

from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import CHECKPOINT, DATASET_JSON, read_dataset_json, read_if_usable
from nnunet_dro.nnunet.training import Target
from nnunet_dro.trainers.checkpoint import (
    Source,
    digest_of,
    read_checkpoint,
    state_in,
    trained_cases,
)

#: What a configuration must have in common with the source's: the network expects images as they
#: were.
_SAME_IN_CONFIGURATION = ("spacing", "normalization_schemes", "use_mask_for_norm")


@dataclass(frozen=True)
class SourceModel:
    """A trained model; what neither its checkpoint nor its folder says is None."""

    path: Path  # of its checkpoint
    source: Source  # what the new training's checkpoints will say of it
    weights: Mapping[str, Tensor]  # with the names that nnU-Net's networks have
    mirroring_axes: tuple[int, ...] | None  # along which prediction may mirror
    fold: int | str | None
    configuration: str
    plans: Mapping[str, Any] | None
    dataset: Mapping[str, Any] | None  # content of dataset.json
    cases: Collection[str]  # that the checkpoint says it was trained on; plain ones say nothing

    def seen_validation_cases(self, target: Target) -> list[str] | None:
        """The cases that the target's fold holds out, and that this model may have been trained on.

        None if nothing says which cases the fold holds out.
        """
        is_of_dataset = self.plans is not None and self.plans.get("dataset_name") == target.dataset
        is_same_fold = not self.cases and str(self.fold) == target.fold
        if not is_of_dataset or is_same_fold or target.fold == "all":
            return []

        held_out = target.held_out_cases()
        other = replace(target, fold=str(self.fold))
        trained = set(self.cases) or held_out - other.held_out_cases()
        return sorted(held_out & trained) if held_out else None


def find_source(name: str, target: Target) -> Path:
    """Find the checkpoint to start from.

    A trainer's name means its model of the target's plans and fold.
    """
    path = target.fold_folder(name)
    # A folder of predictions may have the trainer's name.
    is_other_folder = Path(name).is_dir() and not path.is_dir()
    if os.sep in name or Path(name).is_file() or is_other_folder:
        path = Path(name)

    if path.is_file():
        return path
    if (path / CHECKPOINT).is_file():
        return path / CHECKPOINT
    if path.is_dir():
        raise FileNotFoundError(
            f"`from` must be a finished training, got {str(path)!r} without {CHECKPOINT}. Finish "
            "that training, or name another checkpoint of it."
        )

    ending = f"__{target.plans}__{target.configuration}"
    checkpoints = target.results.glob(f"*{ending}/fold_{target.fold}/{CHECKPOINT}")
    trainers = sorted(checkpoint.parents[1].name.removesuffix(ending) for checkpoint in checkpoints)
    raise FileNotFoundError(
        f"`from` must be a trainer, a fold's folder or a checkpoint, got {name!r}; "
        f"{str(path)!r} does not exist. "
        f"Trainers that have finished fold {target.fold}: {name_some(trainers, at_most=10)}."
    )


def read_source(path: Path) -> SourceModel:
    """Read a model; what is not a checkpoint of nnU-Net is refused."""
    checkpoint = read_checkpoint(path, cure="Name one of nnU-Net's with --from.")
    model_folder = path.absolute().parents[1]
    try:
        return _source_model(path, checkpoint, model_folder)
    except (TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"`from` must be a checkpoint of nnU-Net, got {str(path)!r}: {error}. Copy it again "
            "from where the model was trained."
        ) from error


def _source_model(path: Path, checkpoint: Mapping[str, Any], model_folder: Path) -> SourceModel:
    """The model of a checkpoint.

    The checkpoint of a shared model has neither plans nor dataset.json: they are in its folder.
    """
    weights = checkpoint["network_weights"]
    for prefix in ("module.", "_orig_mod."):  # of distributed training and torch.compile
        weights = {name.removeprefix(prefix): values for name, values in weights.items()}

    mirroring_axes = checkpoint.get("inference_allowed_mirroring_axes")
    if mirroring_axes is not None:
        mirroring_axes = tuple(mirroring_axes)

    arguments = checkpoint["init_args"]
    return SourceModel(
        path=path,
        source=Source(
            checkpoint["trainer_name"],
            str(path.absolute()),
            checkpoint.get("current_epoch"),
            digest_of(weights),
        ),
        weights=weights,
        mirroring_axes=mirroring_axes,
        fold=arguments.get("fold"),
        configuration=arguments["configuration"],
        plans=arguments.get("plans") or read_if_usable(model_folder / "plans.json"),
        dataset=arguments.get("dataset_json") or read_if_usable(model_folder / DATASET_JSON),
        cases=trained_cases(state_in(checkpoint)),
    )


def check_same_task(model: SourceModel, target: Target) -> None:
    """Check that a source may begin the training of a target.

    The target needs the source's labels and channels, and images as the source's network expects
    them. What a source does not say of itself is not compared.
    """
    try:
        if model.dataset is not None:
            _check_equal(
                model,
                before=_task(model.dataset),
                now=_task(read_dataset_json(target.dataset_json)),
                cure="Train one of this dataset first.",
            )
        if model.plans is not None:
            plans = read_json(target.preprocessed / f"{target.plans}.json")
            _check_equal(
                model,
                before=_images(model.plans, model.configuration),
                now=_images(plans, target.configuration),
                cure="Plan and preprocess with the plans of that model "
                "(nnUNetv2_move_plans_between_datasets).",
            )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"`from` must have nnU-Net's plans and dataset.json, got others in {str(model.path)!r} "
            f"or {str(target.preprocessed)!r}. Copy the model again, or plan again."
        ) from error


def _check_equal(
    model: SourceModel, *, before: Mapping[str, Any], now: Mapping[str, Any], cure: str
) -> None:
    """Check properties of the source against those of what is to be trained."""
    for name, value in before.items():
        if value != now[name]:
            raise ValueError(
                f"`from` must have the {name} of what is trained, {now[name]!r}, got {value!r} in "
                f"{model.path}. {cure}"
            )


def _task(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """What the heads of a network mean, and its input channels."""
    labels = {
        name: value if isinstance(value, int) else list(value)
        for name, value in dataset["labels"].items()
    }
    has_regions = any(isinstance(value, list) for value in labels.values())
    channels = dataset.get("channel_names", dataset.get("modality", {}))

    return {
        # The heads of regions follow the order of the file.
        "labels": list(labels.items()) if has_regions else labels,
        "regions_class_order": list(dataset.get("regions_class_order") or ()),
        "channel_names": [channels[key] for key in sorted(channels, key=int)],
    }


def _images(plans: Mapping[str, Any], name: str) -> dict[str, Any]:
    """How a configuration of the plans prepares images.

    The intensities of the dataset belong to it only where CT images are normalised with them.
    """
    configuration = PlansManager(dict(plans)).get_configuration(name).configuration
    images = {key: configuration.get(key) for key in _SAME_IN_CONFIGURATION}
    # Plans in memory may hold tuples where those of a file hold lists.
    images = json.loads(json.dumps(images))
    images["transpose_forward"] = list(plans["transpose_forward"])

    if "CTNormalization" in configuration["normalization_schemes"]:
        key = "foreground_intensity_properties_per_channel"
        images[key] = plans.get(key, plans.get("foreground_intensity_properties_by_modality"))
    return images


def check_same_network(model: SourceModel, weights: Mapping[str, Tensor]) -> None:
    """Check that the source's weights fit a network; the error names the first difference."""
    before = {name: tuple(values.shape) for name, values in model.weights.items()}
    now = {name: tuple(values.shape) for name, values in weights.items()}
    names = {**now, **before}
    differing = [name for name in names if before.get(name) != now.get(name)]
    if not differing:
        return

    first = differing[0]
    raise ValueError(
        f"`from` must have the network that is trained, got {model.path}, where {len(differing)} "
        f"of {len(now)} weights differ ({first} has the shapes {before.get(first, 'none')} and "
        f"{now.get(first, 'none')}). Use the plans and the configuration of that model (-p), or "
        "train one with these."
    )
