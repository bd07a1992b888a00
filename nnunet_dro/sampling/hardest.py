"""A part of the draws goes to the hardest cases, as far as these are learnt; all else by chance.

`Hardest` draws by the pure functions before it.
"""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import check_number
from nnunet_dro.sampling.cap import check_cap
from nnunet_dro.sampling.divergences import checked_losses
from nnunet_dro.sampling.learning import earned, hopeless, learnt
from nnunet_dro.sampling.rules import Positions, Rule


@dataclass(frozen=True)
class HardestPart:
    """Which cases get the part of the draws that goes to the hardest, and how much of it.

    With d the largest such part, s what of it is earned, b_i the base weight of a case, relative to
    uniform, and c the bound, the weight of a case is

        w_i = (1 - s d) b_i + s f_i (c - (1 - d) b_i),

    where f_i is 1 above the threshold, 0 below it, and at the threshold what is left, each times
    how far the case is learnt.
    """

    part: float  # d
    earned: float  # s
    cap: float  # c
    threshold: float  # on the losses
    at_threshold: float  # f of a case with just this loss
    median: float  # of all losses

    def weights(self, losses: FloatArray, base: FloatArray) -> FloatArray:
        """Weights of some cases relative to uniform draws, shape (b,).

        Args:
            losses: Their losses, shape (b,), finite.
            base: Their base weights, of which the mean over all cases is 1, shape (b,).
        """
        if self.earned == 0:
            return base
        is_above = losses > self.threshold
        taken = np.where(losses == self.threshold, self.at_threshold, is_above)
        taken = taken * learnt(losses, median=self.median)
        more = taken * (self.cap - (1 - self.part) * base)
        return np.asarray((1 - self.earned * self.part) * base + self.earned * more)


#: Draws every case by its base weight.
NO_PART = HardestPart(
    part=0.0, earned=0.0, cap=math.inf, threshold=math.inf, at_threshold=0.0, median=-1.0
)


def hardest_part(losses: FloatArray, base: FloatArray, *, part: float, cap: float) -> HardestPart:
    """The part of the draws that the hardest cases have earned by being learnt.

    With the base weights b, relative to uniform, the worst mean loss

        max_w  mean(w_i l_i)  over  (1 - d) b_i <= w_i <= c,  mean(w_i) = 1

    gives 1 - d of the draws to the cases as they were, and d to the hardest, each up to c: every
    case keeps 1 - d of the draws that it has without. With h the mean loss of what d would go to,
    and o that of the rest, d is multiplied by

        min(1, max(0, (h / o - 0.1) / (0.3 - 0.1))):

    by 0, draws by the base weights, where next to nothing is found of what is hard (its label is
    wrong, it is too small or faint, or it is too early).

    A few cases of which nothing is found are set aside, see `hopeless`.

    Args:
        losses: Negative Dice plus cross-entropy, about 0 where nothing of a case is found, shape
            (n,), finite.
        base: Base weights, shape (n,), > 0, at most ``cap``, with a mean of 1: all 1 for uniform.
        part: d, in (0, 1).
        cap: c, > 1.

    Returns:
        What turns a loss into a weight.

    Raises:
        ValueError: If a number is out of range, or a loss is not finite.

    Example:
        >>> losses = np.where(np.arange(100) < 4, -0.5, -0.9)
        >>> losses[0] = 0.1  # hopeless
        >>> part = hardest_part(losses, np.ones(100), part=0.2, cap=6.0)
        >>> part.weights(losses, np.ones(100))[[0, 1, 2, 3, 4]].round(2).tolist()
        [0.8, 6.0, 6.0, 6.0, 0.84]

    Source: these weights are Huber's contamination neighbourhood with a bounded density, whose
    worst case mixes the mean with a conditional value at risk (Rockafellar and Uryasev 2000). What
    is earned is ours.
    """
    check_part(part)
    check_cap(cap)
    losses = checked_losses(losses)
    median = float(np.median(losses))
    told = np.delete(np.arange(len(losses)), hopeless(losses, median=median))
    losses = losses[told]
    base = base[told]

    room = cap - (1 - part) * base
    threshold, at_threshold = _hardest(losses, room, amount=part * float(base.sum()))
    taken = np.where(losses == threshold, at_threshold, losses > threshold)
    is_learnt = earned(losses, more=taken * room, rest=(1 - taken) * base)
    return HardestPart(part, is_learnt, cap, threshold, at_threshold, median)


def _hardest(losses: FloatArray, room: FloatArray, *, amount: float) -> tuple[float, float]:
    """The loss from which on an amount fills the room of the hardest, and what is left for it.

    Returns:
        The threshold, above which all room is filled, and the part of the room of the cases with
        just this loss.
    """
    hardest_first = np.argsort(-losses, kind="stable")
    filled = np.cumsum(room[hardest_first])
    last = min(int(np.searchsorted(filled, amount)), len(losses) - 1)
    threshold = float(losses[hardest_first[last]])

    left = amount - float(room[losses > threshold].sum())
    at_threshold = left / float(room[losses == threshold].sum())
    return threshold, min(1.0, at_threshold)


def check_part(part: float) -> None:
    """Raise ValueError unless ``part`` is in (0, 1)."""
    check_number("part", part, "(0, 1)", "0.2 gives a fifth of the draws to the hardest cases.")


@dataclass(frozen=True, eq=False)
class Hardest(Rule):
    """Gives a part of the draws to the hardest cases, as far as these are learnt.

    Args:
        part: The largest part of the draws that goes to the hardest, in (0, 1).
        cap: The largest weight of a case for its loss, > 1; a larger base weight takes its place.
            Where all of the hardest are learnt, weights have a mean of 1, and no case is drawn more
            than so many times as often as by chance; elsewhere weights add up to less, by ``part``
            at most, and a case may be drawn 1 / (1 - ``part``) times as often as that.
        base: How often each case is drawn where its loss does not decide, relative to uniform
            draws: shape (n,), > 0, with a mean of 1. Uniformly if None.
        now: What the losses decide, see `following`.

    Raises:
        ValueError: If a number is out of range.

    Source: see `hardest_part`.
    """

    part: float = 0.2
    cap: float = 6.0
    base: FloatArray | None = None
    now: HardestPart = NO_PART
    follows_losses: ClassVar[bool] = True
    is_separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_part(self.part)
        check_cap(self.cap)

    def __str__(self) -> str:
        words = (
            f"{100 * self.part:g} % of the draws for the hardest cases as far as they are learnt"
        )
        if self.base is None or (self.base == 1).all():
            return words
        return f"{words}, and what looks rare more often"

    def following(self, losses: FloatArray) -> "Hardest":
        """The rule with what these losses decide; itself before any case has one."""
        has_loss = ~np.isnan(losses)
        if not has_loss.any():
            return self
        base = np.ones(len(losses)) if self.base is None else self.base
        # No case gets fewer draws for being hard than it has without.
        cap = max(self.cap, float(base.max()))
        now = hardest_part(losses[has_loss], base[has_loss], part=self.part, cap=cap)
        return replace(self, now=now)

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, shape (n,); 0 for a case without a loss."""
        weights = self.weigh(losses, slice(0, len(losses)))
        total = float(weights.sum())
        return weights / total if total > 0 else weights

    def weigh(self, losses: FloatArray, here: Positions) -> FloatArray:
        """Weights of the cases at some positions, from their own losses; 0 for one without."""
        base = np.ones(len(losses)) if self.base is None else self.base[here]
        return np.where(np.isnan(losses), 0.0, self.now.weights(losses, base))
