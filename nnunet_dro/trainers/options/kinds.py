"""Options of each kind of trainer.

By hardness, by the group of every case, and with label smoothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from nnunet_dro import sampling
from nnunet_dro.trainers.options.forms import Option
from nnunet_dro.trainers.options.settings import HardnessOptions, History, TrainerOptions

if TYPE_CHECKING:
    from nnunet_dro.losses import ImportanceWeights

#: The paper's beta.
_BETA = 100.0
#: Fields that decide about the importance weights.
_WEIGHING = ("importance_sampling", "exact_ratio", "normalised", "clip")
#: What one file system or another does not take in the name of a folder; nnU-Net names folders
#: after trainers.
_NOT_IN_FOLDERS = '/\\:*?"<>|'


@dataclass(frozen=True, kw_only=True)
class HWSOptions(HardnessOptions):
    """Options of `nnUNetTrainerHWS`: the published configuration.

    With another rule than beta's, beta may be None.

    Example:
        >>> options = HWSOptions(beta=10, importance_sampling=False, epochs=20)
        >>> "nnUNetTrainerHWS" + options.suffix()
        'nnUNetTrainerHWS_beta10_noIS_20epochs'

    Source: defaults from Fidon et al. 2022 (MELBA).
    """

    beta: float | None = _BETA
    auto_beta: bool = False
    chi2: bool = False
    cvar: float | None = None
    doro: float = 0.0
    importance_sampling: bool = True
    exact_ratio: bool = False
    normalised: bool = False
    clip: tuple[float, float] = (0.1, 10.0)
    exploration: float = sampling.EXPLORATION
    #: In the axis order of the preprocessed arrays.
    subvolumes: tuple[int, int, int] = (1, 1, 1)

    def _without_effect(self) -> str | None:
        beta = bool(self.given_options("beta"))
        weighing = [option.word for option in self.given_options(*_WEIGHING)]
        if self.auto_beta and beta:
            return "`beta` has no effect with `betaauto`, which estimates it."
        if self.chi2 and self.cvar is not None:
            return "`chi2` has no effect with `cvar`, which draws by rank."
        if self.cvar is not None and (beta or self.auto_beta):
            return f"`{'betaauto' if self.auto_beta else 'beta'}` has no effect with `cvar`, which draws by rank."
        if self.doro and self.cvar is None:
            return "`doro` has no effect without `cvar<a>`, the share of the cases to draw from."
        if (self.chi2 or self.cvar is not None) and weighing:
            return f"`{weighing[0]}` has no effect with `{'chi2' if self.chi2 else 'cvar'}`: only KL has weights."
        how = [word for word in weighing if word not in ("IS", "noIS")]
        if not self.importance_sampling and how:
            switch = "with `noIS`, which turns importance weights off"
            if "noIS" not in weighing:
                switch = "without `IS`, which turns importance weights on"
            return f"`{how[0]}` has no effect {switch}."
        if self.beta == 0 and (
            steering := self.given_options(*_WEIGHING, "chi2", "warmup", "exploration")
        ):
            return f"`{steering[0].word}` has no effect with `beta0`: all cases count the same."
        return super()._without_effect()

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """What decides how likely each case is to be drawn.

        With ``auto_beta``, before the first estimate of beta.
        """
        if self.cvar is not None:
            return sampling.CVaR(self.cvar, self.doro)
        beta = 0.0 if self.auto_beta or self.beta is None else self.beta
        return sampling.Chi2(beta) if self.chi2 else sampling.KL(beta)

    @property
    def importance(self) -> "ImportanceWeights | None":
        """The importance weights, or None if every drawn case counts the same."""
        from nnunet_dro.losses import (
            ImportanceWeights,
        )  # names can be read and written without torch

        if not self.importance_sampling or self.chi2 or self.cvar is not None:
            return None
        low, high = self.clip
        return ImportanceWeights(low=low, high=high, exact=self.exact_ratio, momentum=self.momentum)


@dataclass(frozen=True, kw_only=True)
class DROOptions(HWSOptions):
    """Options of `nnUNetTrainerDRO`.

    Those of the paper, with other defaults, and a share in place of beta.

    ``earned`` is the least share of the cases, which is reached as far as the hardest are learnt,
    and ``share`` a fixed one in its place.

    Example:
        >>> options = DROOptions(share=0.3, epochs=20)
        >>> "nnUNetTrainerDRO" + options.suffix()
        'nnUNetTrainerDRO_share0.3_20epochs'
    """

    earned: float = 0.5
    share: float | None = None
    beta: float | None = None
    importance_sampling: bool = False
    hardness: Literal["loss", "ce", "present", "pooled"] = "pooled"
    exploration: float = 0.1

    def _without_effect(self) -> str | None:
        given = {
            "cvar": self.cvar,
            "betaauto": self.auto_beta,
            "chi2": self.chi2,
            "beta": self.beta is not None,
        }
        other = next((word for word, is_given in given.items() if is_given), None)
        of_share = self.given_options("share", "earned")
        if other and of_share:
            return f"`{of_share[0].word}` has no effect with `{other}`, which decides instead."
        if len(of_share) == 2:
            return "`earned` has no effect with `share`, which is fixed."
        if self.hardness == "ce" and self.share is None and other is None:
            return "`hardCE` has no effect with `earned`, being never below 0: give a share, as in `share0.5_hardCE`."
        return super()._without_effect()

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """What decides how likely each case is to be drawn.

        By the share, before beta has followed any losses.
        """
        if self.cvar is None and not self.auto_beta and self.beta is None:
            if self.chi2:
                return sampling.Chi2(_BETA)
            return (
                sampling.EarnedBall(0.0, self.earned)
                if self.share is None
                else sampling.KLBall(0.0, self.share)
            )
        return super().rule(groups)


@dataclass(frozen=True, kw_only=True)
class GroupOptions(TrainerOptions):
    """Options of every trainer that knows the group of every case, from a column of the case table."""

    column: str = ""
    has_column: ClassVar[bool] = True

    def __post_init__(self) -> None:
        column = self.column
        rule = ""
        if not column:
            rule = (
                "a column of cases.csv, written after the trainer's name (nnUNetTrainerIW_centre)"
            )
        is_plain = (
            "__" not in column
            and column == column.strip("_ ")
            and not set(column) & set(_NOT_IN_FOLDERS)
        )
        if not is_plain or not column.isprintable():
            rule = (
                "a column whose name has no `__`, no `_` at its ends, no control character and none of "
                f"{' '.join(_NOT_IN_FOLDERS)} (rename it in cases.csv)"
            )
        if rule:
            raise ValueError(f"`column` must be {rule}, got {column!r}.")
        super().__post_init__()

    def suffix(self) -> str:
        """The part of the trainer's name that gives the column and the options."""
        return f"_{self.column}{super().suffix()}"


