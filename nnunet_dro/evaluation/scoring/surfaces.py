"""Distances between the borders of two masks.

Most border voxels of a usable prediction lie within a few voxels of the reference's border. So the
neighbourhood of each is looked through first, nearest offsets first, for all voxels at once; the
first hit is the nearest. Only what is left then needs a search tree, and a percentile often does
not depend on what is left.
"""

import functools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray, Int64Array
from nnunet_dro.evaluation.scoring.grid import Grid

#: How far the neighbourhood reaches, in voxels of the finest axis.
_REACH = 3

#: The share of the voxels that may be left to a search tree: less than the 5 % that HD95 ignores.
_FEW = 0.02

#: Headers store voxel sizes in single precision: 0.3 mm is 0.30000001.
_ROUNDING = 1e-6


#: Offsets of equal length: that length in mm, and the offsets in voxels.
Shell = tuple[float, tuple[tuple[int, ...], ...]]


def _reach_mm(spacing: tuple[float, ...]) -> float:
    """How far the neighbourhood reaches, mm; offsets of just that length are inside."""
    return _REACH * min(spacing) * (1 + 1e-9)


@functools.lru_cache(maxsize=64)
def _shells(spacing: tuple[float, ...]) -> tuple[Shell, ...]:
    """The offsets of the neighbourhood, grouped by their length, nearest first."""
    reach_mm = _reach_mm(spacing)
    steps = []
    for length in spacing:
        n_steps = int(reach_mm / length)
        steps.append(np.arange(-n_steps, n_steps + 1))

    grids = np.meshgrid(*steps, indexing="ij")
    offsets = np.stack([grid.ravel() for grid in grids], axis=1)
    squares = (offsets * np.array(spacing)) ** 2
    lengths = np.sqrt(squares.sum(axis=1))
    nearest_first = np.argsort(lengths, kind="stable")

    offsets_of_length: dict[float, list[tuple[int, ...]]] = defaultdict(list)
    for position in nearest_first:
        # Offsets whose lengths differ by rounding only are one shell.
        length = round(float(lengths[position]), 9)
        if lengths[position] <= reach_mm:
            offset = tuple(offsets[position].tolist())
            offsets_of_length[length].append(offset)

    shells = {length: tuple(group) for length, group in offsets_of_length.items()}
    return tuple(sorted(shells.items()))


@dataclass
class _Border:
    """The border of a mask in a padded box."""

    dense: BoolArray  # every voxel of the box, flat
    voxels: IndexArray  # flat indices of the border's voxels
    shape: tuple[int, ...]  # of the box
    strides: tuple[int, ...]  # how far a step along each axis goes in the flat array
    spacing: tuple[float, ...]  # mm

    @classmethod
    def of(cls, mask: BoolArray, spacing: tuple[float, ...], margin: tuple[int, ...]) -> "_Border":
        """The voxels of a mask with a face neighbour outside it; outside the array nothing is."""
        shape = []
        inner = []
        for length, pad in zip(mask.shape, margin, strict=True):
            shape.append(length + 2 * pad)
            inner.append(slice(pad, pad + length))

        padded = np.zeros(shape, dtype=np.bool_)
        padded[tuple(inner)] = mask

        # The padding is background, so a step past the end of a row never meets the next row's
        # voxels. A voxel is a byte, so numpy's strides are such steps.
        flat = padded.ravel()
        inside = flat.copy()
        for step in padded.strides:
            inside[step:] &= flat[:-step]
            inside[:-step] &= flat[step:]
        # In place: a label may fill hundreds of megabytes.
        dense = np.logical_xor(flat, inside, out=inside)

        return cls(
            dense=dense,
            voxels=np.flatnonzero(dense),
            shape=padded.shape,
            strides=padded.strides,
            spacing=spacing,
        )

    def points(self, voxels: IndexArray) -> FloatArray:
        """Positions of voxels in mm, shape (n, n_axes)."""
        places = np.stack(np.unravel_index(voxels, self.shape), axis=1)
        return places * np.array(self.spacing)

    @functools.cached_property
    def tree(self) -> Any:
        """A search tree of the positions of the border's voxels."""
        from scipy.spatial import cKDTree

        # An unbalanced tree is built several times faster, and few voxels are looked up in it.
        return cKDTree(self.points(self.voxels), balanced_tree=False, compact_nodes=False)


