"""Distinct cases for a batch, drawn by their probabilities: randomised systematic sampling."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.sampling.blocks import Blocks, cases_at

#: A case at the limit within rounding is not certain: of equal cases at the limit, each is drawn
#: anyway.
_ROUNDING = 1 + 1e-12


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

    # A case that becomes certain leaves fewer places to the others.
    left = np.array(probabilities, dtype=np.float64)
    is_certain = np.zeros(n, dtype=bool)
    n_certain = 0
    while n_certain < n_places:
        distance = left.sum() / (n_places - n_certain)
        is_longer = left > distance * _ROUNDING
        if not is_longer.any():
            break
        is_certain |= is_longer
        left[is_longer] = 0.0
        n_certain = int(is_certain.sum())

    # The others share what is left, equally if none of them has a probability.
    n_left = n_places - n_certain
    scale = 0.0
    if n_left:
        if not left.sum() > 0:
            left[~is_certain] = 1.0
        scale = n_left / left.sum()
    return np.asarray(rounds + is_certain + scale * left)


def all_cases(n: int, rounds: int) -> NDArray[np.int64]:
    """The positions of all cases, in this number of rounds."""
    return np.tile(np.arange(n), rounds)


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

    drawn = [(position, 1.0) for position in _take_certain(line, size)]
    drawn += _draw_along(line, size - len(drawn), rng)
    rng.shuffle(drawn)

    indices = [position for position, _ in drawn]
    expected = [draws for _, draws in drawn]
    return np.array(indices, dtype=np.int64), np.array(expected)


def _draw_in_rounds(
    blocks: Blocks, size: int, rng: np.random.Generator, exploration: float
) -> tuple[NDArray[np.int64], FloatArray]:
    """The draws of `draw_distinct` where there are fewer cases than places."""
    # Every case comes in each round, and the places that are left are drawn.
    n = blocks.n
    rounds, n_places = divmod(size, n)
    line = _Line(blocks, exploration)
    lengths = [line.inside(block) for block in blocks.all()]
    rest, _ = draw_distinct(
        blocks,
        n_places,
        rng,
        exploration=exploration,
    )

    indices = rng.permutation(np.concatenate([all_cases(n, rounds), rest]))
    expected = expected_draws(np.concatenate(lengths), size=size)
    return indices, expected[indices]


class _Line:
    """Lengths of the cases on the line of `draw_distinct`.

    Those of whole blocks are known from the start, those of the cases in a block once it is looked
    at.
    """

    def __init__(self, blocks: Blocks, exploration: float) -> None:
        self.blocks = blocks
        #: Lengths of the cases in blocks that were looked at.
        self._inside: dict[int, FloatArray] = {}
        #: Positions of the cases that were taken off the line.
        self._taken: list[int] = []

        #: Whether all cases have the same length, or else each its weight and some more.
        self._is_equal = False
        total = float(blocks.shared.total[0])
        if exploration == 1 or not total > 0:
            self.make_equal()
            return

        # A case has the length (1 - exploration) w_i / sum(w) + exploration / n, here in units in
        # which the first term is w_i.
        self.length = total / (1 - exploration)
        self._floor = exploration * self.length / blocks.n
        #: Lengths of the blocks, shape (n_blocks,).
        self.lengths = blocks.shared.block_sum + blocks.n_cases * self._floor

    def inside(self, block: int) -> FloatArray:
        """Lengths of a block's cases.

        Their sum may differ from the block's length while it is being updated.
        """
        lengths = self._inside.get(block)
        if lengths is None:
            weights = self.blocks.weights(block)
            lengths = np.ones(len(weights)) if self._is_equal else weights + self._floor
            self._inside[block] = lengths
        return lengths

    def take(self, positions: Sequence[int]) -> None:
        """Take cases off the line."""
        self._taken += positions
        size = self.blocks.size
        for position in positions:
            block, case = divmod(position, size)
            lengths = self.inside(block)
            lengths[case] = 0.0

        for block in self.blocks.containing(positions):
            # Added up anew: a difference would lose what is left beside a case with nearly all
            # probability.
            self.lengths[block] = np.add.reduce(self._inside[block])
        self.length = float(np.add.reduce(self.lengths))

    def make_equal(self) -> None:
        """Give all cases the same length, except those that were taken."""
        self._is_equal = True
        self._inside = {}
        self.lengths = self.blocks.n_cases.astype(np.float64)
        self.length = float(self.blocks.n)

        taken = self._taken
        self._taken = []
        if taken:
            self.take(taken)


def _take_certain(line: _Line, n_places: int) -> list[int]:
    """Take the cases that come in every batch off the line.

    They are longer than the distance of the points that the places leave.
    """
    size = line.blocks.size
    certain: list[int] = []
    while len(certain) < n_places - 1:  # no case is longer than the whole line
        distance = line.length / (n_places - len(certain))
        limit = distance * _ROUNDING
        longer: list[int] = []

        # Only a block that is longer than the limit can have such a case.
        long_blocks = (line.lengths > limit).nonzero()[0]
        for block in long_blocks.tolist():
            lengths = line.inside(block)
            if np.maximum.reduce(lengths) > limit:
                cases = (lengths > limit).nonzero()[0]
                longer += (size * block + cases).tolist()
        if not longer:
            break

        line.take(longer)
        certain += longer
    return certain[:n_places]


def _draw_along(line: _Line, n_points: int, rng: np.random.Generator) -> list[tuple[int, float]]:
    """Positions of the cases that the points fall on, and how often each was expected."""
    drawn: list[tuple[int, float]] = []
    if n_points == 0:
        return drawn

    if not line.length > 0:
        line.make_equal()
    points_of_block, distance = _points_by_block(line, n_points, rng)
    for block, points in points_of_block.items():
        lengths = line.inside(block)
        length = float(line.lengths[block])
        shuffled = rng.permutation(len(lengths))
        places = [point / length for point in points]
        cases = shuffled[cases_at(places, lengths[shuffled])]

        first = block * line.blocks.size
        drawn += [(first + case, float(lengths[case]) / distance) for case in cases.tolist()]
    return drawn


def _points_by_block(
    line: _Line, n_points: int, rng: np.random.Generator
) -> tuple[dict[int, list[float]], float]:
    """The points that fall on each block, seen from where it begins, and their distance.

    Only blocks that points fall on are there.
    """
    # The blocks in random order.
    order = rng.permutation(line.blocks.n_blocks)
    lengths = line.lengths[order]
    ends = np.add.accumulate(lengths)
    distance = float(ends[-1]) / n_points
    points = _equidistant(n_points, distance, rng)

    points_of_block: dict[int, list[float]] = defaultdict(list)
    places = ends.searchsorted(points, side="right").tolist()
    for place, point in zip(places, points, strict=True):
        begin = float(ends[place] - lengths[place])
        points_of_block[int(order[place])].append(point - begin)
    return points_of_block, distance


def _equidistant(n_points: int, distance: float, rng: np.random.Generator) -> list[float]:
    """Points at equal distances, with a random start."""
    start = rng.random() / _ROUNDING  # so that rounding moves no point past the end
    return [(k + start) * distance for k in range(n_points)]
