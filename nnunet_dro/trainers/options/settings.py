"""What the trainers can be told, checked."""

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from nnunet_dro.sampling import KL, Chi2, CVaR, Rule
from nnunet_dro.trainers.options.forms import OPTIONS, Option

#: nnU-Net's own length of a training; naming it would give one configuration two names.
NNUNET_EPOCHS, NNUNET_ITERATIONS, NNUNET_VALIDATION_ITERATIONS = 1000, 250, 50

#: Whether it holds, how the option is written, its value, and the rule for people.
Check = tuple[bool, str, Any, str]


@dataclass(frozen=True, kw_only=True)
class TrainerOptions:
    """What every trainer of this package can be told.

    Attributes:
        logit_adjustment: tau of the logit adjustment by the classes' voxel shares, >= 0; 0 adjusts nothing.
        vector_scaling: gamma of the multiplicative adjustment, >= 0; 0 adjusts nothing.
        polynomial_tail: alpha of the polynomially tailed cross-entropy, > 0; None for the cross-entropy.
        plain_sgd: SGD without momentum instead of nnU-Net's Nesterov momentum (Fidon et al. 2022, Table 3).
        epochs: Number of epochs.
        iterations: Training iterations per epoch.

    Raises:
        ValueError: If a number is out of its range, or an option has no effect beside another.
    """

    logit_adjustment: float = 0.0
    vector_scaling: float = 0.0
    polynomial_tail: float | None = None
    plain_sgd: bool = False
    epochs: int = NNUNET_EPOCHS
    iterations: int = NNUNET_ITERATIONS

    def __post_init__(self) -> None:
        for holds, option, value, rule in self._checks():
            if not holds:
                raise ValueError(f"`{option}` must be {rule}, got {value!r}.")
        if reason := self._without_effect():
            raise ValueError(f"{reason} Leave it out.")

    def _checks(self) -> list[Check]:
        tau, gamma, alpha = self.logit_adjustment, self.vector_scaling, self.polynomial_tail
        return [
            (bool(np.isfinite(tau) and tau >= 0), "la", tau, "a number >= 0"),
            (bool(np.isfinite(gamma) and gamma >= 0), "vs", gamma, "a number >= 0"),
            (alpha is None or bool(np.isfinite(alpha) and alpha > 0), "poly", alpha, "a number > 0"),
            (self.epochs >= 1, "epochs", self.epochs, "at least 1"),
            (self.iterations >= 1, "iters", self.iterations, "at least 1"),
        ]

    def _without_effect(self) -> str | None:
        """Why an option does nothing beside another: a configuration has one name."""
        return None

    @property
    def validation_iterations(self) -> int:
        """Validation iterations per epoch, in nnU-Net's proportion to the training iterations."""
        return max(1, round(self.iterations * NNUNET_VALIDATION_ITERATIONS / NNUNET_ITERATIONS))

    @classmethod
    def known_options(cls) -> list[Option]:
        """The options that this trainer's name can give, in their order."""
        known = {field.name for field in fields(cls)}
        return [option for option in OPTIONS if option.field in known]

    def suffix(self) -> str:
        """The part of the name that says these options, '' for the defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        values = {option: getattr(self, option.field) for option in self.known_options()}
        words = [option.write(value) for option, value in values.items() if value != defaults[option.field]]
        return "".join(f"_{word}" for word in words if word)


@dataclass(frozen=True, kw_only=True)
class HardnessOptions(TrainerOptions):
    """What a trainer that draws by stale losses can be told.

    Attributes:
        momentum: Weight of the past in the history of losses, in [0, 1).
        warmup: Epochs of uniform sampling at the start.
        hardness: What counts as hardness: the training loss, its cross-entropy, or the loss without the Dice of classes
            that are in neither patch nor prediction.
    """

    momentum: float = 0.0
    warmup: int = 0
    hardness: Literal["loss", "ce", "present"] = "loss"

    def _checks(self) -> list[Check]:
        fewer = f"fewer than the {self.epochs} epochs of the training"
        return [
            *super()._checks(),
            (0 <= self.momentum < 1, "momentum", self.momentum, "a number in [0, 1)"),
            (0 <= self.warmup < self.epochs, "warmup", self.warmup, fewer),
        ]


@dataclass(frozen=True, kw_only=True)
class DROOptions(HardnessOptions):
    """What `nnUNetTrainerDRO` can be told, checked.

    Attributes:
        beta: Robustness, 1/loss units, >= 0. 0 is plain nnU-Net.
        auto_beta: Whether beta is estimated from the stale losses instead.
        chi2: Pearson divergence instead of KL.
        cvar: Draw from this share of the cases, the worst, in (0, 1); None to draw by beta.
        doro: With ``cvar``, set this share aside first, the hardest, in (0, 1); 0 sets none aside.
        importance_sampling: Whether importance weights correct the stale losses; only KL has them.
        exact_ratio: Whether importance weights are the exact ratio of the probabilities.
        normalised: Whether importance weights are divided by their running mean.
        clip: Smallest and largest importance weight, 0 <= low <= 1 <= high, low < high.
        subvolumes: Grid of sub-volumes per volume, in the axis order of the preprocessed arrays.

    Source: defaults from Fidon et al. 2022 (MELBA).
    """

    beta: float = 100.0
    auto_beta: bool = False
    chi2: bool = False
    cvar: float | None = None
    doro: float = 0.0
    importance_sampling: bool = True
    exact_ratio: bool = False
    normalised: bool = False
    clip: tuple[float, float] = (0.1, 10.0)
    subvolumes: tuple[int, int, int] = (1, 1, 1)

    def _checks(self) -> list[Check]:
        low, high = self.clip
        clip_rule = "two numbers 0 <= lo <= 1 <= hi with lo < hi"
        return [
            (bool(np.isfinite(self.beta)) and self.beta >= 0, "beta", self.beta, "a number >= 0"),
            (self.cvar is None or 0 < self.cvar < 1, "cvar", self.cvar, "a number in (0, 1)"),
            (0 <= self.doro < 1, "doro", self.doro, "a number in (0, 1)"),
            (low < high and 0 <= low <= 1 <= high < np.inf, "clip", self.clip, clip_rule),
            (min(self.subvolumes) >= 1, "sub", self.subvolumes, "three numbers of at least 1"),
            *super()._checks(),
        ]

    def _without_effect(self) -> str | None:
        clip, beta = self.clip != DROOptions.clip, self.beta != DROOptions.beta
        given = (
            ("noIS", not self.importance_sampling),
            ("exactIS", self.exact_ratio),
            ("normIS", self.normalised),
            ("clip", clip),
        )
        weighing = [name for name, is_given in given if is_given]
        if self.auto_beta and beta:
            return "`beta` has no effect with `betaauto`, which estimates it."
        if self.chi2 and self.cvar is not None:
            return "`chi2` has no effect with `cvar`, which draws by rank."
        if self.cvar is not None and (beta or self.auto_beta):
            return f"`{'betaauto' if self.auto_beta else 'beta'}` has no effect with `cvar`, which draws by rank."
        if self.doro and self.cvar is None:
            return "`doro` has no effect without `cvar<a>`, the share to draw from."
        if (self.chi2 or self.cvar is not None) and weighing:
            return f"`{weighing[0]}` has no effect with `{'chi2' if self.chi2 else 'cvar'}`: only KL has weights."
        if not self.importance_sampling and len(weighing) > 1:
            return f"`{weighing[1]}` has no effect with `noIS`: there are no weights."
        steering = [*weighing, *(["chi2"] if self.chi2 else []), *(["warmup"] if self.warmup else [])]
        if self.beta == 0 and steering:
            return f"`{steering[0]}` has no effect with `beta0`: all volumes count the same."
        return None

    @property
    def rule(self) -> Rule:
        """What decides how likely each case is; with ``auto_beta`` before the first estimate."""
        if self.cvar is not None:
            return CVaR(self.cvar, self.doro)
        beta = 0.0 if self.auto_beta else self.beta
        return Chi2(beta) if self.chi2 else KL(beta)


@dataclass(frozen=True, kw_only=True)
class GroupOptions(TrainerOptions):
    """What a trainer that knows the group of every case can be told.

    Attributes:
        column: Of the case table, whose entries are the groups.
    """

    column: str = ""

    def _checks(self) -> list[Check]:
        column = self.column
        rule = "a column of cases.csv, written after the trainer's name (nnUNetTrainerIW_centre)"
        plain = "a column whose name has no `__`, no `_` at its ends and none of / \\ : (rename it in cases.csv)"
        is_plain = "__" not in column and column == column.strip("_ ") and not set(column) & set("/\\:")
        return [
            (bool(column), "column", column, rule),
            (is_plain, "column", column, plain),
            *super()._checks(),
        ]

    def suffix(self) -> str:
        """The part of the name that says the column and the options."""
        return f"_{self.column}{super().suffix()}"


@dataclass(frozen=True, kw_only=True)
class GroupDROOptions(GroupOptions, HardnessOptions):
    """What `nnUNetTrainerGroupDRO_<column>` can be told.

    Attributes:
        nu: Step of the group weights per iteration, 1/loss units, > 0.
        adjustment: C of the size adjustment C / sqrt(n_g), loss units, >= 0.

    Source: Sagawa et al. 2020.
    """

    nu: float = 0.01
    adjustment: float = 0.0

    def _checks(self) -> list[Check]:
        return [
            (bool(np.isfinite(self.nu) and self.nu > 0), "nu", self.nu, "a number > 0"),
            (bool(np.isfinite(self.adjustment) and self.adjustment >= 0), "adj", self.adjustment, "a number >= 0"),
            *super()._checks(),
        ]


@dataclass(frozen=True, kw_only=True)
class IWOptions(GroupOptions):
    """What `nnUNetTrainerIW_<column>` can be told."""


@dataclass(frozen=True, kw_only=True)
class LSOptions(TrainerOptions):
    """What `nnUNetTrainerLS` can be told.

    Attributes:
        smoothing: Probability that the reference of the cross-entropy takes from its label, in [0, 0.5]; 0 is plain
            nnU-Net.

    Source: Wang et al. 2024.
    """

    smoothing: float = 0.1

    def _checks(self) -> list[Check]:
        return [
            (0 <= self.smoothing <= 0.5, "alpha", self.smoothing, "a number in [0, 0.5]"),
            (self.polynomial_tail is None, "poly", self.polynomial_tail, "left out with label smoothing"),
            *super()._checks(),
        ]

    @classmethod
    def known_options(cls) -> list[Option]:
        """All but the polynomial tail, whose margin is that of one label."""
        return [option for option in super().known_options() if option.field != "polynomial_tail"]


@dataclass(frozen=True, kw_only=True)
class GILSOptions(LSOptions):
    """What `nnUNetTrainerGILS` can be told.

    Attributes:
        steps: T, gradient steps of the inner maximisation, 1 to 15.
        step_size: eta of these steps, > 0. The default changes images by 0.1 to 0.2 standard deviations in 5 steps.
        penalty: gamma of the squared distance of the features, 1/feature units squared, >= 0.

    Source: Wang et al. 2024, Algorithm 1, and its gamma.
    """

    steps: int = 5
    step_size: float = 0.03
    penalty: float = 1e-3

    def _checks(self) -> list[Check]:
        eta, gamma = self.step_size, self.penalty
        return [
            *super()._checks(),
            (1 <= self.steps <= 15, "T", self.steps, "1 to 15 (nnUNetTrainerLS takes no step)"),
            (bool(np.isfinite(eta) and eta > 0), "eta", eta, "a number > 0"),
            (bool(np.isfinite(gamma) and gamma >= 0), "gamma", gamma, "a number >= 0"),
        ]