@dataclass(frozen=True, kw_only=True)
class GroupDROOptions(GroupOptions, HardnessOptions):
    """Options of `nnUNetTrainerGroupDRO_<column>` (Sagawa et al. 2020).

    Nu in 1/loss, C in loss units.
    """

    nu: float = 0.01
    adjustment: float = 0.0

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """Group weights that follow the losses of the groups."""
        return sampling.GroupDRO(
            groups, nu=self.nu, adjustment=self.adjustment, momentum=self.momentum
        )


@dataclass(frozen=True, kw_only=True)
class IWOptions(GroupOptions):
    """Options of `nnUNetTrainerIW_<column>`.

    With a share, hardness and exploration are those of `DROOptions`.
    """

    as_weights: bool = False
    power: float = 1.0
    share: float | None = None

    def _without_effect(self) -> str | None:
        if self.as_weights and (of_groups := self.given_options("power", "share")):
            return f"`{of_groups[0].word}` has no effect with `asWeights`, which leaves no groups."
        return super()._without_effect()

    @property
    def history(self) -> History:
        """How the losses of the cases are collected."""
        return History() if self.share is None else History(hardness=DROOptions.hardness)

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """Draws by group, and inside of it by hardness if there is a share.

        Or by weights, given as text.
        """
        if self.as_weights:
            return sampling.ByWeight([float(weight) for weight in groups])
        if self.share is None:
            return sampling.Balanced(groups, power=self.power)
        return sampling.BalancedBall(
            groups, power=self.power, share=self.share, exploration=DROOptions.exploration
        )


@dataclass(frozen=True, kw_only=True)
class LSOptions(TrainerOptions):
    """Options of `nnUNetTrainerLS` (Wang et al. 2024); without smoothing it is plain nnU-Net."""

    smoothing: float = 0.1

    @property
    def label_smoothing(self) -> float:
        """Probability that the reference of the cross-entropy gives to the other classes."""
        return self.smoothing

    def __post_init__(self) -> None:
        if self.polynomial_tail is not None:
            raise ValueError(
                f"`poly` must be left out with label smoothing, got {self.polynomial_tail!r}."
            )
        super().__post_init__()

    @classmethod
    def known_options(cls) -> list[Option]:
        """All options but the polynomial tail, whose margin belongs to a single label."""
        return [option for option in super().known_options() if option.field != "polynomial_tail"]


@dataclass(frozen=True, kw_only=True)
class GILSOptions(LSOptions):
    """Options of `nnUNetTrainerGILS`.

    In 5 steps the default changes images by about 0.02 standard deviations.

    Source: Wang et al. 2024, Algorithm 1, and its gamma.
    """

    steps: int = 5
    step_size: float = 0.03
    penalty: float = 1e-3
    largest_change: float | None = None
    warmup: int = 0
