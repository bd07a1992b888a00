"""Distances between the borders of two masks.

Most border voxels of a usable prediction lie within a few voxels of the reference's border. So the
neighbourhood of each is looked through first, nearest offsets first, for all voxels at once; the
first hit is the nearest. Only what is left then needs a search tree, and a percentile often does
not depend on what is left.
"""

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import Grid

_REACH = 3  # How far the neighbourhood reaches, in voxels of the finest axis.
_FEW = 0.02  # The share of the voxels that may be left to a search tree: less than the 5 % that HD95 ignores.

BoolArray = npt.NDArray[np.bool_]
IndexArray = npt.NDArray[np.intp]
FloatArray = npt.NDArray[np.float64]


@functools.lru_cache(maxsize=64)
def _shells(spacing: tuple[float, ...]) -> tuple[tuple[float, tuple[tuple[int, ...], ...]], ...]:
    """Offsets (in voxels) of the neighbourhood, grouped by their length (in mm), nearest first."""
    reach_mm = _REACH * min(spacing) * (1 + 1e-9)
    extent = [int(reach_mm / s) for s in spacing]
    grids = np.meshgrid(*(np.arange(-e, e + 1) for e in extent), indexing="ij")
    offsets = np.stack([g.ravel() for g in grids], axis=1)
    lengths = np.sqrt(((offsets * np.array(spacing)) ** 2).sum(axis=1))
    shells: dict[float, list[tuple[int, ...]]] = {}
    for k in np.argsort(lengths, kind="stable"):
        if lengths[k] <= reach_mm:
            # Offsets whose lengths differ by rounding only are one shell.
            shells.setdefault(round(float(lengths[k]), 9), []).append(
                tuple(int(o) for o in offsets[k])
            )
    return tuple((length, tuple(of_length)) for length, of_length in sorted(shells.items()))


@dataclass
class _Border:
    """The border of a mask in a padded box."""

    dense: BoolArray
    voxels: IndexArray
    shape: tuple[int, ...]
    spacing: tuple[float, ...]

    @classmethod
    def of(cls, mask: BoolArray, spacing: tuple[float, ...], margin: tuple[int, ...]) -> "_Border":
        shape = tuple(n + 2 * m for n, m in zip(mask.shape, margin, strict=True))
        padded = np.zeros(shape, dtype=np.bool_)
        padded[tuple(slice(m, m + n) for m, n in zip(margin, mask.shape, strict=True))] = mask
        flat = padded.ravel()
        inside = flat.copy()
        # The padding is background, so a step past the end of a row never meets the next row's
        # voxels.
        for step in _strides(shape):
            inside[step:] &= flat[:-step]
            inside[:-step] &= flat[step:]
        dense = flat & ~inside
        return cls(dense, np.flatnonzero(dense), shape, spacing)

    def points(self, voxels: IndexArray) -> FloatArray:
        """Positions of voxels in mm, shape (n, n_axes)."""
        return np.stack(np.unravel_index(voxels, self.shape), axis=1) * np.array(self.spacing)

    @functools.cached_property
    def tree(self) -> Any:
        from scipy.spatial import cKDTree

        # An unbalanced tree is built several times faster, and few voxels are looked up in it.
        return cKDTree(self.points(self.voxels), balanced_tree=False, compact_nodes=False)


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]


