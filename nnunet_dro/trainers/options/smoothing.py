"""Options of the trainers with label smoothing."""

from dataclasses import dataclass

import numpy as np

from nnunet_dro.trainers.options.forms import Option
from nnunet_dro.trainers.options.settings import Check, TrainerOptions


@dataclass(frozen=True, kw_only=True)
class LSOptions(TrainerOptions):
    """Options of `nnUNetTrainerLS`.

    Attributes:
        smoothing: Probability that the reference of the cross-entropy gives to the other classes, in [0, 0.5]; 0 is
            plain nnU-Net.

    Source: Wang et al. 2024.
    """

    smoothing: float = 0.1

    @property
    def label_smoothing(self) -> float:
        """Probability that the reference of the cross-entropy gives to the other classes."""
        return self.smoothing

    def _checks(self) -> list[Check]:
        return [
            (0 <= self.smoothing <= 0.5, "smoothing", "a number in [0, 0.5]"),
            (self.polynomial_tail is None, "polynomial_tail", "left out with label smoothing"),
            *super()._checks(),
        ]

    @classmethod
    def known_options(cls) -> list[Option]:
        """All options but the polynomial tail, whose margin belongs to a single label."""
        return [option for option in super().known_options() if option.field != "polynomial_tail"]


@dataclass(frozen=True, kw_only=True)
class GILSOptions(LSOptions):
    """Options of `nnUNetTrainerGILS`.

    Attributes:
        steps: T, number of gradient steps of the inner maximisation, 1 to 15.
        step_size: eta of these steps, > 0. In 5 steps the default changes images by about 0.02 standard deviations.
        penalty: gamma, factor of the squared distance of the features, 1/feature units squared, >= 0.
        largest_change: Bound on the root mean square change of the images of a case, standard deviations of its patch,
            > 0; None for no bound.
        warmup: Number of epochs at the start in which no batches are generated.

    Source: Wang et al. 2024, Algorithm 1, and its gamma.
    """

    steps: int = 5
    step_size: float = 0.03
    penalty: float = 1e-3
    largest_change: float | None = None
    warmup: int = 0

    def _checks(self) -> list[Check]:
        eta, gamma, largest = self.step_size, self.penalty, self.largest_change
        fewer = f"fewer than the {self.epochs} epochs of the training"
        return [
            *super()._checks(),
            (1 <= self.steps <= 15, "steps", "1 to 15 (nnUNetTrainerLS takes no step)"),
            (bool(np.isfinite(eta) and eta > 0), "step_size", "a number > 0"),
            (bool(np.isfinite(gamma) and gamma >= 0), "penalty", "a number >= 0"),
            (largest is None or bool(np.isfinite(largest) and largest > 0), "largest_change", "a number > 0"),
            (0 <= self.warmup < self.epochs, "warmup", fewer),
        ]
