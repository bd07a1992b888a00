"""Where the voxels of a label map lie, and how to bring one map onto the grid of another."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.arrays import FloatArray

#: How far apart the corners of two maps on one grid may lie, in voxels: headers store rounded
#: numbers.
TOLERANCE_VOXELS = 0.05

#: By how much of its size a number is off that is stored in single precision, and a little more.
_SINGLE_PRECISION = 1e-7

IntegerArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Grid:
    """The voxel grid of an image."""

    shape: tuple[int, ...]  # voxels (z, y, x)
    #: Voxel index (x, y, z, 1) to position in mm, towards left, posterior, superior (DICOM's and
    #: ITK's axes), as a matrix of 4 x 4. None for formats that do not store one, such as PNG.
    affine: FloatArray | None = None
    #: Voxel size (z, y, x), mm, where the header says it apart from the affine.
    voxel_size: tuple[float, float, float] | None = None
    #: The affine by the rule of another reader, where that differs; see `Reader`.
    other_affine: FloatArray | None = None
    #: Whether the affine is that of another reader, since the one that was asked for refuses it.
    is_by_other_rule: bool = False

    @cached_property
    def spacing(self) -> tuple[float, float, float]:
        """Voxel size (z, y, x), mm; 1 where the format stores none.

        It is the one that was meant, see `_meant_length`.
        """
        if self.voxel_size is not None:
            z, y, x = self.voxel_size
        elif self.affine is not None:
            x, y, z = side_lengths(self.affine).tolist()
        else:
            return (1.0, 1.0, 1.0)
        return (_meant_length(z), _meant_length(y), _meant_length(x))

    @cached_property
    def voxel_ml(self) -> float:
        """Volume of a voxel, millilitres; NaN where the format stores no voxel size.

        Where the sides are at no right angles, it is smaller than the product of their lengths, by
        the determinant of their directions.
        """
        if self.affine is None:
            return float("nan")

        directions = self.affine[:3, :3] / side_lengths(self.affine)
        voxel_mm3 = abs(float(np.linalg.det(directions))) * float(np.prod(self.spacing))
        return voxel_mm3 / 1000

    @property
    def volume_of_voxel(self) -> float:
        """The unit of volumes.

        That is the volume of a voxel in millilitres, or 1 (a pixel) where the format stores no
        voxel size.
        """
        if self.affine is None:
            return 1.0
        return self.voxel_ml

    @property
    def diagonal_mm(self) -> float:
        """Length of the diagonal between the centres of the corner voxels, mm.

        No two voxels lie farther apart.
        """
        n_steps = np.array(self.shape) - 1
        sides = n_steps * np.array(self.spacing)
        return float(np.linalg.norm(sides))

    @property
    def flat(self) -> tuple[int, ...]:
        """The axes along which distances are not measured.

        An axis of length 1 in the image (not in a box) is not counted as an axis, for otherwise a
        label one slice thick would be border all over. An image of one voxel keeps one axis.
        """
        axes = [axis for axis, length in enumerate(self.shape) if length == 1]
        return tuple(axes[:2])


def _meant_length(length: float) -> float:
    """A length in six digits, where single precision tells it from no other such length.

    Headers store 0.3 mm as 0.30000001, so that a distance of ten voxels would be more than 3 mm.
    """
    meant = float(f"{length:.6g}")
    return meant if math.isclose(length, meant, rel_tol=_SINGLE_PRECISION) else length


def onto(values: IntegerArray, grid: Grid, reference: Grid) -> IntegerArray:
    """The voxels of a map in the order of a reference that covers the same physical grid.

    A map that is stored flipped, or with its axes in another order, is turned; nothing is
    interpolated. Where one of the two grids stores no position, the shapes alone must agree. Where
    the two agree only by the rule of another reader, that rule holds.

    Raises:
        ValueError: If the grids differ. The message names the first of shape, spacing, direction
            and origin that does.
    """
    turn = _turn(grid, reference)
    if turn is None:
        turn = _turn(_by_other_rule(grid), _by_other_rule(reference))
    if turn is None:
        raise ValueError(f"`prediction` must have the reference's {what_differs(grid, reference)}.")
    return _turned(values, turn)


class Rules(str, Enum):
    """How the two rules for the headers of NIfTI files place a pair of maps, where it matters."""

    ONLY_OTHER = "only other"  # they fit by the other rule alone
    DIFFER = "differ"  # they fit by both rules, but other voxels lie on each other


def rules_of_pair(grid: Grid, reference: Grid) -> Rules | None:
    """What the rules for the headers of a pair say; None where they agree or nothing fits."""
    if grid.is_by_other_rule or reference.is_by_other_rule:
        return Rules.ONLY_OTHER
    if grid.other_affine is None and reference.other_affine is None:
        return None

    turn = _turn(grid, reference)
    other_turn = _turn(_by_other_rule(grid), _by_other_rule(reference))
    if other_turn is None:
        return None
    if turn is None:
        return Rules.ONLY_OTHER
    return None if np.array_equal(turn, other_turn) else Rules.DIFFER


def _by_other_rule(grid: Grid) -> Grid:
    if grid.other_affine is None:
        return grid
    return replace(grid, affine=grid.other_affine, other_affine=None)


def _turn(grid: Grid, reference: Grid) -> FloatArray | None:
    """The permutation of axes (x, y, z) with signs from one grid to another; None for none.

    Where one of the two stores no position, nothing is turned.
    """
    if grid.affine is None or reference.affine is None:
        return np.eye(3) if grid.shape == reference.shape else None
    # From voxel indices of the map to those of the reference, both (x, y, z).
    mapping: npt.NDArray[Any] = np.linalg.solve(reference.affine, grid.affine)
    if not _permutes_voxels(mapping, grid.shape, reference.shape):
        return None
    return np.rint(mapping[:3, :3])


def side_lengths(affine: FloatArray) -> FloatArray:
    """Length of the sides (x, y, z) of a voxel, mm."""
    return np.linalg.norm(affine[:3, :3], axis=0)


def _permutes_voxels(
    mapping: FloatArray, shape: tuple[int, ...], reference_shape: tuple[int, ...]
) -> bool:
    """Whether a mapping of voxel indices (x, y, z, 1) takes one grid to the whole of another.

    Then it is a permutation of the axes with signs, and its corners are those of the other grid.
    Rounding may move no voxel by more than `TOLERANCE_VOXELS`; the farthest corner moves the most.
    """
    linear = mapping[:3, :3]
    offset = mapping[:3, 3]
    turn = np.rint(linear)
    shift = np.rint(offset)
    far_corner = np.array(shape[::-1]) - 1

    drift_along_axes = np.abs(linear - turn) * far_corner
    drift = drift_along_axes.sum(axis=1) + np.abs(offset - shift)
    if (drift > TOLERANCE_VOXELS).any():
        return False

    # Every axis has to come from one axis, and to go to one.
    n_sources = np.abs(turn).sum(axis=1)
    n_targets = np.abs(turn).sum(axis=0)
    if (n_sources != 1).any() or (n_targets != 1).any():
        return False

    # An axis that is flipped ends at the first corner.
    first = shift
    last = turn @ far_corner + shift
    reference_far_corner = np.array(reference_shape[::-1]) - 1

    begins_there = np.minimum(first, last) == 0
    ends_there = np.maximum(first, last) == reference_far_corner
    return bool(begins_there.all() and ends_there.all())


def _turned(values: IntegerArray, turn: FloatArray) -> IntegerArray:
    """Voxels (z, y, x) whose axes are permuted and flipped; a view, no copy.

    ``turn`` has one entry of 1 or -1 in every row and column, and axes in the order (x, y, z).
    """
    order = []
    flips = []
    for axis in (2, 1, 0):
        (source,) = np.flatnonzero(turn[axis]).tolist()
        step = int(turn[axis, source])
        order.append(2 - source)
        flips.append(slice(None, None, step))

    permuted = values.transpose(order)
    return permuted[tuple(flips)]


def what_differs(grid: Grid, reference: Grid) -> str:
    """The first difference of two grids, as ``shape (of the reference), got (of the grid)``."""
    if grid.shape != reference.shape:
        return _difference("shape", grid.shape[::-1], reference.shape[::-1])

    # A grid without a position differs by its shape alone.
    assert grid.affine is not None
    assert reference.affine is not None
    longest = np.max(grid.shape)

    spacing = side_lengths(grid.affine)
    reference_spacing = side_lengths(reference.affine)
    drift = np.abs(spacing / reference_spacing - 1) * longest
    if (drift > TOLERANCE_VOXELS).any():
        return _difference("spacing", spacing, reference_spacing)

    directions = grid.affine[:3, :3] / spacing
    reference_directions = reference.affine[:3, :3] / reference_spacing
    drift = np.abs(directions - reference_directions) * longest
    if (drift > TOLERANCE_VOXELS).any():
        return _difference("direction", directions.T.ravel(), reference_directions.T.ravel())

    origin = grid.affine[:3, 3]
    return _difference("origin", origin, reference.affine[:3, 3])


def _difference(what: str, got: Iterable[float], expected: Iterable[float]) -> str:
    """What differs, in words; numbers are along (x, y, z), as viewers show them."""
    return f"{what} {_in_brackets(expected)}, got {_in_brackets(got)}"


def _in_brackets(numbers: Iterable[float]) -> str:
    texts = [f"{float(number):.6g}" for number in numbers]
    return f"({', '.join(texts)})"