@dataclass
class DirectedDistances:
    """Distances of a border's voxels to another border, as far as needed.

    ``counts`` of each of ``lengths``, mm.
    """

    n: int
    lengths: FloatArray
    counts: npt.NDArray[np.int64]
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
        rest = source.voxels
        lengths = []
        counts = []
        strides = np.array(_strides(source.shape))
        # No voxel that is left lies nearer than the first shell that was not looked through.
        beyond = _REACH * min(source.spacing)
        for length, offsets in _shells(source.spacing):
            if not len(rest) or (len(rest) <= _FEW * len(source.voxels) and length > at_least_mm):
                beyond = length
                break
            hit = np.zeros(len(rest), dtype=np.bool_)
            for offset in offsets:
                hit |= target.dense[rest + int(strides @ offset)]
            lengths.append(length)
            counts.append(int(np.count_nonzero(hit)))
            rest = rest[~hit]
        return cls(
            len(source.voxels),
            np.array(lengths),
            np.array(counts, dtype=np.int64),
            beyond,
            rest,
            source,
            target,
        )

    @functools.cached_property
    def far(self) -> FloatArray:
        """Distances of the voxels whose neighbourhood had no hit, mm, sorted."""
        if not len(self._rest):
            return np.zeros(0)
        distances: FloatArray = self._to.tree.query(self._from.points(self._rest))[0]
        return np.sort(distances)

    def smallest(self, rank: int) -> float:
        """The distance with this rank (0 is the smallest), mm."""
        n_near = self.n - len(self._rest)
        if rank < n_near:
            return float(self.lengths[np.searchsorted(np.cumsum(self.counts), rank, side="right")])
        return float(self.far[rank - n_near])

    def n_within(self, tolerance_mm: float) -> int:
        """How many voxels lie within a distance of the other border."""
        tolerance_mm *= (
            1 + 1e-6
        )  # Headers store voxel sizes in single precision: 0.3 mm is 0.30000001.
        near = int(self.counts[self.lengths <= tolerance_mm].sum())
        if not len(self._rest) or tolerance_mm < self._beyond:
            return near
        return near + int(np.searchsorted(self.far, tolerance_mm, side="right"))

    def p95(self) -> float:
        """The 95th percentile, mm.

        Linear interpolation between order statistics, as numpy's default.
        """
        position = 0.95 * (self.n - 1)
        low = int(position)
        value = self.smallest(low)
        return (
            value
            if low == position
            else value + (self.smallest(low + 1) - value) * (position - low)
        )

    def every(self) -> FloatArray:
        """All distances, mm, sorted."""
        return np.concatenate([np.repeat(self.lengths, self.counts), self.far])


class SurfaceDistances:
    """Distances between the borders of a label in two masks (z, y, x) or (y, x), each with a voxel, both ways, mm.

    A voxel belongs to the border if it is in the label and one of its face neighbours is not, or
    lies outside the arrays. Up to ``at_least_mm`` all distances will be needed; larger ones may
    take longer to find.
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
        margin = tuple(max(1, int(_REACH * min(size) * (1 + 1e-9) / length)) for length in size)
        borders = [_Border.of(mask, size, margin) for mask in (reference, prediction)]
        both_ways = (borders, borders[::-1])
        self._both = [
            DirectedDistances.between(*pair, at_least_mm=at_least_mm) for pair in both_ways
        ]

    @classmethod
    def on(
        cls, grid: Grid, reference: BoolArray, prediction: BoolArray, *, at_least_mm: float
    ) -> "SurfaceDistances":
        """Between masks in a box (z, y, x) of a grid, along the axes that are not flat."""
        size = tuple(length for axis, length in enumerate(grid.spacing) if axis not in grid.flat)
        return cls(
            np.squeeze(reference, grid.flat),
            np.squeeze(prediction, grid.flat),
            size,
            at_least_mm=at_least_mm,
        )

    def hd95(self) -> float:
        """The larger of the two directed 95th percentiles, mm."""
        return max(one.p95() for one in self._both)

    def hd95_pooled(self) -> float:
        """The 95th percentile of both directions together, mm."""
        return float(np.percentile(np.concatenate([one.every() for one in self._both]), 95))

    def hd(self) -> float:
        """The largest distance, mm."""
        return max(one.smallest(one.n - 1) for one in self._both)

    def assd(self) -> float:
        """The mean distance, both directions together, mm."""
        return float(np.concatenate([one.every() for one in self._both]).mean())

    def nsd(self, tolerance_mm: float) -> float:
        """The share of the border voxels of both that lie within a tolerance of the other border."""
        return sum(one.n_within(tolerance_mm) for one in self._both) / sum(
            one.n for one in self._both
        )
