"""Options of the trainers that draw by hardness."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nnunet_dro import sampling
from nnunet_dro.bad_input import InputError, check_number
from nnunet_dro.trainers.options.settings import HardnessOptions

if TYPE_CHECKING:
    from nnunet_dro.losses import ImportanceWeights

#: The paper's beta.
_BETA = 100.0
#: The earned share of version 0.3, whose softmax importance weights need.
EARNED = 0.5
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

    def _check_values(self) -> None:
        super()._check_values()
        check_number(
            "sub", min(self.subvolumes), "[1, inf)", "It is the number of cells of an axis."
        )
        low, high = self.clip
        if not (low < high and 0 <= low <= 1 <= high < math.inf):
            must = "be two numbers with 0 <= lo <= 1 <= hi and lo < hi"
            raise InputError("clip", must, repr(self.clip))

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
    """Options of `nnUNetTrainerDRO`: other defaults than the paper's, and no beta.

    ``hardest`` is the part of the draws that goes to the hardest cases, as far as these are learnt,
    and ``rare`` bounds how much more often a case is drawn because of what its image looks like.
    In place of both, ``share`` draws as if from a share of the cases, and ``earned`` from one that
    is reached only as far as the hardest cases are learnt.

    Example:
        >>> options = DROOptions(share=0.3, epochs=20)
        >>> "nnUNetTrainerDRO" + options.suffix()
        'nnUNetTrainerDRO_share0.3_20epochs'
    """

    hardest: float = 0.2
    share: float | None = None
    earned: float | None = None
    rare: float = 4.0
    beta: float | None = None
    importance_sampling: bool = False
    hardness: Literal["loss", "ce", "present", "pooled"] = "pooled"
    exploration: float = 0.1

    def _without_effect(self) -> str | None:
        other = self._rule_in_place_of_shares()
        shares = self.given_options("hardest", "share", "earned")
        if other is not None and shares:
            return f"`{shares[0].word}` has no effect with `{other}`, which decides instead."
        if len(shares) > 1:
            return f"`{shares[0].word}` has no effect with `{shares[1].word}`: choose one of them."
        if self.importance_sampling and self.earned == EARNED and other is None:
            return "`earned` has no effect with `IS`, with which it is 0.5."

        decides = other or self._share_in_place_of_hardest()
        return (
            self._hardest_without_effect(decides)
            or self._rare_without_effect(decides)
            or super()._without_effect()
        )

    def _hardest_without_effect(self, decides: str | None) -> str | None:
        """Reason why ``hardest``, or an option of the losses beside it, has no effect, or None.

        Args:
            decides: Word of the option that decides in place of ``hardest``, or None.
        """
        if decides is not None and self.given_options("hardest"):
            return f"`hardest` has no effect with `{decides}`, which decides instead."
        if self.hardness == "ce" and decides in (None, "earned", "IS"):
            return (
                "`hardCE` has no effect without a share or beta, being never below 0: give one, as "
                "in `share0.5_hardCE`."
            )
        history = self.given_options("hardness", "momentum", "memory")
        if decides is None and self.hardest == 0 and history:
            return f"`{history[0].word}` has no effect with `hardest0`: no loss decides."
        return None

    def _rare_without_effect(self, decides: str | None) -> str | None:
        """Reason why `rare`, or `hardest0`, which looks at images alone, has no effect, or None."""
        has_images = math.prod(self.subvolumes) == 1
        is_plain = self.hardest == 0 and (self.rare == 1 or not has_images)
        if is_plain and decides is None:
            return "`hardest0` has no effect where no image is looked at: plain nnU-Net is `beta0`."
        if not self.given_options("rare"):
            return None
        if not has_images:
            return "`rare` has no effect with `sub`, whose sub-volumes have no images of their own."
        if decides is not None:
            return f"`rare` has no effect with `{decides}`, which does not look at images."
        return None

    def _share_in_place_of_hardest(self) -> str | None:
        """Word of the option by which a share decides in place of ``hardest``, or None."""
        if self.share is not None:
            return "share"
        if self.earned is not None:
            return "earned"
        return "IS" if self.importance_sampling else None

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

    @property
    def cap_of_kinds(self) -> float:
        """See `TrainerOptions`; 1 where another rule than ``hardest`` decides."""
        decides = self._rule_in_place_of_shares() or self._share_in_place_of_hardest()
        has_images = math.prod(self.subvolumes) == 1
        return self.rare if decides is None and has_images else 1.0

    def rule(self, groups: Sequence[str] = ()) -> sampling.Rule:
        """What decides how likely each case is to be drawn.

        It is the rule before it has followed any losses.
        """
        other = self._rule_in_place_of_shares()
        if other == "chi2" and self.beta is None:
            return sampling.Chi2(_BETA)
        if other is not None:
            return super().rule(groups)

        if self.share is not None:
            return sampling.KLBall(0.0, self.share)
        if self.earned is not None:
            return sampling.EarnedBall(0.0, self.earned)
        if self.importance_sampling:
            return sampling.EarnedBall(0.0, EARNED)
        return sampling.Hardest(self.hardest)

    def rule_with_rarity(self, rarity: NDArray[np.float64]) -> sampling.Rule:
        """What decides how likely each case is to be drawn, see `TrainerOptions`."""
        if self.hardest == 0:
            return sampling.ByWeight(rarity)
        cap = max(sampling.Hardest.cap, float(rarity.max()))
        return sampling.Hardest(self.hardest, cap, rarity)
