"""Label maps of cases, and the labels in them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.bad_input import InputError, check_folder
from nnunet_dro.evaluation.scoring.dicom import (
    DICOM_ENDING,
    is_dicom,
    read_segmentation,
)
from nnunet_dro.evaluation.scoring.dicom_series import read_series
from nnunet_dro.evaluation.scoring.grid import Grid, IntegerArray
from nnunet_dro.evaluation.scoring.itk import one_channel, read_with_itk
from nnunet_dro.evaluation.scoring.nifti import (
    NIFTI_ENDINGS,
    UnusualNiftiError,
    read_nifti,
    step_of_scaled,
)
from nnunet_dro.evaluation.scoring.pictures import PICTURE_ENDINGS, read_picture
from nnunet_dro.evaluation.scoring.readers import Reader, reader_named
from nnunet_dro.evaluation.scoring.slices import common_grid, laid_on
from nnunet_dro.evaluation.scoring.tiff import TIFF_ENDINGS, affine_beside, read_tiff
from nnunet_dro.nnunet.folders import read_dataset_json

#: The endings of the formats that nnU-Net reads; the first that fits a file's name is cut off to
#: name the case.
LABEL_MAP_ENDINGS = (
    ".nii.gz",
    ".nii",
    ".nrrd",
    ".mha",
    ".gipl",
    ".png",
    ".bmp",
    ".tiff",
    ".tif",
)

#: The largest distance of a stored value from an integer: scaled integers can read back as
#: 3.00000006.
INTEGER_TOLERANCE = 1e-3

#: The same where a header says how coarse the values are: at most half of their step, and this.
_COARSE_TOLERANCE = 0.1

#: The largest value up to which floating-point numbers hold every integer; no label map has more
#: labels.
_LARGEST = 2.0**53


@dataclass(frozen=True, eq=False)
class LabelMap:
    """A label map.

    Attributes:
        values: Label values (z, y, x); a plane has one z.
        grid: Where its voxels lie.
    """

    values: IntegerArray
    grid: Grid


def read_label_map(path: Path, reader: Reader | None = None) -> LabelMap:
    """Read a label map in any format nnU-Net reads, or a DICOM segmentation.

    Args:
        path: The file. The voxel size of a TIFF file is read from the JSON file that nnU-Net
            expects beside it. The values of a DICOM segmentation are the numbers of its segments,
            and its grid reaches from its first to its last slice; see `read_pair` for more.
        reader: The reader that the dataset names, by whose rule the voxels of a NIfTI file lie;
            None for the one that nnU-Net takes for the ending.

    Returns:
        The label map.

    Raises:
        FileNotFoundError: If there is no such file.
        PermissionError: If it is not readable.
        ValueError: If it cannot be read, has several channels or volumes, or holds values that are
            not integers. The message names the file.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"`path` must be a label map, got {str(path)!r}. Check the folder and the case's name."
        )
    try:
        path.open("rb").close()
    except PermissionError as error:
        raise PermissionError(
            f"`path` must be readable, got {str(path)!r}. Change the file's permissions."
        ) from error

    voxels, grid = _read_voxels(path, reader)
    return LabelMap(_as_integers(voxels, path), grid)


