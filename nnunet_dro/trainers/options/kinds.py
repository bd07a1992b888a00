"""Options of each kind of trainer: by hardness, by groups of cases, and with label smoothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from nnunet_dro import sampling
from nnunet_dro.trainers.options.option import Option
from nnunet_dro.trainers.options.settings import HardnessOptions, History, TrainerOptions

if TYPE_CHECKING:
    from nnunet_dro.losses import ImportanceWeights

#: The paper's beta.
_BETA = 100.0
#: Fields that decide about the importance weights.
_WEIGHING = ("importance_sampling", "exact_ratio", "normalised", "clip")
#: Characters that one file system or another does not take in the name of a folder; nnU-Net names
#: folders after trainers.
_NOT_IN_FOLDERS = '/\\:*?"<>|'


@dataclass(frozen=True, kw_only=True)
class HWSOptions(HardnessOptions):
    """Options of `nnUNetTrainerHWS`: the published configuration.

    Beta may be None if another rule than beta's decides what is drawn.

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
        return (
            self._rule_without_effect()
            or self._weights_without_effect()
            or super()._without_effect()
        )

    def _rule_without_effect(self) -> str | None:
        """Reason why one of the options that choose the rule has no effect, or None."""
        has_beta = bool(self.given_options("beta"))
        if self.auto_beta and has_beta:
            return "`beta` has no effect with `betaauto`, which estimates it."

        if self.cvar is None:
            if self.doro:
                return (
                    "`doro` has no effect without `cvar<a>`, the share of the cases to draw from."
                )
            return None

        if self.chi2:
            return "`chi2` has no effect with `cvar`, which draws by rank."
        if self.auto_beta:
            return "`betaauto` has no effect with `cvar`, which draws by rank."
        if has_beta:
            return "`beta` has no effect with `cvar`, which draws by rank."
        return None

    def _weights_without_effect(self) -> str | None:
        """Reason why an option of the importance weights, or any with beta 0, has no effect."""
        words = [option.word for option in self.given_options(*_WEIGHING)]
        if words and self.chi2:
            return f"`{words[0]}` has no effect with `chi2`: only KL has weights."
        if words and self.cvar is not None:
            return f"`{words[0]}` has no effect with `cvar`: only KL has weights."

        details = [word for word in words if word not in ("IS", "noIS")]
        if details and not self.importance_sampling:
            switch = "without `IS`, which turns importance weights on"
            if "noIS" in words:
                switch = "with `noIS`, which turns importance weights off"
            return f"`{details[0]}` has no effect {switch}."

        steering = self.given_options(*_WEIGHING, "chi2", "warmup", "exploration")
        if steering and self.beta == 0:
            return f"`{steering[0].word}` has no effect with `beta0`: all cases count the same."
        return None

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """What decides how likely each case is to be drawn.

        With ``auto_beta`` it is the rule before the first estimate of beta.
        """
        if self.cvar is not None:
            return sampling.CVaR(self.cvar, self.doro)

        beta = self.beta
        if self.auto_beta or beta is None:
            beta = 0.0
        if self.chi2:
            return sampling.Chi2(beta)
        return sampling.KL(beta)

    @property
    def importance(self) -> "ImportanceWeights | None":
        """The importance weights, or None if every drawn case counts the same."""
        # Imported here, so that names can be read and written without torch.
        from nnunet_dro.losses import ImportanceWeights

        if not self.importance_sampling or self.chi2 or self.cvar is not None:
            return None

        low, high = self.clip
        return ImportanceWeights(
            low=low,
            high=high,
            exact=self.exact_ratio,
            momentum=self.momentum,
        )


