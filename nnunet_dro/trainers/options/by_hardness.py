"""Options of the trainers that draw by hardness."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nnunet_dro import sampling
from nnunet_dro.bad_input import InputError, check_number
from nnunet_dro.trainers.options.settings import HardnessOptions, Idle

if TYPE_CHECKING:
    from nnunet_dro.losses import ImportanceWeights

#: The paper's beta.
_BETA = 100.0
#: The earned share of version 0.3, whose softmax importance weights need.
EARNED = 0.5
#: Fields that decide about the importance weights.
_WEIGHING = ("importance_sampling", "exact_ratio", "normalised", "clip")
#: Fields that decide what is drawn in place of a share, and in place of ``hardest``; the first that
#: is given counts.
_RULES = ("cvar", "auto_beta", "chi2", "beta")
_SHARES = ("share", "earned", "importance_sampling")


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

    def _without_effect(self) -> Iterator[Idle]:
        options = self.given_options
        if self.auto_beta:
            yield options("beta"), "with `betaauto`, which estimates it."
        if self.chi2:
            yield options(*_WEIGHING), "with `chi2`: only KL has weights."
        if self.cvar is None:
            yield options("doro"), "without `cvar<a>`, the share of the cases to draw from."
        else:
            yield options("beta", "auto_beta", "chi2"), "with `cvar`, which draws by rank."
            yield options(*_WEIGHING), "with `cvar`: only KL has weights."

        if not self.importance_sampling:
            is_named = options("importance_sampling")
            switch = "with `noIS`, which turns importance weights off."
            if not is_named:
                switch = "without `IS`, which turns importance weights on."
            yield options("exact_ratio", "normalised", "clip"), switch
        if self.beta == 0:
            steering = options(*_WEIGHING, "chi2", "warmup", "exploration")
            yield steering, "with `beta0`: all cases count the same."
        yield from super()._without_effect()

    def rule(
        self, groups: Sequence[str] = (), rarity: NDArray[np.float64] | None = None
    ) -> sampling.Rule:
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
    rare: float = 8.0
    beta: float | None = None
    importance_sampling: bool = False
    hardness: Literal["loss", "ce", "present", "pooled"] = "pooled"
    exploration: float = 0.1

    def _without_effect(self) -> Iterator[Idle]:
        options = self.given_options
        rule = self._first_given(_RULES)
        decides = rule or self._first_given(_SHARES)
        shares = options("hardest", "share", "earned")
        if rule is not None:
            yield shares, f"with `{rule}`, which decides instead."
        elif self.importance_sampling and self.earned == EARNED:
            yield options("earned"), "with `IS`, with which it is 0.5."
        if len(shares) > 1:
            yield shares, f"with `{shares[1].word}`: choose one of them."

        has_images = math.prod(self.subvolumes) == 1
        if not has_images:
            yield options("rare"), "with `sub`, whose sub-volumes have no images of their own."
        if self.hardness == "ce" and decides in (None, "earned", "IS"):
            why = "a cross-entropy is never negative, so that no case counts as learnt."
            yield options("hardness"), f"without a share or beta, as in `share0.5_hardCE`: {why}"
        if decides is not None:
            yield options("hardest"), f"with `{decides}`, which decides instead."
            yield options("rare"), f"with `{decides}`, which does not look at images."
        elif self.hardest == 0:
            yield options("hardness", "momentum", "memory"), "with `hardest0`: no loss decides."
            if self.rare == 1 or not has_images:
                plain = "plain nnU-Net is `beta0`."
                yield options("hardest"), f"with 0 where no image is looked at: {plain}"
        yield from super()._without_effect()

    def _first_given(self, choices: Sequence[str]) -> str | None:
        """Word of the first of some fields that differs from its default, or None."""
        words = [option.word for field in choices for option in self.given_options(field)]
        return next(iter(words), None)

    def value_in_effect(self, field: str) -> Any:
        """See `TrainerOptions`; ``chi2`` has a beta of its own, and ``IS`` an earned share."""
        if field == "beta" and self.beta is None and self._first_given(_RULES) == "chi2":
            return _BETA
        if field == "earned" and self._first_given(_RULES + _SHARES) == "IS":
            return EARNED
        return super().value_in_effect(field)

    @property
    def cap_of_kinds(self) -> float:
        """See `TrainerOptions`; 1 where another rule than ``hardest`` decides."""
        decides = self._first_given(_RULES + _SHARES)
        has_images = math.prod(self.subvolumes) == 1
        return self.rare if decides is None and has_images else 1.0

    def rule(
        self, groups: Sequence[str] = (), rarity: NDArray[np.float64] | None = None
    ) -> sampling.Rule:
        """What decides how likely each case is to be drawn.

        It is the rule before it has followed any losses.
        """
        rule = self._first_given(_RULES)
        if rule == "chi2":
            return sampling.Chi2(self.value_in_effect("beta"))
        if rule is not None:
            return super().rule(groups)

        if self.share is not None:
            return sampling.KLBall(0.0, self.share)
        earned = self.value_in_effect("earned")
        if earned is not None:
            return sampling.EarnedBall(0.0, earned)
        if rarity is not None and self.hardest == 0:
            return sampling.ByWeight(rarity)
        return sampling.Hardest(self.hardest, base=rarity)