def _read_voxels(path: Path, reader: Reader | None) -> tuple[npt.NDArray[Any], Grid]:
    """The stored values, which may be of any type, and their grid."""
    name = path.name.lower()
    if is_dicom(path):
        stack = read_segmentation(path)
        return laid_on(stack, common_grid([stack]))
    if not name.endswith((*NIFTI_ENDINGS, *TIFF_ENDINGS, *PICTURE_ENDINGS)):
        return read_with_itk(path)

    affine = None
    if name.endswith(TIFF_ENDINGS):
        affine = affine_beside(path)
    try:
        if name.endswith(NIFTI_ENDINGS):
            return read_nifti(path, reader)
        if name.endswith(PICTURE_ENDINGS):
            voxels = read_picture(path)
        else:
            # Only volumes have a voxel size beside them, as nnU-Net's reader of volumes writes it.
            voxels = read_tiff(path, is_volume=affine is not None)
    except UnusualNiftiError:
        return read_with_itk(path)
    except ValueError as error:
        raise InputError(
            "path",
            must="be a whole label map",
            got=f"{str(path)!r}: {error}",
            cure="Write it again, as one volume of label values.",
        ) from error

    grid = Grid(voxels.shape[:3], affine)
    if voxels.ndim > 3:
        cure = "Store label values, not colours."
        if name.endswith(TIFF_ENDINGS):
            size = f"the voxel size in {path.stem}.json"
            cure = f"Store label values; of a volume of 3 columns, {size}."
        voxels = one_channel(voxels, path, cure=cure)
    return voxels, grid


def _as_integers(values: npt.NDArray[Any], path: Path) -> IntegerArray:
    """Values that are integers, but for the rounding of scaled ones, as integers."""
    if np.issubdtype(values.dtype, np.integer):
        return values

    if values.dtype == np.float16:
        # Half precision does not hold the largest label.
        values = values.astype(np.float32)
    rounded: npt.NDArray[Any] = np.rint(values)
    is_wrong = _are_no_integers(values, rounded, INTEGER_TOLERANCE)
    if not is_wrong.any():
        return rounded.astype(np.int64)

    cure = "Store label values, and resample them by nearest neighbour."
    step = step_of_scaled(path) if path.name.lower().endswith(NIFTI_ENDINGS) else 0.0
    if step > 0:
        tolerance = min(step / 2, _COARSE_TOLERANCE) + INTEGER_TOLERANCE
        is_wrong = _are_no_integers(values, rounded, tolerance)
        if not is_wrong.any():
            return rounded.astype(np.int64)
        cure = (
            f"The file holds integers that are scaled (scl_slope {step:g}): save an array of an "
            "integer type, with header.set_slope_inter(1, 0) in nibabel."
        )
    example = float(values[is_wrong][0])
    if not np.isfinite(example):
        cure = "Store label values, with 0 where no label is."
    raise ValueError(f"`path` must hold integers, got {example:g} in {str(path)!r}. {cure}")


def _are_no_integers(
    values: npt.NDArray[Any], rounded: npt.NDArray[Any], tolerance: float
) -> npt.NDArray[np.bool_]:
    """Where values are farther from integers than the tolerance, too large, or no numbers."""
    with np.errstate(invalid="ignore"):
        is_integer = np.abs(values - rounded) <= tolerance
        is_exact = np.abs(values) <= _LARGEST
    # NaN is neither.
    return ~(is_integer & is_exact)


def case_named(file: str) -> str | None:
    """The case that the name of a label map's file stands for, without the ending.

    None for the names of other files.
    """
    for ending in (*LABEL_MAP_ENDINGS, DICOM_ENDING):
        if file.lower().endswith(ending):
            return file[: -len(ending)]
    return None


def list_label_maps(folder: Path) -> dict[str, Path]:
    """Case identifier to file, for the label maps directly in a folder, sorted by case.

    Raises:
        FileNotFoundError: If there is no such folder, or no label map in it.
        ValueError: If two files stand for the same case.
    """
    check_folder("folder", folder, "Check the path.", must="be a folder of label maps")

    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        case = case_named(path.name)
        if case is None or path.name.startswith("."):
            continue
        if case in files:
            raise InputError(
                "folder",
                must="hold one file per case",
                got=f"{files[case].name} and {path.name} in {str(folder)!r}",
                cure="Remove one.",
            )
        files[case] = path

    if not files:
        endings = ", ".join([*LABEL_MAP_ENDINGS, DICOM_ENDING])
        raise FileNotFoundError(
            f"`folder` must hold label maps ({endings}), got none in {str(folder)!r}. Check the "
            "path."
        )
    return files