@dataclass
class DirectedDistances:
    """Distances of one border's voxels to the nearest voxel of another border.

    They are found as far as they are needed: ``lengths`` are the distances in the neighbourhood,
    mm, increasing, and ``counts`` is how many voxels have each.
    """

    n: int
    lengths: FloatArray
    counts: Int64Array
    _beyond: float = field(repr=False)
    _rest: IndexArray = field(repr=False)
    _from: _Border = field(repr=False)
    _to: _Border = field(repr=False)

    @classmethod
    def between(
        cls, source: _Border, target: _Border, *, at_least_mm: float
    ) -> "DirectedDistances":
        """Look through the neighbourhood of every voxel of ``source`` for one of ``target``.

        Far shells have many offsets and few hits: once few voxels are left, those are left to the
        search tree, which most measures then do not need.
        """
        few = _FEW * len(source.voxels)
        strides = np.array(source.strides)
        rest = source.voxels
        lengths = []
        counts = []

        # No voxel that is left lies nearer than the first shell that was not looked through.
        beyond = _REACH * min(source.spacing)
        for length, offsets in _shells(source.spacing):
            is_enough = len(rest) <= few and length > at_least_mm
            if is_enough or not len(rest):
                beyond = length
                break

            hit = np.zeros(len(rest), dtype=np.bool_)
            for offset in offsets:
                step = int(strides @ offset)
                hit |= target.dense[rest + step]
            lengths.append(length)
            counts.append(np.count_nonzero(hit))
            rest = rest[~hit]

        return cls(
            n=len(source.voxels),
            lengths=np.array(lengths),
            counts=np.array(counts, dtype=np.int64),
            _beyond=beyond,
            _rest=rest,
            _from=source,
            _to=target,
        )

    @functools.cached_property
    def far(self) -> FloatArray:
        """Distances of the voxels whose neighbourhood had no hit, mm, sorted."""
        if not len(self._rest):
            return np.zeros(0)

        points = self._from.points(self._rest)
        distances: FloatArray
        distances, _ = self._to.tree.query(points)
        return np.sort(distances)

    def smallest(self, rank: int) -> float:
        """The distance with this rank (0 is the smallest), mm."""
        n_near = self.n - len(self._rest)
        if rank >= n_near:
            return float(self.far[rank - n_near])

        n_up_to_shell = np.cumsum(self.counts)
        shell = np.searchsorted(n_up_to_shell, rank, side="right")
        return float(self.lengths[shell])

    def n_within(self, tolerance_mm: float) -> int:
        """How many voxels lie within a distance of the other border."""
        tolerance_mm *= 1 + _ROUNDING
        is_within = self.lengths <= tolerance_mm
        n_near = int(self.counts[is_within].sum())
        if not len(self._rest) or tolerance_mm < self._beyond:
            return n_near

        n_far = int(np.searchsorted(self.far, tolerance_mm, side="right"))
        return n_near + n_far

    def p95(self) -> float:
        """The 95th percentile, mm.

        Linear interpolation between order statistics, as numpy's default.
        """
        position = 0.95 * (self.n - 1)
        rank = int(position)
        low = self.smallest(rank)
        if rank == position:
            return low

        high = self.smallest(rank + 1)
        return low + (high - low) * (position - rank)

    def every(self) -> FloatArray:
        """All distances, mm, sorted."""
        near = np.repeat(self.lengths, self.counts)
        return np.concatenate([near, self.far])


class SurfaceDistances:
    """Distances between the borders of a label in two masks, both ways, mm.

    The masks are (z, y, x) or (y, x), and each has a voxel. A voxel belongs to the border if it is
    in the label and one of its face neighbours is not, or lies outside the arrays. Up to
    ``at_least_mm`` all distances will be needed; larger ones may take longer to find.
    """

    def __init__(
        self,
        reference: BoolArray,
        prediction: BoolArray,
        spacing: tuple[float, ...],
        *,
        at_least_mm: float = 0.0,
    ) -> None:
        size = tuple(float(length) for length in spacing)
        reach_mm = _reach_mm(size)
        margin = tuple(max(1, int(reach_mm / length)) for length in size)
        reference_border = _Border.of(reference, size, margin)
        prediction_border = _Border.of(prediction, size, margin)

        measure = functools.partial(DirectedDistances.between, at_least_mm=at_least_mm)
        self._both_ways = (
            measure(reference_border, prediction_border),
            measure(prediction_border, reference_border),
        )

    @classmethod
    def on(
        cls, grid: Grid, reference: BoolArray, prediction: BoolArray, *, at_least_mm: float
    ) -> "SurfaceDistances":
        """Between masks in a box (z, y, x) of a grid, along the axes that are not flat."""
        size = np.delete(grid.spacing, grid.flat)

        return cls(
            np.squeeze(reference, grid.flat),
            np.squeeze(prediction, grid.flat),
            tuple(size.tolist()),
            at_least_mm=at_least_mm,
        )

    def _pooled(self) -> FloatArray:
        """All distances of both directions, mm."""
        return np.concatenate([directed.every() for directed in self._both_ways])

    def hd95(self) -> float:
        """The larger of the two directed 95th percentiles, mm."""
        return max(directed.p95() for directed in self._both_ways)

    def hd95_pooled(self) -> float:
        """The 95th percentile of both directions together, mm."""
        return float(np.percentile(self._pooled(), 95))

    def hd(self) -> float:
        """The largest distance, mm."""
        return max(directed.smallest(directed.n - 1) for directed in self._both_ways)

    def assd(self) -> float:
        """The mean distance, both directions together, mm."""
        return float(self._pooled().mean())

    def nsd(self, tolerance_mm: float) -> float:
        """The share of the border voxels of both within a tolerance of the other border."""
        n_within = sum(directed.n_within(tolerance_mm) for directed in self._both_ways)
        n_voxels = sum(directed.n for directed in self._both_ways)
        return n_within / n_voxels
