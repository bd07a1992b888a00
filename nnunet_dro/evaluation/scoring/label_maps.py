"""Label maps in files: listing them and reading them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import FloatArray, Grid, IntegerArray
from nnunet_dro.evaluation.scoring.nifti import UnusualNiftiError, read_nifti
from nnunet_dro.files.json_file import read_json

#: The endings of the formats that nnU-Net reads; the first that fits a file's name is cut off to name the case.
LABEL_MAP_ENDINGS = (".nii.gz", ".nii", ".nrrd", ".mha", ".png", ".bmp", ".tiff", ".tif")

#: The largest distance of a stored value from an integer: scaled integers can read back as 3.00000006.
INTEGER_TOLERANCE = 1e-3

#: The largest value that floating-point numbers hold exactly; no label map has more labels.
_LARGEST = 2.0**53

#: Formats that store no position in space; their resolution tags are no voxel size, whatever libraries make of them.
_PICTURES = (".png", ".bmp", ".tiff", ".tif")


@dataclass(frozen=True, eq=False)
class LabelMap:
    """A label map.

    Attributes:
        values: Label values (z, y, x); a plane has one z.
        grid: Where its voxels lie.
    """

    values: IntegerArray
    grid: Grid


def read_label_map(path: Path) -> LabelMap:
    """Read a label map in any format nnU-Net reads.

    Args:
        path: The file. The voxel size of a TIFF file is read from the JSON file that nnU-Net expects beside it.

    Returns:
        The label map.

    Raises:
        FileNotFoundError: If there is no such file.
        PermissionError: If it is not readable.
        ValueError: If it cannot be read, has several channels or volumes, or holds values that are not integers. The
            message names the file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"`path` must be a label map, got {str(path)!r}. Check the folder and the case's name.")
    nifti = None
    try:
        if path.name.lower().endswith((".nii.gz", ".nii")):
            nifti = read_nifti(path)
        else:
            with path.open("rb"):
                pass
    except UnusualNiftiError:
        pass
    except PermissionError as error:
        raise PermissionError(f"`path` must be readable, got {str(path)!r}. Change the file's permissions.") from error
    except ValueError as error:
        cure = "Write it again, as one volume of label values."
        raise ValueError(f"`path` must be a whole label map, got {str(path)!r}: {error}. {cure}") from error
    if nifti is None:
        return _read_with_itk(path)
    voxels, grid = nifti
    return LabelMap(_as_integers(voxels, path), grid)


def _read_with_itk(path: Path) -> LabelMap:
    import SimpleITK

    # The error says in one line what is wrong.
    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    try:
        image = SimpleITK.ReadImage(str(path))
    except RuntimeError as error:
        cure = "Write it again."
        raise ValueError(f"`path` must be a readable label map, got {str(path)!r}, which is not. {cure}") from error
    values: npt.NDArray[Any] = SimpleITK.GetArrayFromImage(image)
    if image.GetNumberOfComponentsPerPixel() > 1:
        # Grey values stored as colours are the same in each channel, as in all BMP files that ITK reads.
        if (values != values[..., :1]).any():
            raise ValueError(f"`path` must have one channel, got {str(path)!r}. Store label values, not colours.")
        values = np.ascontiguousarray(values[..., 0])
    while values.ndim > 3 and values.shape[0] == 1:
        values = values[0]
    if values.ndim > 3:
        sizes = ", ".join(map(str, image.GetSize()))
        raise ValueError(f"`path` must hold one volume, got {values.ndim} axes ({sizes}) in {str(path)!r}. Split it.")
    values = values.reshape((1,) * (3 - values.ndim) + values.shape)
    shape: tuple[int, ...] = values.shape
    return LabelMap(_as_integers(values, path), Grid(shape, _affine(image, path)))


def _affine(image: Any, path: Path) -> FloatArray | None:
    if path.suffix.lower() in _PICTURES:
        return _affine_beside(path)
    n_axes = min(image.GetDimension(), 3)
    direction = np.reshape(image.GetDirection(), (image.GetDimension(),) * 2)[:n_axes, :n_axes]
    affine = np.eye(4)
    affine[:n_axes, :n_axes] = direction * np.array(image.GetSpacing()[:n_axes])
    affine[:n_axes, 3] = image.GetOrigin()[:n_axes]
    return affine


def _affine_beside(path: Path) -> FloatArray | None:
    """The voxel size (z, y, x) from the JSON file that nnU-Net expects beside a 3-D TIFF file."""
    beside = path.with_suffix(".json")
    if path.suffix.lower() not in (".tif", ".tiff") or not beside.is_file():
        return None
    try:
        z, y, x = (float(length) for length in read_json(beside)["spacing"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"`spacing` must be three lengths, got others in {str(beside)!r}. Correct it.") from error
    return np.diag([x, y, z, 1.0])


def _as_integers(values: npt.NDArray[Any], path: Path) -> IntegerArray:
    if np.issubdtype(values.dtype, np.integer):
        return values
    rounded: npt.NDArray[Any] = np.rint(values)
    with np.errstate(invalid="ignore"):
        wrong = ~((np.abs(values - rounded) <= INTEGER_TOLERANCE) & (np.abs(values) <= _LARGEST))
    if wrong.any():
        example = float(values[wrong][0])
        cure = "Store label values, and resample them by nearest neighbour."
        raise ValueError(f"`path` must hold integers, got {example:g} in {str(path)!r}. {cure}")
    return rounded.astype(np.int64)


def list_label_maps(folder: Path) -> dict[str, Path]:
    """Case identifier to file, for the label maps directly in a folder, sorted by case."""
    if not folder.is_dir():
        raise FileNotFoundError(f"`folder` must be a folder of label maps, got {str(folder)!r}. Check the path.")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        ending = next((e for e in LABEL_MAP_ENDINGS if path.name.lower().endswith(e)), None)
        if ending is None or path.name.startswith("."):
            continue
        case = path.name[: -len(ending)]
        if case in files:
            names = f"{files[case].name} and {path.name}"
            raise ValueError(f"`folder` must hold one file per case, got {names} in {str(folder)!r}. Remove one.")
        files[case] = path
    if not files:
        endings = ", ".join(LABEL_MAP_ENDINGS)
        raise FileNotFoundError(
            f"`folder` must hold label maps ({endings}), got none in {str(folder)!r}. Check the path."
        )
    return files