@dataclass(frozen=True)
class Labels:
    """The foreground labels of a dataset and its ignore value.

    Attributes:
        values: Name to the label values it consists of; a region has several.
        ignore: Voxels with this reference value are left out of every count; None if there is no
            such value.
        reader: The reader of nnU-Net that dataset.json names for the files, if any.
        are_segments: Whether they are the segments of DICOM references: then predicted segments
            with other names are left out.

    Raises:
        ValueError: If there is no label, or one without values, or the ignore value is another's.
    """

    values: Mapping[str, tuple[int, ...]]
    ignore: int | None = None
    reader: Reader | None = None
    are_segments: bool = False

    def __post_init__(self) -> None:
        if not self.values:
            raise InputError(
                "labels",
                must="be at least one foreground label",
                got="none",
                cure="Name them in dataset.json.",
            )
        for name, values in self.values.items():
            if not values or self.ignore in {0, *values}:
                raise InputError(
                    "labels",
                    must="be lists of values, and that of `ignore` neither 0 nor one of them",
                    got=f"{values!r} for {name!r} and {self.ignore} for 'ignore'",
                    cure="Correct it.",
                )

    @classmethod
    def from_dataset_json(cls, dataset: Mapping[str, Any]) -> "Labels":
        """Labels as nnU-Net's dataset.json says them, in the order of the file.

        Its ``labels`` map names to an integer, or to several for a region; ``background`` (or the
        value 0) is not a label, ``ignore`` is the ignore value.
        """
        entries = dataset.get("labels")
        if not isinstance(entries, Mapping):
            raise ValueError(
                f"`labels` in dataset.json must be a mapping of names, got {entries!r}. Add it."
            )

        foreground = {}
        ignore = None
        for key, entry in entries.items():
            name = str(key)
            values = _label_values(name, entry)
            if name == "ignore":
                (ignore,) = values
            elif name != "background" and set(values) != {0}:
                foreground[name] = values
        return cls(foreground, ignore=ignore, reader=reader_named(dataset))

    @classmethod
    def of_values(cls, values: Collection[int]) -> "Labels | None":
        """One label for each value but 0, named by the value; None if there is none."""
        foreground = sorted({int(value) for value in values} - {0})
        labels = {str(value): (value,) for value in foreground}
        return cls(labels) if labels else None

    def n_voxels(self, label_map: npt.NDArray[np.integer[Any]]) -> dict[str, int]:
        """Number of voxels of each label or region."""
        return {name: int(np.isin(label_map, values).sum()) for name, values in self.values.items()}

    @property
    def known(self) -> frozenset[int]:
        """Every value that a reference may hold."""
        values = {0}.union(*self.values.values())
        if self.ignore is not None:
            values.add(self.ignore)
        return frozenset(values)


def _label_values(name: str, entry: Any) -> tuple[int, ...]:
    """The values of a label in dataset.json, where one value stands without a list."""
    values = entry if isinstance(entry, list | tuple) else (entry,)
    try:
        integers = tuple(map(int, values))
        is_unclear = any(isinstance(value, float) and not value.is_integer() for value in values)
        if is_unclear or (name == "ignore" and len(integers) != 1):
            raise ValueError(entry)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"`labels` must be integers, of which `ignore` has one, got {entry!r} for {name!r}. "
            "Correct dataset.json."
        ) from error
    return integers


def read_labels(path: Path) -> Labels:
    """Labels of a dataset.json."""
    dataset = read_dataset_json(path)
    try:
        return Labels.from_dataset_json(dataset)
    except ValueError as error:
        raise ValueError(f"{error} The file is {str(path)!r}.") from error


def grid_of_image(image: Path | None, labels: Labels | None) -> Grid | None:
    """The grid of the image of a case: a file, or a folder with a DICOM series; None for none."""
    if image is None:
        return None
    if image.is_dir():
        return read_series(image)[1]
    return _read_voxels(image, labels.reader if labels else None)[1]
