"""Where the voxels of a label map lie, and how to bring one map onto the grid of another."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

#: How far apart the corners of two maps on one grid may lie, in voxels: headers store rounded
#: numbers.
TOLERANCE_VOXELS = 0.05

FloatArray = npt.NDArray[np.float64]
IntegerArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Grid:
    """The voxel grid of an image."""

    shape: tuple[int, ...]  # voxels (z, y, x)
    #: Voxel index (x, y, z, 1) to position in mm, towards left, posterior, superior (DICOM's and
    #: ITK's axes), as a matrix of 4 x 4. None for formats that do not store one, such as PNG.
    affine: FloatArray | None = None

    @property
    def spacing(self) -> tuple[float, float, float]:
        """Voxel size (z, y, x), mm; 1 where the format stores none."""
        if self.affine is None:
            return (1.0, 1.0, 1.0)
        x, y, z = (float(length) for length in np.linalg.norm(self.affine[:3, :3], axis=0))
        return (z, y, x)

    @property
    def voxel_ml(self) -> float:
        """Volume of a voxel, millilitres; NaN where the format stores no voxel size."""
        return float("nan") if self.affine is None else float(np.prod(self.spacing)) / 1000

    @property
    def volume_of_voxel(self) -> float:
        """The unit of volumes: that of a voxel in millilitres, or 1 (a pixel) where the format stores no voxel size."""
        return 1.0 if self.affine is None else self.voxel_ml

    @property
    def diagonal_mm(self) -> float:
        """Length of the diagonal between the centres of the corner voxels, mm.

        No two lie farther apart.
        """
        return float(np.linalg.norm((np.array(self.shape) - 1) * np.array(self.spacing)))

    @property
    def flat(self) -> tuple[int, ...]:
        """The axes along which distances are not measured.

        An axis of length 1 in the image (not in a box) is not counted as an axis, for otherwise a
        label one slice thick would be border all over. An image of one voxel keeps one axis.
        """
        return tuple(axis for axis, n in enumerate(self.shape) if n == 1)[:2]


def onto(values: IntegerArray, grid: Grid, reference: Grid) -> IntegerArray:
    """The voxels of a map in the order of a reference on the same physical grid.

    Turned, never interpolated.
    """
    if grid.affine is None or reference.affine is None:
        if grid.shape != reference.shape:
            raise ValueError(_difference("shape", grid.shape[::-1], reference.shape[::-1]))
        return values
    if grid.shape == reference.shape and np.array_equal(grid.affine, reference.affine):
        return values
    # Prediction's voxel indices to the reference's, both (x, y, z).
    mapping = np.linalg.solve(reference.affine, grid.affine)
    turn = np.rint(mapping[:3, :3])
    shift = np.rint(mapping[:3, 3])
    far_corner = np.array(grid.shape[::-1]) - 1
    drift = (np.abs(mapping[:3, :3] - turn) * far_corner).sum(axis=1) + np.abs(
        mapping[:3, 3] - shift
    )
    axes_match = (np.abs(turn).sum(axis=0) == 1).all() and (np.abs(turn).sum(axis=1) == 1).all()
    first = shift
    last = turn @ far_corner + shift
    size = np.array(reference.shape[::-1])
    if (
        not axes_match
        or (drift > TOLERANCE_VOXELS).any()
        or (np.minimum(first, last) != 0).any()
        or (np.maximum(first, last) != size - 1).any()
    ):
        raise ValueError(_what_differs(grid.shape, grid.affine, reference.shape, reference.affine))
    source = [int(np.flatnonzero(turn[axis])[0]) for axis in range(3)]
    turned = values.transpose([2 - source[2 - axis] for axis in range(3)])
    # Arrays are (z, y, x), affines (x, y, z).
    flips = tuple(
        slice(None, None, -1) if turn[2 - axis, source[2 - axis]] < 0 else slice(None)
        for axis in range(3)
    )
    return turned[flips]


def _what_differs(
    shape: tuple[int, ...],
    affine: FloatArray,
    reference_shape: tuple[int, ...],
    reference_affine: FloatArray,
) -> str:
    if shape != reference_shape:
        return _difference("shape", shape[::-1], reference_shape[::-1])
    spacing, reference_spacing = (
        np.linalg.norm(a[:3, :3], axis=0) for a in (affine, reference_affine)
    )
    directions = affine[:3, :3] / spacing
    reference_directions = reference_affine[:3, :3] / reference_spacing
    far = np.max(shape)
    if (np.abs(spacing / reference_spacing - 1) * far > TOLERANCE_VOXELS).any():
        return _difference("spacing", spacing, reference_spacing)
    if (np.abs(directions - reference_directions) * far > TOLERANCE_VOXELS).any():
        return _difference("direction", directions.T.ravel(), reference_directions.T.ravel())
    return _difference("origin", affine[:3, 3], reference_affine[:3, 3])


def _difference(what: str, got: Any, expected: Any) -> str:
    """One sentence; numbers along (x, y, z), as viewers show them."""
    texts = [
        "(" + ", ".join(f"{float(n):.6g}" for n in numbers) + ")" for numbers in (got, expected)
    ]
    return f"`prediction` must have the reference's {what} {texts[1]}, got {texts[0]}."
