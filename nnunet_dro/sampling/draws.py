"""The draws of one batch.

Of distinct cases by randomised systematic sampling, and unseen cases first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.blocks import Blocks
from nnunet_dro.sampling.divergences import FloatArray

#: A case at the limit within rounding is not certain: of equal cases at the limit, each is drawn
#: anyway.
_ROUNDING = 1 + 1e-12
_ONLY_BLOCK = np.zeros(1, dtype=np.int64)


@dataclass(frozen=True)
class Draws:
    """The draws of one batch, and the numbers they were made with; arrays of shape (size,).

    Attributes:
        indices: Positions of the drawn cases in the table.
        stale_losses: Stale losses that decided the draws; NaN at a first visit and during a
            warm-up, where none did.
        probabilities: How often each case was expected in the batch, divided by ``size``; at most 1
            / ``size`` where cases are distinct. With replacement this is the probability of each
            case in any one draw.
        shares: Probability of each case in one draw by the rule alone (for KL the softmax), without
            exploration and without the limit of distinct cases.
        explored: Part of its probability in one draw that each case has from exploration, in [0,
            1]; 1 where no rule decided the draw.
        betas: Robustness of each draw, 1/loss units; 0 where no softmax of stale losses decided it.
    """

    indices: NDArray[np.int64]
    stale_losses: FloatArray
    probabilities: FloatArray
    shares: FloatArray
    explored: FloatArray
    betas: FloatArray


def expected_draws(probabilities: FloatArray, *, size: int) -> FloatArray:
    """How often each case is expected in a batch that is drawn without replacement.

    A case with size p_i >= 1 comes in every batch. The others share the places that are left in
    proportion to p_i, which may make further cases certain. So the result is min(1, size p_i) where
    no case is certain:

        pi_i = min(1, c p_i),    c such that they sum to size.

    If there are fewer cases than places, every case comes size // n times, and the rest is drawn as
    above.

    Args:
        probabilities: Shape (n,), summing to 1. Where fewer cases than places have one, the others
            share the rest.
        size: Number of places in the batch.

    Returns:
        Expected number of draws of each case, shape (n,), summing to ``size``; its share of the
        draws is that over ``size``.

    Example:
        >>> expected_draws(np.array([0.5, 0.3, 0.1, 0.1]), size=2).tolist()
        [1.0, 0.6, 0.2, 0.2]
        >>> expected_draws(np.array([0.7, 0.1, 0.1, 0.1]), size=2).round(2).tolist()
        [1.0, 0.33, 0.33, 0.33]
    """
    n = len(probabilities)
    rounds, n_places = divmod(size, n)
    left = np.array(probabilities, dtype=np.float64)
    certain = np.zeros(n, dtype=bool)
    while n_places > (n_certain := int(certain.sum())):
        limit = left.sum() / (n_places - n_certain) * _ROUNDING
        if not (over := left > limit).any():
            break
        certain |= over
        left[over] = 0.0
    n_left = n_places - n_certain
    if n_left and not left.sum() > 0:
        left[~certain] = 1.0
    scale = n_left / left.sum() if n_left else 0.0
    return np.asarray(rounds + certain + scale * left)


def draw_uniformly(n: int, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw uniformly without replacement.

    With fewer cases than places, each comes size // n times or once more.
    """
    rounds, n_places = divmod(size, n)
    indices = rng.choice(n, size=n_places, replace=False)
    return (
        rng.permutation(np.concatenate([np.tile(np.arange(n), rounds), indices]))
        if rounds
        else indices
    )


