"""The rule that tries whether it helps to draw the hard more often."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.changed_cases import positions_in_common
from nnunet_dro.sampling.divergences import FloatArray
from nnunet_dro.sampling.guarded_ball import GuardedBall, guarded_tilt
from nnunet_dro.sampling.rules import Positions, SeparableRule
from nnunet_dro.sampling.trial import Answer, answer_of, random_halves

#: Where trials begin, and how long each of their parts is, as shares of the training.
STARTS = (0.05, 0.3, 0.6)
PART = 0.04
#: The parts of a trial. All cases are drawn as by chance while the hard are chosen, while their
#: luck settles, and before one half of them is drawn more often, and then the other.
_CHOOSING, _SETTLING, _BEFORE, _FIRST, _SECOND = range(5)
N_PARTS = 5
#: What names a half that is drawn more often in a part.
_HALF_OF_PART = {_FIRST: 1, _SECOND: 2}
#: What a rule keeps of each case, and what stands for a case that a checkpoint lacks.
_MISSING = {
    "losses": np.nan,
    "halves": 0,
    "weights": 0.0,
    "answered": np.nan,
    "sums": 0.0,
    "counts": 0.0,
}


class TriedBall(SeparableRule):
    """Draws by a guarded ball as far as trials within the training say that it helps.

    A trial takes parts of a twenty-fifth of the training. In the first three, all cases are drawn
    by their base weights: the losses of the first say which cases are hard, and those of the third
    what they are compared with. In the fourth, half of those that the ball would draw more often
    is, see `trial`. If the other half does not answer, all are left at their base weights until the
    next trial. If it does, it is drawn more often in a fifth part, to ask the first half, too; and
    from then on the ball decides, with those hard cases that did not answer left at their base
    weights.

    Args:
        cases: Names of the cases, for checkpoints.
        n_updates: Number of updates of the whole training.
        share: Effective number of the cases over their number that the ball aims at, in (0, 1].
        cap: How many times as often as by chance a case is drawn at most, > 1.
        base: How often each case is drawn where its loss does not decide, as `GuardedBall` has it.

    Raises:
        ValueError: If a number is out of range.

    Source: ours. Randomising what is drawn to learn what drawing does is a crossover trial.
    """

    follows_losses: ClassVar[bool] = True

    def __init__(
        self,
        cases: Sequence[str],
        n_updates: int,
        *,
        share: float = 0.5,
        cap: float = 8.0,
        base: FloatArray | None = None,
    ) -> None:
        self.cases = [str(case) for case in cases]
        self.n_updates = n_updates
        self.ball = GuardedBall(share, cap, base)
        self._n_done = 0
        self._is_earned = False
        self._news: list[str] = []
        self._losses = np.full(len(cases), np.nan)
        self._trial = -1
        self._part: int | None = None
        self._halves = np.zeros(len(cases), dtype=np.int64)  # 1 and 2; 0 for no hard case
        self._weights = np.zeros(len(cases))  # how much more often a hard case would be drawn
        self._answered = np.full(len(cases), np.nan)
        self._sums = np.zeros((N_PARTS, len(cases)))  # of the losses in each part
        self._counts = np.zeros((N_PARTS, len(cases)))

    def __str__(self) -> str:
        return f"{self.ball}, if trials within the training say that it helps"

    def learn(self, indices: NDArray[np.int64], losses: FloatArray) -> None:
        """Count the losses of a batch for the trial, and go on with it when it is time."""
        self._n_done += 1
        if self._is_earned:
            return

        place = self._place()
        if place != (self._trial, self._part):
            self._end_part()
            self._begin_part(*place)
        self._count(indices, losses)

    def _place(self) -> tuple[int, int | None]:
        """The trial that is on or was last, -1 before any, and its part, None outside of it."""
        progress = self._n_done / self.n_updates
        trial = sum(progress > start for start in STARTS) - 1
        if trial < 0:
            return trial, None

        part = int((progress - STARTS[trial]) / PART)
        if part > _SECOND:
            return trial, None
        return trial, part

    def _begin_part(self, trial: int, part: int | None) -> None:
        if trial != self._trial:
            self._halves[:] = 0
            self._weights[:] = 0
            self._sums[:] = 0
            self._counts[:] = 0
            self._answered[:] = np.nan
        self._trial = trial
        self._part = part

    def _end_part(self) -> None:
        if self._part == _CHOOSING:
            self._divide()
        elif self._part in _HALF_OF_PART and self._weights.any():
            self._ask(self._part)

    def _count(self, indices: NDArray[np.int64], losses: FloatArray) -> None:
        """Add the losses of a batch to the sums of the part."""
        self._losses[indices] = losses
        if self._part is not None:
            np.add.at(self._sums[self._part], indices, losses)
            np.add.at(self._counts[self._part], indices, 1)

    def _divide(self) -> None:
        """Choose the hard cases by their mean losses, and their halves."""
        losses = self._means(_CHOOSING)
        losses = np.where(np.isnan(losses), self._losses, losses)
        if np.isnan(losses).any():
            return

        base = self._base
        everyone = np.ones(len(losses))
        tilt = guarded_tilt(
            losses, base, share=self.ball.share, cap=self.ball.cap, answered=everyone
        )
        more = tilt.weights(losses, base, answered=everyone) / base - 1
        is_hard = more > 0

        # All ranks of a training have the same losses, and must divide the cases alike.
        rng = np.random.default_rng(self._trial)
        first, second = random_halves(losses, is_hard, rng)
        self._halves = first + 2 * second
        self._weights = np.maximum(more, 0.0)

    def _ask(self, part: int) -> None:
        """Look at the half that was not drawn more often."""
        improvements = self._means(_BEFORE) - self._means(part)
        improvements[self._halves == _HALF_OF_PART[part]] = np.nan
        answer = answer_of(improvements, self._weights)
        if answer is not None:
            is_asked = ~np.isnan(improvements) & (self._weights > 0)
            self._answered[is_asked] = answer.answered[is_asked]

        if part == _FIRST:
            self._news.append(self._words_of(answer))
            if answer is None or not answer.is_yes:
                self._weights[:] = 0
            return

        # A hard case that was asked by no part has not answered.
        is_silent = (self._weights > 0) & np.isnan(self._answered)
        self._answered[is_silent] = 0
        self._is_earned = True
        self.ball = replace(self.ball, answered=self._answered.copy())
        n_hard = int((self._weights > 0).sum())
        self._news.append(
            f"Trial {self._trial + 1}: {int((self._answered == 1).sum())} of {n_hard} hard cases "
            "have answered, and are drawn more often from now on."
        )

    def _words_of(self, answer: Answer | None) -> str:
        name = f"Trial {self._trial + 1}"
        if answer is None:
            return f"{name}: too few cases are hard to try whether drawing them more often helps."

        verdict = "so no case is drawn more often for its loss"
        if answer.is_yes:
            verdict = "so the halves change places"
        n_hard = int((self._weights > 0).sum())
        return (
            f"{name}: half of the {n_hard} hardest cases were drawn more often. The loss of the "
            f"other half fell by {answer.hard:.3f}, that of all others by {answer.others:.3f} "
            f"(standard error {answer.standard_error:.3f}): {verdict}."
        )

    def _means(self, part: int) -> FloatArray:
        """Mean loss of each case in a part of the trial; NaN for a case that was not seen."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sums[part] / self._counts[part])

    @property
    def _base(self) -> FloatArray:
        if self.ball.base is None:
            return np.ones(len(self.cases))
        return self.ball.base

    def take_news(self) -> list[str]:
        """What trials have begun and found since the last call, for the log."""
        news = self._news
        self._news = []
        return news

    def following(self, losses: FloatArray) -> "TriedBall":
        """The rule itself, with the tilt of these losses where the ball has earned the draws."""
        if self._is_earned:
            self.ball = self.ball.following(losses)
        return self

    def weigh(self, losses: FloatArray, here: Positions) -> FloatArray:
        """Weights of the cases at some positions; 0 for one without a loss."""
        if self._is_earned:
            return self.ball.weigh(losses, here)

        base = self._base[here]
        is_treated = np.zeros(len(base), dtype=bool)
        if self._part in _HALF_OF_PART:
            is_treated = self._halves[here] == _HALF_OF_PART[self._part]
        weights = base * np.where(is_treated, 1 + self._weights[here], 1.0)
        return np.where(np.isnan(losses), 0.0, weights)

    def state_dict(self) -> dict[str, Any]:
        """The trial that is on, what the last one has found, and the names of the cases."""
        return {
            "cases": list(self.cases),
            "n_done": self._n_done,
            "trial": self._trial,
            "part": self._part,
            "is_earned": self._is_earned,
            **{name: getattr(self, f"_{name}").copy() for name in _MISSING},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the trial of `state_dict`; cases that it lacks take no part in it."""
        here, there = positions_in_common(self.cases, state["cases"])
        for name, missing in _MISSING.items():
            values = np.asarray(state[name])
            array = np.full((*values.shape[:-1], len(self.cases)), missing, dtype=values.dtype)
            array[..., here] = values[..., there]
            setattr(self, f"_{name}", array)

        self._n_done = state["n_done"]
        self._trial = state["trial"]
        self._part = state["part"]
        self._is_earned = state["is_earned"]
        if self._is_earned:
            self.ball = replace(self.ball, answered=self._answered.copy())
