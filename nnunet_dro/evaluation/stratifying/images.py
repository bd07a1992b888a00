"""Images: reading them, laying them on a reference's grid, and turning them so that up is superior."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import Grid, onto
from nnunet_dro.evaluation.scoring.itk import PICTURES, itk_affine
from nnunet_dro.evaluation.scoring.label_maps import LABEL_MAP_ENDINGS

PLANES = (
    "axial",
    "coronal",
    "sagittal",
)  # Plane across each anatomical axis: superior, posterior, left.


@dataclass(frozen=True)
class Orientation:
    """The ``order`` of axes, and which are ``flipped``, that turns an array superior, posterior and left."""

    order: tuple[int, int, int] = (0, 1, 2)
    flipped: tuple[bool, bool, bool] = (False, False, False)

    @classmethod
    def of(cls, grid: Grid) -> "Orientation":
        """From a grid; images of one plane, and those that store no position, stay as they are."""
        if grid.affine is None or grid.shape[0] == 1:
            return cls()
        direction = grid.affine[:3, :3] / np.linalg.norm(grid.affine[:3, :3], axis=0)
        remaining = [0, 1, 2]
        order = []
        flipped = []
        for anatomical in (2, 1, 0):
            column = max(remaining, key=lambda c: abs(direction[anatomical, c]))
            remaining.remove(column)
            order.append(2 - column)
            flipped.append(bool(direction[anatomical, column] < 0))
        return cls((order[0], order[1], order[2]), (flipped[0], flipped[1], flipped[2]))

    def apply(self, volume: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn an array (z, y, x) to (superior, posterior, left); a view, no copy."""
        turned = volume.transpose(self.order)
        return turned[tuple(slice(None, None, -1 if flip else 1) for flip in self.flipped)]

    def spacing(self, spacing: Sequence[float]) -> tuple[float, ...]:
        """The voxel size in the order of the turned axes."""
        return tuple(float(spacing[axis]) for axis in self.order)


def read_image(path: Path) -> tuple[npt.NDArray[np.float64], Grid]:
    """Read an image in any format nnU-Net reads."""
    import SimpleITK

    try:
        image = SimpleITK.ReadImage(str(path))
    except RuntimeError as error:
        raise ValueError(
            f"`images` must be readable images, got {str(path)!r}. Write it again."
        ) from error
    values: npt.NDArray[Any] = SimpleITK.GetArrayFromImage(image)
    if image.GetNumberOfComponentsPerPixel() > 1:
        values = values.mean(axis=-1)
    if values.ndim not in (2, 3):
        raise ValueError(
            f"`images` must hold one volume each, got {values.ndim} axes in {str(path)!r}. Split it."
        )
    grey = np.nan_to_num(
        np.asarray(values if values.ndim == 3 else values[np.newaxis], dtype=np.float64)
    )
    return grey, Grid(grey.shape, None if path.suffix.lower() in PICTURES else itk_affine(image))


def first_file(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of some files that exists."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def find_image(images: Path, case: str) -> Path:
    """The image of a case: its first channel."""
    # In some datasets a two-dimensional colour image is one file without a channel number.
    names = (
        f"{case}{channel}{ending}" for ending in LABEL_MAP_ENDINGS for channel in ("_0000", "")
    )
    if path := first_file(images, names):
        return path
    cure = f"Name it {case}_0000.nii.gz, or leave the images out."
    raise FileNotFoundError(
        f"`images` must have an image for every case, got none for {case!r} in {str(images)!r}. {cure}"
    )


def find_channels(images: Path, case: str) -> list[Path]:
    """The images of a case: all its channels, in their order."""
    channels = [find_image(images, case)]
    while True:
        names = (f"{case}_{len(channels):04d}{ending}" for ending in LABEL_MAP_ENDINGS)
        following = first_file(images, names)
        if following is None:
            return channels
        channels.append(following)


def align(
    values: npt.NDArray[Any], grid: Grid, reference: Grid, path: Path, reference_path: Path
) -> npt.NDArray[Any]:
    """A volume in the order of the reference's voxels."""
    try:
        return onto(values, grid, reference)
    except ValueError as error:
        # Headers that differ a little are no reason to show nothing: nnU-Net, too, goes by the
        # voxels alone.
        if grid.shape == reference.shape:
            return values
        shapes = f"{grid.shape} in {str(path)!r} and {reference.shape} in {str(reference_path)!r}"
        cure = "Use the images that the label maps belong to."
        raise ValueError(
            f"`images` must have the shape of the label maps, got {shapes}. {cure}"
        ) from error
