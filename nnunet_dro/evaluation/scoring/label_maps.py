"""Label maps of cases, and the labels in them."""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import FloatArray, Grid, IntegerArray
from nnunet_dro.evaluation.scoring.nifti import UnusualNiftiError, read_nifti
from nnunet_dro.files.json_file import read_json
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import read_dataset_json

#: The endings of the formats that nnU-Net reads; the first that fits a file's name is cut off to
#: name the case.
LABEL_MAP_ENDINGS = (".nii.gz", ".nii", ".nrrd", ".mha", ".png", ".bmp", ".tiff", ".tif")

#: The largest distance of a stored value from an integer: scaled integers can read back as
#: 3.00000006.
INTEGER_TOLERANCE = 1e-3

_LARGEST = (
    2.0**53
)  # The largest value that floating-point numbers hold exactly; no label map has more labels.

#: Formats that store no position in space; their resolution tags are no voxel size, whatever
#: libraries make of them.
PICTURES = (".png", ".bmp", ".tiff", ".tif")


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
        path: The file. The voxel size of a TIFF file is read from the JSON file that nnU-Net
            expects beside it.

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
    if not path.name.lower().endswith((".nii.gz", ".nii")):
        return _read_with_itk(path)
    try:
        voxels, grid = read_nifti(path)
    except UnusualNiftiError:
        return _read_with_itk(path)
    except ValueError as error:
        cure = "Write it again, as one volume of label values."
        raise ValueError(
            f"`path` must be a whole label map, got {str(path)!r}: {error}. {cure}"
        ) from error
    return LabelMap(_as_integers(voxels, path), grid)


def _read_with_itk(path: Path) -> LabelMap:
    import SimpleITK

    # The error says in one line what is wrong.
    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    try:
        image = SimpleITK.ReadImage(str(path))
    except RuntimeError as error:
        cure = "Write it again."
        raise ValueError(
            f"`path` must be a readable label map, got {str(path)!r}, which is not. {cure}"
        ) from error
    values: npt.NDArray[Any] = SimpleITK.GetArrayFromImage(image)
    is_coloured = image.GetNumberOfComponentsPerPixel() > 1
    if path.suffix.lower() in PICTURES and (one := _one_of_bits(path)) is not None:
        values = ((values[..., 0] if is_coloured else values) == one).astype(np.uint8)
    elif is_coloured:
        # Grey values stored as colours are the same in each channel, as in all BMP files that ITK
        # reads.
        if (values != values[..., :1]).any():
            raise ValueError(
                f"`path` must have one channel, got {str(path)!r}. Store label values, not colours."
            )
        values = np.ascontiguousarray(values[..., 0])
    while values.ndim > 3 and values.shape[0] == 1:
        values = values[0]
    if values.ndim > 3:
        sizes = ", ".join(map(str, image.GetSize()))
        raise ValueError(
            f"`path` must hold one volume, got {values.ndim} axes ({sizes}) in {str(path)!r}. Split it."
        )
    values = values.reshape((1,) * (3 - values.ndim) + values.shape)
    shape: tuple[int, ...] = values.shape
    affine = _affine_beside(path) if path.suffix.lower() in PICTURES else itk_affine(image)
    return LabelMap(_as_integers(values, path), Grid(shape, affine))


def _one_of_bits(path: Path) -> int | None:
    """What ITK makes of the ones of a picture with a bit per pixel, or of its colours.

    None for other pictures.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on large ones
            with Image.open(path) as picture:
                is_inverted = (
                    getattr(picture, "tag_v2", {}).get(262) == 0
                )  # white stored as 0, in TIFF
                return (0 if is_inverted else 255) if picture.mode == "1" else None
    except (UnidentifiedImageError, Image.DecompressionBombError):  # ITK reads more than PIL
        return None


def itk_affine(image: Any) -> FloatArray:
    """The affine of SimpleITK's image, see `Grid`."""
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
        raise ValueError(
            f"`spacing` must be three lengths, got others in {str(beside)!r}. Correct it."
        ) from error
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


def case_named(file: str) -> str | None:
    """The case that the name of a file stands for, without the ending.

    None if it is no label map's.
    """
    ending = next((e for e in LABEL_MAP_ENDINGS if file.lower().endswith(e)), None)
    return file[: -len(ending)] if ending else None


