"""Parallel slices in space, of which empty ones may be missing, and the grid that they are of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.grid import (
    TOLERANCE_VOXELS,
    Grid,
    IntegerArray,
    onto,
    side_lengths,
    what_differs,
)

#: How many steps there may be at most between the nearest two slices of a file that does not say
#: how far apart slices are.
_MOST_STEPS = 3

#: Positions that agree to this many decimals of a millimetre are one.
DECIMALS = 3


@dataclass(frozen=True, eq=False)
class SliceStack:
    """The slices that a segmentation stores; all others of its image are empty.

    Attributes:
        planes: Label values (slice, y, x), sorted along the normal of the slices.
        offsets_mm: Distance of each slice from the first along the normal, mm, shape (n_slices,).
        frame: Voxel index (x, y), mm along the normal, and 1, to position in mm, as a matrix of
            4 x 4; axes as in `Grid`.
        path: The file.
        step_mm: Distance of neighbouring slices of the image, mm; None if the file does not say it.
        thickness_mm: Thickness of a slice, mm; None if the file does not say it.
    """

    planes: IntegerArray
    offsets_mm: FloatArray
    frame: FloatArray
    path: Path
    step_mm: float | None = None
    thickness_mm: float | None = None

    @property
    def normal(self) -> FloatArray:
        """Unit vector across the slices."""
        return self.frame[:3, 2]

    @property
    def positions_mm(self) -> FloatArray:
        """Centre of the first voxel of each slice, mm, shape (n_slices, 3)."""
        return self.frame[:3, 3] + np.outer(self.offsets_mm, self.normal)


def laid_on(stack: SliceStack, grid: Grid) -> tuple[IntegerArray, Grid]:
    """The label map of some slices on the grid of another map or of the image.

    Slices of the grid that are not stored are empty.

    Returns:
        Label values (z, y, x) in the order of the grid; and the grid, where the slices fit only by
        the rule of another reader by that rule.

    Raises:
        ValueError: If the grid has no position, a labelled slice does not lie on one of the grid's,
            or the voxels within slices differ. The message names the file of the slices.
    """
    if grid.affine is None:
        raise InputError(
            "path",
            must="be compared with a map with a position",
            got=f"one without for {str(stack.path)!r}",
            cure="Store it as NIfTI.",
        )

    try:
        return _laid_on(stack, grid, grid.affine), grid
    except ValueError:
        if grid.other_affine is None:
            raise
        other = replace(grid, affine=grid.other_affine, other_affine=None)
        return _laid_on(stack, other, grid.other_affine), other


def _laid_on(stack: SliceStack, grid: Grid, affine: FloatArray) -> IntegerArray:
    """As `laid_on`, by one rule."""
    sides = side_lengths(affine)
    along_normal = stack.normal @ (affine[:3, :3] / sides)
    axis = int(np.abs(along_normal).argmax())
    step = float(sides[axis])
    n_slices = grid.shape[2 - axis]

    first = affine[:3, 3]
    last = first + (n_slices - 1) * affine[:3, axis]
    ends = (np.stack([first, last]) - stack.frame[:3, 3]) @ stack.normal

    values, filled = _filled(stack, float(ends.min()), step, n_slices)
    by_one_rule = replace(grid, other_affine=None)
    try:
        return onto(values, filled, by_one_rule)
    except ValueError as error:
        rule = f"must have the {what_differs(filled, by_one_rule)} in {str(stack.path)!r}"
        cure = "Use the segmentation of this image."
        raise ValueError(f"`path` {rule}. {cure}") from error


def common_grid(stacks: Sequence[SliceStack]) -> Grid:
    """The grid from the first to the last slice that some stacks store.

    It has the voxels of the first stack within slices, and slices where its normal points. The
    distance of neighbouring slices is the smallest of those of the stacks.

    Raises:
        ValueError: If nothing says how far apart the slices are, they are at no even distances, or
            those of one stack are between those of another. The message names a file.
    """
    first = stacks[0]
    offsets = np.concatenate(
        [(stack.positions_mm - first.frame[:3, 3]) @ first.normal for stack in stacks]
    )
    start = float(offsets.min())
    step = _common_step(stacks)
    if not _are_multiples(offsets - start, step):
        raise InputError(
            "path",
            must=f"have the slices of {str(first.path)!r}",
            got=f"others in {str(stacks[-1].path)!r}",
            cure="Use segmentations of one image.",
        )

    n_slices = 1 + round(float(offsets.max() - start) / step)
    return Grid((n_slices, *first.planes.shape[1:]), _affine(first, start, step))


def _common_step(stacks: Sequence[SliceStack]) -> float:
    """The distance of neighbouring slices of an image, mm, from some of its segmentations.

    Where each has a single slice and does not say it, that is the thickness of a slice.
    """
    steps = [_step(stack) for stack in stacks if stack.step_mm or len(stack.offsets_mm) > 1]
    step = min(steps, default=stacks[0].thickness_mm)
    if step:
        return step

    raise InputError(
        "path",
        must="say how far apart slices are",
        got=repr(str(stacks[0].path)),
        cure="Give the images with --images, or write Spacing Between Slices.",
    )


def _step(stack: SliceStack) -> float:
    """The distance of neighbouring slices of an image, mm.

    That is what the file says, if it fits; or else the shortest distance, or a half or a third of
    it, of which all others are multiples.
    """
    distances = stack.offsets_mm[1:] - stack.offsets_mm[0]
    if stack.step_mm and _are_multiples(distances, stack.step_mm):
        return stack.step_mm

    shortest = float(np.diff(distances, prepend=0.0).min())
    for n_steps in range(1, _MOST_STEPS + 1):
        # The farthest slice knows the step best.
        n_to_last = np.rint(distances[-1] * n_steps / shortest)
        step = float(distances[-1] / n_to_last)
        if _are_multiples(distances, step):
            return step
    raise InputError(
        "path",
        must="have slices at even distances",
        got=repr(str(stack.path)),
        cure="Give the images with --images, or convert it to NIfTI.",
    )


def _are_multiples(distances: FloatArray, step: float) -> bool:
    n_steps = distances / step
    return bool((np.abs(n_steps - np.rint(n_steps)) <= TOLERANCE_VOXELS).all())


def _filled(
    stack: SliceStack, start: float, step: float, n_slices: int
) -> tuple[IntegerArray, Grid]:
    """Slices among empty ones.

    Args:
        stack: The slices.
        start: Where the first of all slices is, mm along the normal.
        step: The distance of neighbouring slices, mm.
        n_slices: The number of all slices.
    """
    places = (stack.offsets_mm - start) / step
    nearest = np.clip(np.rint(places), 0, n_slices - 1).astype(np.intp)
    away = np.abs(places - nearest)
    is_labelled = stack.planes.any(axis=(1, 2))
    is_off = is_labelled & (away > TOLERANCE_VOXELS)
    if is_off.any():
        raise InputError(
            "path",
            must="have its slices on those of the grid",
            got=f"one {float(away[is_off].max()) * step:.3g} mm away in {str(stack.path)!r}",
            cure="Use the segmentation of this image.",
        )

    values = np.zeros((n_slices, *stack.planes.shape[1:]), stack.planes.dtype)
    values[nearest[is_labelled]] = stack.planes[is_labelled]
    return values, Grid(values.shape, _affine(stack, start, step))


def _affine(stack: SliceStack, start: float, step: float) -> FloatArray:
    """The affine of all slices, see `Grid`."""
    affine = stack.frame.copy()
    affine[:3, 2] = step * stack.normal
    affine[:3, 3] += start * stack.normal
    return affine
