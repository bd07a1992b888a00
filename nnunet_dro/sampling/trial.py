"""A trial inside of a training: does it help to draw the hard cases more often?

Whether it does is a causal question, which the level of a loss cannot answer: a rare scanner and a
wrong label are both hard. So a part of the training draws only *half* of the hard cases more often,
chosen at random, and looks at the half that was **not**. If that improves as well, what is hard
can be learnt and carries over to cases that are not drawn. A wrong label is learnt by heart, if at
all, and helps no other case. Where the answer is yes, the halves change places, to ask every case.

Cases that are hard by their losses have been unlucky, too, and get better by themselves for a
while. So what they are compared with is measured a while after they were chosen.

Pure functions; `TriedBall` draws by them.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray

#: The least improvement of a loss of Dice and cross-entropy that is an answer: two points of Dice.
LEAST_ANSWER = 0.02
#: How many standard errors an answer is above 0. A training has up to three trials.
STANDARD_ERRORS = 2.5
#: What others lose counts so many times, since they are many more than the hard.
PRICE = 3.0
#: A trial needs so many hard cases in each half.
LEAST_HARD = 3


def random_halves(
    losses: FloatArray, is_hard: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Divide the hard cases at random: of two that are about as hard, one goes to each half.

    Args:
        losses: Losses of all cases, shape (n,).
        is_hard: Which of them are hard, shape (n,).
        rng: Source of randomness, equal on all ranks of a training.

    Returns:
        The first half and the second, each of shape (n,).

    Example:
        >>> losses = np.array([0.1, 0.9, 0.2, 0.8])
        >>> first, second = random_halves(losses, losses > 0.5, np.random.default_rng(0))
        >>> sorted([first.tolist(), second.tolist()])
        [[False, False, False, True], [False, True, False, False]]
    """
    hardest_first = np.flatnonzero(is_hard)
    hardest_first = hardest_first[np.argsort(-losses[hardest_first], kind="stable")]
    first = np.zeros(len(losses), dtype=bool)
    for start in range(0, len(hardest_first), 2):
        pair = hardest_first[start : start + 2]
        first[rng.permutation(pair)[0]] = True
    return first, is_hard & ~first


@dataclass(frozen=True)
class Answer:
    """What a trial has found.

    Improvements are falls of the mean loss, so that positive is better.
    """

    hard: float  # Of the hard cases that were not drawn more often, while others were.
    others: float  # Of all cases that are not hard.
    standard_error: float  # Of the difference of the two.
    answered: NDArray[np.bool_]  # The hard cases that improved by more than chance, shape (n,).

    @property
    def net(self) -> float:
        """The improvement of the hard less what it has to beat.

        That is what all others gained by going on with the training, or what those lost, `PRICE`
        times.
        """
        return self.hard - max(self.others, -PRICE * self.others)

    @property
    def is_yes(self) -> bool:
        """Whether drawing the hard more often helps hard cases that are not drawn."""
        return self.net > max(LEAST_ANSWER, STANDARD_ERRORS * self.standard_error)


def answer_of(improvements: FloatArray, weights: FloatArray) -> Answer | None:
    """The answer of a trial.

    With d_i the improvement of a case while it was not drawn more often, and w_i how much more
    often it would be drawn, the hard are the cases with w_i > 0, and

        D_hard = sum(w_i d_i) / sum(w_i),    D_others = mean of d_i over the cases with w_i = 0.

    A hard case has answered if d_i is more than a standard deviation of the others above their
    mean, and at least `LEAST_ANSWER`.

    Args:
        improvements: d, shape (n,); NaN for a case that was drawn more often, or was not seen both
            before and during the trial.
        weights: w, shape (n,), >= 0.

    Returns:
        The answer, or None where too few cases were seen.

    Example:
        >>> improvements = np.array([0.2, 0.3, 0.4, 0.0, 0.0])
        >>> answer = answer_of(improvements, np.array([4, 4, 4, 0, 0]))
        >>> round(answer.hard, 3), answer.is_yes
        (0.3, True)
    """
    is_seen = ~np.isnan(improvements)
    is_hard = (weights > 0) & is_seen
    is_other = (weights == 0) & is_seen
    if is_hard.sum() < LEAST_HARD or is_other.sum() < 2:
        return None

    hard_mean, hard_error = _mean_and_error(improvements[is_hard], weights[is_hard])
    others = improvements[is_other]
    others_mean, others_error = _mean_and_error(others, np.ones(len(others)))

    least = max(LEAST_ANSWER, others_mean + float(others.std(ddof=1)))
    answered = np.zeros(len(weights), dtype=bool)
    answered[is_hard] = improvements[is_hard] > least
    standard_error = math.hypot(hard_error, others_error)
    return Answer(hard_mean, others_mean, standard_error, answered)


def _mean_and_error(values: FloatArray, weights: FloatArray) -> tuple[float, float]:
    """Weighted mean and its standard error."""
    parts = weights / weights.sum()
    mean = float(parts @ values)
    n = len(values)
    squares = parts**2 @ (values - mean) ** 2
    return mean, float(np.sqrt(squares * n / (n - 1)))