def list_label_maps(folder: Path) -> dict[str, Path]:
    """Case identifier to file, for the label maps directly in a folder, sorted by case."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"`folder` must be a folder of label maps, got {str(folder)!r}. Check the path."
        )
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        case = case_named(path.name)
        if case is None or path.name.startswith("."):
            continue
        if case in files:
            names = f"{files[case].name} and {path.name}"
            raise ValueError(
                f"`folder` must hold one file per case, got {names} in {str(folder)!r}. Remove one."
            )
        files[case] = path
    if not files:
        endings = ", ".join(LABEL_MAP_ENDINGS)
        raise FileNotFoundError(
            f"`folder` must hold label maps ({endings}), got none in {str(folder)!r}. Check the path."
        )
    return files


# A label that this share of the cases have is usual; with fewer cases nobody can say.
_MOST = 0.8
_FEWEST = 5


@dataclass(frozen=True)
class Labels:
    """The foreground labels of a dataset and its ignore value.

    Attributes:
        values: Name to the label values it consists of; a region has several.
        ignore: Voxels with this reference value are left out of every count; None if there is no
            such value.

    Raises:
        ValueError: If there is no label, or one without values.
    """

    values: Mapping[str, tuple[int, ...]]
    ignore: int | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError(
                "`labels` must be at least one foreground label, got none. Name them in dataset.json."
            )
        for name, values in self.values.items():
            if not values:
                raise ValueError(
                    f"`labels` must be lists of values, got {values!r} for {name!r}. Give its values."
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
        values = {str(name): _label_values(str(name), value) for name, value in entries.items()}
        ignore = values.pop("ignore", None)
        foreground = {name: v for name, v in values.items() if name != "background" and v != (0,)}
        return cls(foreground, ignore=ignore[0] if ignore else None)

    @classmethod
    def of_values(cls, values: Collection[int]) -> "Labels | None":
        """One label for each value but 0, named by the value; None if there is none."""
        found = {str(value): (value,) for value in sorted({int(v) for v in values}) if value != 0}
        return cls(found) if found else None

    def n_voxels(self, label_map: npt.NDArray[np.integer[Any]]) -> dict[str, int]:
        """Number of voxels of each label or region."""
        return {name: int(np.isin(label_map, values).sum()) for name, values in self.values.items()}

    @property
    def known(self) -> frozenset[int]:
        """Every value that a reference may hold."""
        return frozenset(
            {0, *(v for values in self.values.values() for v in values)} | {self.ignore or 0}
        )


def note_on_absent_labels(
    n_voxels: Mapping[str, Mapping[str, float]],
    usual: Mapping[str, Mapping[str, float]] | None = None,
) -> list[str]:
    """A sentence on labels that some cases lack and most cases have."""
    judged = n_voxels if usual is None else usual
    if len(judged) < _FEWEST:
        return []
    found = []
    for label in next(iter(judged.values())):
        without = [case for case, of_case in n_voxels.items() if of_case[label] == 0]
        if without and sum(of_case[label] > 0 for of_case in judged.values()) >= _MOST * len(
            judged
        ):
            found.append(f"{label} in {count(len(without), 'case')} ({name_some(without)})")
    note = (
        f"Labels that most cases have are absent in some: {'; '.join(found)}. A structure that is there and not "
        "labelled makes a case look hard, and robust training draws it more often. Look at these label maps: annotate "
        "it, or mark where it may be with nnU-Net's ignore label."
    )
    return [note] if found else []


def _label_values(name: str, value: Any) -> tuple[int, ...]:
    values = value if isinstance(value, list | tuple) else (value,)
    try:
        integers = tuple(map(int, values))
        if any(isinstance(v, float) and not v.is_integer() for v in values):
            raise ValueError(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"`labels` must be integers, got {value!r} for {name!r}. Correct dataset.json."
        ) from error
    return integers


def read_labels(path: Path) -> Labels:
    """Labels of a dataset.json."""
    dataset = read_dataset_json(path)
    try:
        return Labels.from_dataset_json(dataset)
    except ValueError as error:
        raise ValueError(f"{error} The file is {str(path)!r}.") from error
