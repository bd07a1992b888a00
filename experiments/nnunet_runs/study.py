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
class Study:
    """A dataset whose test cases are in strata, the methods, and how long networks are trained on it."""

    name: str  # Name of the study in names of folders and files.
    dataset: str  # Name of the nnU-Net dataset.
    by: str  # Column of the case tables with the strata. No underscore: it becomes part of trainers' names.
    rare: tuple[str, ...]  # The strata that are rare in training, or in no training.
    # Writes the raw dataset of a seed (``cases.csv``, ``test_cases.csv`` in it) into a folder.
    write: Callable[[Path, np.random.Generator], object]
    settings: Mapping[
        str, Any
    ]  # Settings of the runs in a work folder; other settings need another folder.
    epochs: int = 1  # Length of every training.
    iterations: int = 1  # Training iterations per epoch.
    # Method to the trainer's name without its length, the baseline first; ``{by}`` stands for that
    # column.
    trainers: Mapping[str, str] = field(default_factory=dict)
    common: tuple[str, ...] = ()  # The strata that are not rare.
    labels: tuple[str, ...] = ()  # The labels the page's table is about.
    title: str = ""  # Heading of the page.
    about: str = ""  # The page's paragraphs on the data, markdown.
    # Method to the factor by which its number of iterations is larger than that of the others; 1 if
    # absent.
    factors: Mapping[str, float] = field(default_factory=dict)
    # Method to the method whose model of the same seed it starts from; random weights if absent.
    sources: Mapping[str, str] = field(default_factory=dict)
    # Method to a function that names its training cases, given the raw dataset; all of them if
    # absent.
    subsets: Mapping[str, Callable[[Path], Sequence[str]]] = field(default_factory=dict)
    trainer_folders: tuple[
        Path, ...
    ] = ()  # Folders in which nnU-Net looks for trainers beside those of this package.
    parent: str = PARENT  # The configuration of nnU-Net that the small one inherits from.
    batch_size: int = 4  # Cases, or slices, in a batch.
    patch_size: tuple[int, ...] | None = None  # Size of a patch in voxels; None for the demo's.
    features: tuple[int, ...] | None = (
        None  # Features of the network's stages; None for the demo's.
    )
    n_convolutions: int = 1  # Convolutions of a stage.
    # Minutes of a processor core that the predictions of a training and their evaluation take,
    # about.
    minutes_around: float = MINUTES_AROUND
    # Method to the seconds of a processor core that one of its iterations takes, about; `SECONDS`
    # if absent.
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def configuration(self) -> str:
        """The configuration that is trained."""
        return f"{self.parent}_small"

    def small_plans(self, plans: dict[str, object]) -> dict[str, object]:
        """nnU-Net's plans with the configuration that is trained, a small network that inherits from the parent."""
        small = small_plans(plans, parent=self.parent)
        small["plans_name"] = PLANS_NAME
        configuration = small["configurations"][self.configuration]
        configuration["batch_size"] = self.batch_size
        if self.patch_size is not None:
            configuration["patch_size"] = list(self.patch_size)
        kwargs = configuration["architecture"]["arch_kwargs"]
        if self.features is not None:
            parents = plans["configurations"][self.parent]["architecture"]["arch_kwargs"]  # type: ignore[index]
            kwargs |= {"n_stages": len(self.features), "features_per_stage": list(self.features)}
            kwargs |= {
                name: parents[name][: len(self.features)] for name in ("kernel_sizes", "strides")
            }
        kwargs["n_conv_per_stage"] = [self.n_convolutions] * kwargs["n_stages"]
        kwargs["n_conv_per_stage_decoder"] = [self.n_convolutions] * (kwargs["n_stages"] - 1)
        return small

    def iterations_of(self, method: str) -> int:
        """Training iterations per epoch of a method."""
        return max(1, round(self.iterations * self.factors.get(method, 1)))

    def minutes(self, method: str) -> float:
        """Minutes of a processor core that a training, its predictions and their evaluation take, about."""
        n_iterations = self.epochs * self.iterations_of(method)
        return self.minutes_around + n_iterations * self.seconds.get(method, SECONDS) / 60

    def fold_of(self, method: str) -> int:
        """The fold of nnU-Net's splits that has a method's training cases: 0 has all of them."""
        return 1 + list(self.subsets).index(method) if method in self.subsets else 0

    def trainer(self, method: str) -> str:
        """Name of a method's trainer, as given to nnU-Net's ``-tr``."""
        return f"{self.trainers[method].format(by=self.by)}_{self.epochs}epochs_{self.iterations_of(method)}iters"
