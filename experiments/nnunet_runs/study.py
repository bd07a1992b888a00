"""A study: a dataset, the methods that are trained on it, and for how long."""

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
#: The method all others are compared with.
BASELINE = "ERM"
#: Seconds of a processor core of an iteration on phantoms, and minutes of everything around a
#: training, about.
SECONDS = 0.1
MINUTES_AROUND = 0.5


@dataclass(frozen=True)
class Network:
    """The small network that is trained, and its batches."""

    parent: str = PARENT  # The configuration of nnU-Net that the small one inherits from.
    batch_size: int = 4  # Cases, or slices, in a batch.
    patch_size: tuple[int, ...] | None = None  # Size of a patch in voxels; None for the demo's.
    features: tuple[int, ...] | None = None  # Features of the stages; None for the demo's.
    n_convolutions: int = 1  # Convolutions of a stage.


@dataclass(frozen=True)
class Costs:
    """What a training takes of a processor core, about."""

    #: Minutes of its predictions and their evaluation.
    minutes_around: float = MINUTES_AROUND
    #: Method to the seconds of one of its iterations; `SECONDS` if absent.
    seconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A dataset whose test cases are in strata, the methods, and how long they are trained."""

    name: str  # Name of the study in names of folders and files.
    dataset: str  # Name of the nnU-Net dataset.
    #: Column of the case tables with the strata. No underscore: it becomes part of trainers' names.
    by: str
    rare: tuple[str, ...]  # The strata that are rare in training, or in no training.
    #: Writes the raw dataset of a seed (``cases.csv``, ``test_cases.csv`` in it) into a folder.
    write: Callable[[Path, np.random.Generator], object]
    #: Settings of the runs in a work folder; other settings need another folder.
    settings: Mapping[str, Any]
    epochs: int = 1  # Length of every training.
    iterations: int = 1  # Training iterations per epoch.
    #: Method to the trainer's name without its length, the baseline first; ``{by}`` stands for that
    #: column.
    trainers: Mapping[str, str] = field(default_factory=dict)
    common: tuple[str, ...] = ()  # The strata that are not rare.
    labels: tuple[str, ...] = ()  # The labels the page's table is about.
    title: str = ""  # Heading of the page.
    about: str = ""  # The page's paragraphs on the data, markdown.
    #: Method to the factor by which its number of iterations is larger than that of the others; 1
    #: if absent.
    factors: Mapping[str, float] = field(default_factory=dict)
    #: Method to the method whose model of the same seed it starts from; random weights if absent.
    sources: Mapping[str, str] = field(default_factory=dict)
    #: Method to a function that names its training cases, given the raw dataset; all of them if
    #: absent.
    subsets: Mapping[str, Callable[[Path], Sequence[str]]] = field(default_factory=dict)
    #: Folders in which nnU-Net looks for trainers beside those of this package.
    trainer_folders: tuple[Path, ...] = ()
    network: Network = field(default_factory=Network)
    costs: Costs = field(default_factory=Costs)

    @property
    def configuration(self) -> str:
        """The configuration that is trained."""
        return f"{self.network.parent}_small"

    def small_plans(self, plans: dict[str, Any]) -> dict[str, Any]:
        """nnU-Net's plans with the configuration that is trained.

        Its network is a small one, and what it does not say it inherits from the parent.
        """
        network = self.network
        small = small_plans(plans, parent=network.parent)
        small["plans_name"] = PLANS_NAME
        configuration = small["configurations"][self.configuration]
        configuration["batch_size"] = network.batch_size
        if network.patch_size is not None:
            configuration["patch_size"] = list(network.patch_size)

        kwargs = configuration["architecture"]["arch_kwargs"]
        if network.features is not None:
            parent = plans["configurations"][network.parent]["architecture"]["arch_kwargs"]
            n_stages = len(network.features)
            kwargs["n_stages"] = n_stages
            kwargs["features_per_stage"] = list(network.features)
            kwargs["kernel_sizes"] = parent["kernel_sizes"][:n_stages]
            kwargs["strides"] = parent["strides"][:n_stages]
        kwargs["n_conv_per_stage"] = [network.n_convolutions] * kwargs["n_stages"]
        kwargs["n_conv_per_stage_decoder"] = [network.n_convolutions] * (kwargs["n_stages"] - 1)
        return small

    def iterations_of(self, method: str) -> int:
        """Training iterations per epoch of a method."""
        return max(1, round(self.iterations * self.factors.get(method, 1)))

    def minutes(self, method: str) -> float:
        """Minutes of a processor core that a training takes, with its predictions, about."""
        n_iterations = self.epochs * self.iterations_of(method)
        seconds = self.costs.seconds.get(method, SECONDS)
        return self.costs.minutes_around + n_iterations * seconds / 60

    def fold_of(self, method: str) -> int:
        """The fold of nnU-Net's splits that has a method's training cases: 0 has all of them."""
        return 1 + list(self.subsets).index(method) if method in self.subsets else 0

    def trainer(self, method: str) -> str:
        """Name of a method's trainer, as given to nnU-Net's ``-tr``."""
        name = self.trainers[method].format(by=self.by)
        return f"{name}_{self.epochs}epochs_{self.iterations_of(method)}iters"