def draw_distinct(
    blocks: Blocks,
    size: int,
    rng: np.random.Generator,
    *,
    exploration: float,
    without: Sequence[int] = (),
) -> tuple[NDArray[np.int64], FloatArray]:
    """Draw distinct cases by their weights, mixed with the uniform distribution.

    The cases stand in a line, in random order, each as long as its probability p_i. Points at equal
    distances, with a random start, fall on the cases to draw. As no case is longer than the
    distance (those that were are certain, and drawn beforehand), none is met twice, and each is met
    with a probability of exactly its length over the distance, that of `expected_draws`.

    The line is made of blocks in random order, each with its cases in random order, and only blocks
    that are met are looked at. A block that is shorter than the distance is met at most once, so
    one draw by p_i inside it does. Two cases of such a block do not come together; tables of up to
    512 cases have one block, in which all pairs do. A block that another process changes at the
    same moment may yield a case twice. The positions are in random order, for batches treat their
    first and last places differently; with them comes how often each was expected in the batch.

    Source: Madow 1949, systematic sampling with unequal probabilities; Hartley and Rao 1962, with a
    random order.
    """
    if size > blocks.n:
        return _draw_in_rounds(blocks, size, rng, exploration)
    line = _Line(blocks, exploration)
    if without:
        line.take(without)
    certain = _take_certain(line, size)
    indices, expected = _draw_along(line, size - len(certain), rng)
    order = rng.permutation(size)
    all_expected = np.array([1.0] * len(certain) + expected)
    return np.array(certain + indices, dtype=np.int64)[order], all_expected[order]


def _draw_in_rounds(
    blocks: Blocks, size: int, rng: np.random.Generator, exploration: float
) -> tuple[NDArray[np.int64], FloatArray]:
    rounds, n_places = divmod(size, blocks.n)
    line = _Line(blocks, exploration)
    probabilities = np.concatenate([line.inside(block) for block in blocks.all()])
    rest, _ = draw_distinct(blocks, n_places, rng, exploration=exploration)
    indices = rng.permutation(np.concatenate([np.tile(np.arange(blocks.n), rounds), rest]))
    return indices, expected_draws(probabilities, size=size)[indices]


