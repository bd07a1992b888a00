"""The draws of one batch, and those of cases that were never seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.sampling.blocks import Blocks
from nnunet_dro.sampling.systematic import all_cases, draw_distinct, draw_uniformly


@dataclass(eq=False, slots=True)
class Draws:
    """The draws of one batch, and the numbers they were made with; arrays of shape (size,).

    Attributes:
        indices: Positions of the drawn cases in the table.
        stale_losses: Stale losses that decided the draws; NaN in a batch of first visits and during
            a warm-up.
        probabilities: How often each case was expected in the batch, divided by ``size``; at most 1
            / ``size`` where cases are distinct. With replacement this is the probability of each
            case in any one draw.
        shares: Probability of each case in one draw by the rule alone (for KL the softmax), without
            exploration and without the limit of distinct cases.
        explored: Part of its probability in one draw that each case has from exploration, in [0,
            1]; 1 where no rule decided the draw.
        betas: Robustness of each draw, 1/loss units; 0 where no softmax of stale losses decided it,
            and in a batch of first visits.
    """

    indices: NDArray[np.int64]
    stale_losses: FloatArray
    probabilities: FloatArray
    shares: FloatArray
    explored: FloatArray
    betas: FloatArray


def uniform_draws(n: int, size: int, rng: np.random.Generator, *, replace: bool) -> Draws:
    """The draws of a batch that no loss decides."""
    indices = rng.integers(n, size=size) if replace else draw_uniformly(n, size, rng)
    return draws_of_weight_one(indices, np.full(size, 1 / n))


def draws_of_weight_one(indices: NDArray[np.int64], probabilities: FloatArray) -> Draws:
    """The draws of a batch that no loss may correct, however long it waits in a queue.

    They include those of a batch of first visits, though others may fill it: their importance
    weights would say how much they changed since, in a batch in which the others have none.
    """
    size = len(indices)
    return Draws(
        indices=indices,
        stale_losses=np.full(size, np.nan),
        probabilities=probabilities,
        shares=probabilities,
        explored=np.ones(size),
        betas=np.zeros(size),
    )


def first_visits(
    blocks: Blocks, size: int, rng: np.random.Generator, *, exploration: float
) -> tuple[NDArray[np.int64], FloatArray]:
    """Positions and probabilities of cases that were never seen.

    Those that were not drawn yet come before those whose loss is still on its way. The second kind
    is drawn with replacement, and so may fill a batch with one case. ``exploration`` is the share
    of uniform draws once the last missing loss has come back.
    """
    indices = np.empty(size, dtype=np.int64)
    probabilities = np.empty(size)
    for k in range(size):
        drawn = _draw_first_visit(blocks, rng)
        if drawn is not None:
            indices[k], probabilities[k] = drawn
            continue

        # The last missing loss has just come back.
        index, probability = blocks.draw_by_weight(1, rng, exploration=exploration)
        indices[k] = index[0]
        probabilities[k] = probability[0]
    return indices, probabilities


def distinct_first_visits(
    blocks: Blocks, size: int, rng: np.random.Generator, *, exploration: float
) -> tuple[NDArray[np.int64], FloatArray]:
    """Positions and probabilities of distinct cases, those that were never seen first.

    The cases that were not drawn yet come before those whose loss is still on its way, and these
    before others, which are drawn by weight. They are returned in random order.
    """
    n = blocks.n
    rounds, n_places = divmod(size, n)
    if rounds:
        blocks.shared.claimed[:] = True
        blocks.shared.unclaimed[:] = 0

    indices: list[int] = []
    probabilities: list[float] = []
    while len(indices) < n_places:
        drawn = _draw_first_visit(blocks, rng, without=indices)
        if drawn is None:
            break
        index, probability = drawn
        indices.append(index)
        probabilities.append(probability)

    others, expected = draw_distinct(
        blocks,
        n_places - len(indices),
        rng,
        exploration=exploration,
        without=indices,
    )

    in_rounds = all_cases(n, rounds)
    all_indices = np.concatenate([in_rounds, indices, others]).astype(np.int64)
    equal = np.full(len(in_rounds), 1 / n)
    all_probabilities = np.concatenate([equal, probabilities, expected / size])
    order = rng.permutation(size)
    return all_indices[order], all_probabilities[order]


def _draw_first_visit(
    blocks: Blocks, rng: np.random.Generator, without: Sequence[int] = ()
) -> tuple[int, float] | None:
    """Position and probability of a case that was never seen, if there is one."""
    drawn = blocks.draw_unclaimed(rng)
    if drawn is None:
        drawn = blocks.draw_unseen(rng, without)
    return drawn
