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
        step_size: eta of these steps, > 0. The default changes images by 0.1 to 0.2 standard deviations in 5 steps.
        penalty: gamma, factor of the squared distance of the features, 1/feature units squared, >= 0.

    Source: Wang et al. 2024, Algorithm 1, and its gamma.
    """

    steps: int = 5
    step_size: float = 0.03
    penalty: float = 1e-3

    def _checks(self) -> list[Check]:
        eta, gamma = self.step_size, self.penalty
        return [
            *super()._checks(),
            (1 <= self.steps <= 15, "steps", "1 to 15 (nnUNetTrainerLS takes no step)"),
            (bool(np.isfinite(eta) and eta > 0), "step_size", "a number > 0"),
            (bool(np.isfinite(gamma) and gamma >= 0), "penalty", "a number >= 0"),
        ]