class _Line:
    """Lengths of the cases on the line.

    Those of whole blocks, and of the cases in blocks that were looked at.
    """

    def __init__(self, blocks: Blocks, exploration: float) -> None:
        self.blocks = blocks
        scale, lengths = blocks.scaled()
        total = np.add.reduce(lengths)
        if not total > 0:  # no case has a weight
            exploration = 1.0
            total = 1.0
        self._scale = scale * ((1 - exploration) / total)
        self._floor = exploration / blocks.n
        #: Lengths of the blocks, shape (n_blocks,).
        self.lengths = lengths * ((1 - exploration) / total) + blocks.n_cases * self._floor
        #: Length of the whole line.
        self.length = 1.0
        self._inside: dict[int, FloatArray] = {}
        self._taken: list[int] = []

    def inside(self, block: int) -> FloatArray:
        """Lengths of a block's cases.

        Their sum may differ from the block's length while it is being updated.
        """
        lengths = self._inside.get(block)
        if lengths is None:
            lengths = self.blocks.weights(block) * self._scale[block]
            lengths += self._floor
            self._inside[block] = lengths
        return lengths

    def take(self, positions: Sequence[int]) -> None:
        """Take cases off the line."""
        self._taken += positions
        for position in positions:
            self.inside(position // self.blocks.size)[position % self.blocks.size] = 0.0
        for block in self.blocks.of(positions):
            # Added up anew: a difference would lose what is left beside a case with nearly all
            # probability.
            self.lengths[block] = np.add.reduce(self._inside[block])
        self.length = float(np.add.reduce(self.lengths))

    def make_equal(self) -> None:
        """Give all cases the same length, except those that were taken."""
        taken, self._taken, self._inside = self._taken, [], {}
        self._scale[:] = 0.0
        self._floor = 1.0
        self.lengths = self.blocks.n_cases.astype(np.float64)
        self.take(taken)


def _take_certain(line: _Line, n_places: int) -> list[int]:
    """Take the cases that come in every batch off the line.

    Those longer than the distance of the points.
    """
    certain: list[int] = []
    while len(certain) < n_places - 1:  # no case is longer than the whole line
        limit = line.length / (n_places - len(certain)) * _ROUNDING
        longer: list[int] = []
        for block in (line.lengths > limit).nonzero()[0].tolist():
            longer += (
                line.blocks.size * block + (line.inside(block) > limit).nonzero()[0]
            ).tolist()
        if not longer:
            break
        line.take(longer)
        certain += longer
    return certain[:n_places]


def _draw_along(
    line: _Line, n_points: int, rng: np.random.Generator
) -> tuple[list[int], list[float]]:
    """Positions of the cases that the points fall on, and how often each was expected."""
    indices: list[int] = []
    expected: list[float] = []
    if n_points == 0:
        return indices, expected
    if not line.length > 0:
        line.make_equal()
    n_blocks = line.blocks.n_blocks
    order = rng.permutation(n_blocks) if n_blocks > 1 else _ONLY_BLOCK
    ends = np.add.accumulate(line.lengths[order])
    distance = float(ends[-1]) / n_points
    start = rng.random() / _ROUNDING  # so that rounding moves no point past the end
    points = [(k + start) * distance for k in range(n_points)]
    met = ends.searchsorted(points, side="right").tolist()
    for place in dict.fromkeys(met):
        block = int(order[place])
        lengths = line.inside(block)
        length = float(line.lengths[block])
        if length <= distance and met.count(place) == 1:
            cases = _at([rng.random()], lengths)
        else:
            begin = float(ends[place]) - length
            here = [
                (point - begin) / length
                for point, of in zip(points, met, strict=True)
                if of == place
            ]
            shuffled = rng.permutation(len(lengths))
            cases = shuffled[_at(here, lengths[shuffled])].tolist()
        for case in cases:
            indices.append(block * line.blocks.size + case)
            expected.append(float(lengths[case]) / distance)
    return indices, expected


def _at(places: list[float], lengths: FloatArray) -> list[int]:
    """The cases at some places along a block, given as shares of its length."""
    ends = np.add.accumulate(lengths)
    total = float(ends[-1])
    last = len(lengths) - 1
    return [
        min(int(at), last)
        for at in ends.searchsorted([place * total for place in places], side="right")
    ]


def first_visits(
    blocks: Blocks, size: int, rng: np.random.Generator, *, exploration: float
) -> tuple[NDArray[np.int64], FloatArray]:
    """Positions and probabilities of unseen cases.

    Those not drawn yet before those whose loss is still on its way.

    The second kind is drawn with replacement, and so may fill a batch with one case.
    ``exploration`` is the share of uniform draws once the last missing loss has come back.
    """
    indices = np.empty(size, dtype=np.int64)
    probabilities = np.empty(size)
    for k in range(size):
        drawn = blocks.draw_unclaimed(rng) or blocks.draw_unseen(rng)
        if drawn is None:  # the last missing loss has just come back
            (index,), (probability,) = blocks.draw_by_weight(1, rng, exploration=exploration)
            drawn = int(index), float(probability)
        indices[k], probabilities[k] = drawn
    return indices, probabilities


def distinct_first_visits(
    blocks: Blocks, size: int, rng: np.random.Generator, *, exploration: float
) -> tuple[NDArray[np.int64], FloatArray]:
    """The same with distinct cases in random order.

    Those not drawn yet, those on their way, then others by weight.
    """
    rounds, n_places = divmod(size, blocks.n)
    if rounds:
        blocks.shared.claimed[:] = True
        blocks.shared.unclaimed[:] = 0
    indices: list[int] = []
    probabilities: list[float] = []
    while len(indices) < n_places and (
        drawn := blocks.draw_unclaimed(rng) or blocks.draw_unseen(rng, without=indices)
    ):
        indices.append(drawn[0])
        probabilities.append(drawn[1])
    others, expected = draw_distinct(
        blocks, n_places - len(indices), rng, exploration=exploration, without=indices.copy()
    )
    all_indices = np.concatenate([np.tile(np.arange(blocks.n), rounds), indices, others]).astype(
        np.int64
    )
    all_probabilities = np.concatenate(
        [np.full(rounds * blocks.n, 1 / blocks.n), probabilities, expected / size]
    )
    order = rng.permutation(size)
    return all_indices[order], all_probabilities[order]
