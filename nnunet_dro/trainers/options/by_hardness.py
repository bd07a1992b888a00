"""Options of the trainers that draw by hardness."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nnunet_dro import sampling
from nnunet_dro.trainers.options.option import Option
from nnunet_dro.trainers.options.settings import HardnessOptions

if TYPE_CHECKING:
    from nnunet_dro.losses import ImportanceWeights

#: The paper's beta.
_BETA = 100.0
#: Fields that decide about the importance weights.
_WEIGHING = ("importance_sampling", "exact_ratio", "normalised", "clip")


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
    are learnt. ``share`` is a fixed share in its place, ``guarded`` one of the cases that are
    learnt, and ``tried`` one that trials within the training have to earn. ``hardest`` is a part of
    the draws in place of a share of the cases. ``rare`` bounds how much more often a case is drawn
    because of what its image looks like.

    Example:
        >>> options = DROOptions(share=0.3, epochs=20)
        >>> "nnUNetTrainerDRO" + options.suffix()
        'nnUNetTrainerDRO_share0.3_20epochs'
    """

    earned: float = 0.5
    share: float | None = None
    guarded: float | None = None
    tried: float | None = None
    hardest: float | None = None
    rare: float | None = None  # type: ignore[misc]
    beta: float | None = None
    importance_sampling: bool = False
    hardness: Literal["loss", "ce", "present", "pooled"] = "pooled"
    exploration: float = 0.1

    def _without_effect(self) -> str | None:
        other = self._rule_in_place_of_shares()
        shares = self.given_options("earned", "share", "guarded", "tried", "hardest")
        if other is not None and shares:
            return f"`{shares[0].word}` has no effect with `{other}`, which decides instead."
        if len(shares) > 1:
            return f"`{shares[0].word}` has no effect with `{shares[1].word}`: choose one share."
        if self.rare is not None:
            return self._rare_without_effect(other, shares) or super()._without_effect()

        if self.hardness == "ce" and self.share is None and other is None:
            return (
                "`hardCE` has no effect with `earned`, being never below 0: give a share, as in "
                "`share0.5_hardCE`."
            )
        return super()._without_effect()

    def _rare_without_effect(self, other: str | None, shares: list[Option]) -> str | None:
        """Reason why `rare` has no effect beside the rule that draws by hardness, or None."""
        words = [option.word for option in shares if option.field == "share"]
        if other is not None and self.beta != 0:
            words.append(other)
        if words:
            return (
                f"`rare` has no effect with `{words[0]}`: it goes with `earned`, `guarded`, "
                "`tried`, `hardest` and `beta0`."
            )
        if math.prod(self.subvolumes) > 1:
            return "`rare` has no effect with `sub`, whose sub-volumes have no images of their own."
        return None

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

        if self.share is not None:
            return sampling.KLBall(0.0, self.share)
        if self.guarded is not None:
            return sampling.GuardedBall(self.guarded)
        if self.hardest is not None:
            return sampling.Hardest(self.hardest)
        if self.rare is not None:
            return sampling.GuardedBall(self.earned, is_earned=True)
        return sampling.EarnedBall(0.0, self.earned)

    def rule_of_training(
        self, cases: Sequence[str], *, n_updates: int, rarity: NDArray[np.float64] | None = None
    ) -> sampling.Rule:
        """What decides how likely each case is to be drawn, see `TrainerOptions`."""
        if rarity is not None and self.beta == 0:
            return sampling.ByWeight(rarity)

        rare = float(self.rare or 0)
        if self.tried is not None:
            cap = max(sampling.GuardedBall.cap, rare)
            return sampling.TriedBall(cases, n_updates, share=self.tried, cap=cap, base=rarity)
        rule = self.rule()
        if rarity is not None and isinstance(rule, sampling.GuardedBall | sampling.Hardest):
            return replace(rule, cap=max(rule.cap, rare), base=rarity)
        return rule
