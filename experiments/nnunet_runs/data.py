"""The data of an experiment with nnU-Net, which are made anew for every seed, and its network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nnunet_dro.demo.preparation import small_plans

#: nnU-Net's names of the plans, and of the configuration the networks are trained with and the one
#: it inherits from.
PLANS_NAME = "nnUNetPlansExperiment"
CONFIGURATION = "3d_fullres_small"
PARENT = "3d_fullres"
#: Minutes of a processor core of everything around a training, about.
MINUTES_AROUND = 0.5


@dataclass(frozen=True)
class Network:
    """The small network that is trained, and its batches."""

    parent: str = PARENT  # The configuration of nnU-Net that the small one inherits from.
    batch_size: int = 4  # Cases, or slices, in a batch.
    patch_size: tuple[int, ...] | None = None  # Size of a patch in voxels; None for the demo's.
    features: tuple[int, ...] | None = None  # Features of the stages; None for the demo's.
    n_convolutions: int = 1  # Convolutions of a stage.

    @property
    def configuration(self) -> str:
        """The configuration that is trained."""
        return f"{self.parent}_small"

    @property
    def double_batch(self) -> str:
        """The same configuration, with twice as many cases in a batch."""
        return f"{self.configuration}_double_batch"

    def small_plans(self, plans: dict[str, Any]) -> dict[str, Any]:
        """nnU-Net's plans with the configurations that are trained.

        Its network is a small one, and what it does not say it inherits from the parent.
        """
        small = small_plans(plans, parent=self.parent)
        small["plans_name"] = PLANS_NAME
        configuration = small["configurations"][self.configuration]
        configuration["batch_size"] = self.batch_size
        if self.patch_size is not None:
            configuration["patch_size"] = list(self.patch_size)

        kwargs = configuration["architecture"]["arch_kwargs"]
        if self.features is not None:
            parent = plans["configurations"][self.parent]["architecture"]["arch_kwargs"]
            n_stages = len(self.features)
            kwargs |= {
                "n_stages": n_stages,
                "features_per_stage": list(self.features),
                "kernel_sizes": parent["kernel_sizes"][:n_stages],
                "strides": parent["strides"][:n_stages],
            }
        kwargs["n_conv_per_stage"] = [self.n_convolutions] * kwargs["n_stages"]
        kwargs["n_conv_per_stage_decoder"] = [self.n_convolutions] * (kwargs["n_stages"] - 1)

        small["configurations"][self.double_batch] = {
            "inherits_from": self.configuration,
            "batch_size": 2 * self.batch_size,
        }
        return small


@dataclass(frozen=True, kw_only=True)
class Data:
    """A dataset whose cases are in strata."""

    dataset: str  # Name of the nnU-Net dataset.
    #: Column of the case tables with the strata. No underscore: it becomes part of trainers' names.
    by: str
    rare: tuple[str, ...]  # The strata that are rare in training, or in no training.
    common: tuple[str, ...] = ()  # The others.
    labels: tuple[str, ...] = ()  # The labels that a page is about.
    #: Writes the raw dataset of a seed (``cases.csv``, ``test_cases.csv`` in it) into a folder.
    write: Callable[[Path, np.random.Generator], object]
    settings: Mapping[str, Any]  # What the dataset is made with.
    #: Functions that name the training cases of the folds 1, 2 ..., given the raw dataset; fold 0
    #: has all of them.
    folds: Sequence[Callable[[Path], Sequence[str]]] = ()
    network: Network = field(default_factory=Network)