@dataclass(frozen=True, kw_only=True)
class DROOptions(HWSOptions):
    """Options of `nnUNetTrainerDRO`: other defaults than the paper's, and a share in place of beta.

    ``earned`` is the least share of the cases, which is reached only as far as the hardest cases
    are learnt. ``share`` is a fixed share in its place.

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
        other = self._rule_in_place_of_shares()
        shares = self.given_options("share", "earned")
        if other is not None and shares:
            return f"`{shares[0].word}` has no effect with `{other}`, which decides instead."
        if len(shares) == 2:
            return "`earned` has no effect with `share`, which is fixed."

        if self.hardness == "ce" and self.share is None and other is None:
            return (
                "`hardCE` has no effect with `earned`, being never below 0: give a share, as in "
                "`share0.5_hardCE`."
            )
        return super()._without_effect()

    def _rule_in_place_of_shares(self) -> str | None:
        """Word of the option that decides what is drawn in place of a share, or None."""
        if self.cvar is not None:
            return "cvar"
        if self.auto_beta:
            return "betaauto"
        if self.chi2:
            return "chi2"
        if self.beta is not None:
            return "beta"
        return None

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """What decides how likely each case is to be drawn.

        Where a share decides, it is the rule before beta has followed any losses.
        """
        other = self._rule_in_place_of_shares()
        if other == "chi2" and self.beta is None:
            return sampling.Chi2(_BETA)
        if other is not None:
            return super().rule(groups)

        if self.share is None:
            return sampling.EarnedBall(0.0, self.earned)
        return sampling.KLBall(0.0, self.share)


@dataclass(frozen=True, kw_only=True)
class GroupOptions(TrainerOptions):
    """Options of every trainer that reads the groups of cases from a column of the case table."""

    column: str = ""
    has_column: ClassVar[bool] = True

    def __post_init__(self) -> None:
        rule = None
        if not self.column:
            rule = (
                "a column of cases.csv, written after the trainer's name (nnUNetTrainerIW_centre)"
            )
        elif not _fits_in_a_name(self.column):
            rule = (
                "a column whose name has no `__`, no `_` at its ends, no control character and "
                f"none of {' '.join(_NOT_IN_FOLDERS)} (rename it in cases.csv)"
            )
        if rule is not None:
            raise ValueError(f"`column` must be {rule}, got {self.column!r}.")

        super().__post_init__()

    def suffix(self) -> str:
        """The part of the trainer's name that gives the column and the options."""
        return f"_{self.column}{super().suffix()}"


def _fits_in_a_name(column: str) -> bool:
    """Whether the name of a trainer, and with it that of a folder, can contain a column.

    nnU-Net separates trainer, plans and configuration with ``__`` in the names of its folders.
    """
    return (
        "__" not in column
        and column == column.strip("_ ")
        and column.isprintable()
        and set(column).isdisjoint(_NOT_IN_FOLDERS)
    )


@dataclass(frozen=True, kw_only=True)
class GroupDROOptions(GroupOptions, HardnessOptions):
    """Options of `nnUNetTrainerGroupDRO_<column>`.

    ``nu`` is in 1/loss units, and ``adjustment``, the C of the size adjustment, in loss units.

    Source: Sagawa et al. 2020.
    """

    nu: float = 0.01
    adjustment: float = 0.0

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """Group weights that follow the losses of the groups."""
        return sampling.GroupDRO(
            groups,
            nu=self.nu,
            adjustment=self.adjustment,
            momentum=self.momentum,
        )


@dataclass(frozen=True, kw_only=True)
class IWOptions(GroupOptions):
    """Options of `nnUNetTrainerIW_<column>`.

    With a share, the hardness and the exploration are the defaults of `DROOptions`.
    """

    as_weights: bool = False
    power: float = 1.0
    share: float | None = None

    def _without_effect(self) -> str | None:
        about_groups = self.given_options("power", "share")
        if self.as_weights and about_groups:
            return (
                f"`{about_groups[0].word}` has no effect with `asWeights`, which leaves no groups."
            )
        return super()._without_effect()

    @property
    def history(self) -> History:
        """How the losses of the cases are collected."""
        if self.share is None:
            return History()
        return History(hardness=DROOptions.hardness)

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """Draws by group, and within a group by hardness if there is a share.

        With ``as_weights``, the entries are weights as text, and cases are drawn by them.
        """
        if self.as_weights:
            return sampling.ByWeight([float(weight) for weight in groups])
        if self.share is None:
            return sampling.Balanced(groups, power=self.power)
        return sampling.BalancedBall(
            groups,
            power=self.power,
            share=self.share,
            exploration=DROOptions.exploration,
        )


@dataclass(frozen=True, kw_only=True)
class LSOptions(TrainerOptions):
    """Options of `nnUNetTrainerLS`; without smoothing it is plain nnU-Net.

    Source: Wang et al. 2024.
    """

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

    The default of 5 steps changes images by about 0.02 standard deviations.

    Source: Wang et al. 2024, Algorithm 1, and its gamma.
    """

    steps: int = 5
    step_size: float = 0.03
    penalty: float = 1e-3
    largest_change: float | None = None
    warmup: int = 0
