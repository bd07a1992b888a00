"""Images: reading them, laying them on a reference's grid, and turning them upright."""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.bad_input import InputError, bad_input
from nnunet_dro.evaluation.scoring.dicom_series import read_series
from nnunet_dro.evaluation.scoring.grid import Grid, Rules, onto, rules_of_pair
from nnunet_dro.evaluation.scoring.itk import itk_affine, itk_image
from nnunet_dro.evaluation.scoring.label_maps import LABEL_MAP_ENDINGS
from nnunet_dro.evaluation.scoring.nifti import NIFTI_ENDINGS, UnusualNiftiError, read_nifti
from nnunet_dro.evaluation.scoring.pictures import PICTURE_ENDINGS, read_picture
from nnunet_dro.evaluation.scoring.readers import Reader
from nnunet_dro.evaluation.scoring.tiff import TIFF_ENDINGS, read_tiff
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.folders import read_if_usable

#: Plane across each anatomical axis: superior, posterior, left.
PLANES = ("axial", "coronal", "sagittal")


@dataclass(frozen=True)
class Orientation:
    """How to turn an array so that its axes point superior, posterior and left.

    It is the nearest to that which needs no resampling. ``order`` is the array axis that becomes
    each of the three, ``flipped`` whether it is reversed then.
    """

    order: tuple[int, int, int] = (0, 1, 2)
    flipped: tuple[bool, bool, bool] = (False, False, False)

    @classmethod
    def of(cls, grid: Grid) -> "Orientation":
        """From a grid; images of one plane, and those that store no position, stay as they are."""
        if grid.affine is None or grid.shape[0] == 1:
            return cls()

        sides = grid.affine[:3, :3]
        direction = sides / np.linalg.norm(sides, axis=0)
        remaining = [0, 1, 2]
        order = []
        flipped = []
        # Rows and columns of the direction are (x, y, z), axes of the array (z, y, x).
        for row in (2, 1, 0):
            column = max(remaining, key=lambda c: abs(direction[row, c]))
            remaining.remove(column)
            order.append(2 - column)
            flipped.append(bool(direction[row, column] < 0))
        return cls(
            order=(order[0], order[1], order[2]),
            flipped=(flipped[0], flipped[1], flipped[2]),
        )

    def apply(self, volume: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Turn an array (z, y, x) to (superior, posterior, left); a view, no copy."""
        turned = volume.transpose(self.order)
        steps = [slice(None, None, -1 if flip else 1) for flip in self.flipped]
        return turned[tuple(steps)]

    def spacing(self, spacing: Sequence[float]) -> tuple[float, ...]:
        """The voxel size in the order of the turned axes."""
        return tuple(float(spacing[axis]) for axis in self.order)


def read_image(path: Path, reader: Reader | None = None) -> tuple[npt.NDArray[np.float64], Grid]:
    """Read an image in any format nnU-Net reads, or a DICOM series; of colours the mean.

    Values that are not finite become 0, as for a picture.

    Args:
        path: The file, or the folder of the series.
        reader: As for `read_label_map`.
    """
    colours, grid = read_colours(path, reader)
    return np.nan_to_num(grey_of(colours), posinf=0.0, neginf=0.0), grid


def read_colours(path: Path, reader: Reader | None = None) -> tuple[npt.NDArray[Any], Grid]:
    """The values (colours, z, y, x) of an image; see `read_image`.

    What has no colours counts as one.
    """
    if path.is_dir():
        values, grid = read_series(path)
    else:
        try:
            values, grid = _read_voxels(path, reader)
        except ValueError as error:
            raise InputError(
                "images",
                must="be readable images",
                got=f"{str(path)!r}: {error}",
                cure="Write it again.",
            ) from error

    if values.ndim > 3:
        return np.moveaxis(values, -1, 0), grid
    return values[np.newaxis], grid


def grey_of(colours: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """The mean of the colours of an image, shape (z, y, x)."""
    return np.asarray(colours.mean(axis=0), dtype=np.float64)


def _read_voxels(path: Path, reader: Reader | None) -> tuple[npt.NDArray[Any], Grid]:
    """The values (z, y, x) of an image, with a fourth axis for colours, and its grid."""
    name = path.name.lower()
    if name.endswith(TIFF_ENDINGS):
        values = read_tiff(path, is_volume=_has_voxel_size(path))
        return values, Grid(values.shape[:3])
    if name.endswith(PICTURE_ENDINGS):
        values = read_picture(path)
        return values, Grid(values.shape[:3])
    if not name.endswith(NIFTI_ENDINGS):
        return _read_with_itk(path)

    try:
        return read_nifti(path, reader)
    except UnusualNiftiError:
        return _read_with_itk(path)


def _has_voxel_size(path: Path) -> bool:
    """Whether nnU-Net's reader of TIFF volumes has the voxel size of an image: in CASE.json."""
    case = re.sub(r"_\d{4}$", "", path.stem, flags=re.ASCII)
    beside = read_if_usable(path.with_name(f"{case}.json")) or {}
    return "spacing" in beside


def _read_with_itk(path: Path) -> tuple[npt.NDArray[Any], Grid]:
    """The same with SimpleITK."""
    import SimpleITK

    image = itk_image(path)
    values: npt.NDArray[Any] = SimpleITK.GetArrayFromImage(image)
    n_axes = image.GetDimension()
    if n_axes not in (2, 3):
        raise ValueError(f"it has {n_axes} axes instead of one volume")
    if n_axes == 2:
        values = values[np.newaxis]
    return values, Grid(values.shape[:3], itk_affine(image))


def read_onto(
    path: Path, grid: Grid, reference: Path, reader: Reader | None
) -> npt.NDArray[np.float64]:
    """An image in the order of the voxels of a reference.

    A warning is logged where the two fit only by the rule of another reader, which then holds.

    Args:
        path: As for `read_image`.
        grid: Where the voxels of the reference lie.
        reference: Its file.
        reader: As for `read_label_map`.
    """
    values, grid_of_image = read_image(path, reader)
    if rules_of_pair(grid_of_image, grid) is Rules.ONLY_OTHER:
        logging.getLogger(__name__).warning(note_on_other_rule([path.name]))
    return align(
        values,
        grid_of_image,
        grid,
        path,
        reference,
    )


def note_on_other_rule(names: Sequence[str]) -> str:
    """A sentence on images that fit their label maps only by the rule of another reader."""
    return (
        "Image and label map fit only where the headers of both are read as the other of ITK and "
        f"nibabel reads them, which was done: {name_some(names)}. Their sform and their qform or "
        "voxel size differ."
    )


def first_file(folder: Path, names: Iterable[str]) -> Path | None:
    """The first of some files that exists."""
    paths = (folder / name for name in names)
    return next(filter(Path.is_file, paths), None)


def find_image(images: Path, case: str) -> Path:
    """The image of a case: its first channel, or the folder of its DICOM series."""
    names = []
    for ending in LABEL_MAP_ENDINGS:
        # In some datasets a two-dimensional colour image is one file without a channel number.
        names += [f"{case}_0000{ending}", f"{case}{ending}"]
    path = first_file(images, names)
    if path is not None:
        return path
    series = images / case
    if series.is_dir():
        return series

    raise FileNotFoundError(
        bad_input(
            "images",
            must="have an image for every case",
            got=f"none for {case!r} in {str(images)!r}",
            cure=f"Name it {case}_0000.nii.gz, or leave the images out.",
        )
    )


def find_channels(images: Path, case: str) -> list[Path]:
    """The images of a case: all its channels, in their order.

    An image without a channel number is the only one: A_0001.png is of another case than A.png.
    """
    channels = [find_image(images, case)]
    while channels[-1].name.startswith(f"{case}_{len(channels) - 1:04d}."):
        stem = f"{case}_{len(channels):04d}"
        following = first_file(images, (f"{stem}{ending}" for ending in LABEL_MAP_ENDINGS))
        if following is None:
            break
        channels.append(following)
    return channels


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

        raise InputError(
            "images",
            must="have the shape of the label maps",
            got=(f"{grid.shape} in {str(path)!r} and {reference.shape} in {str(reference_path)!r}"),
            cure="Use the images that the label maps belong to.",
        ) from error
