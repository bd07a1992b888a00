"""Label maps and images in TIFF files, read with tifffile as nnU-Net reads them."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.arrays import FloatArray
from nnunet_dro.files.json_file import read_json
from nnunet_dro.nnunet.raw_dataset import original_reference

TIFF_ENDINGS = (".tif", ".tiff")


def read_tiff(path: Path, *, is_volume: bool = False) -> npt.NDArray[Any]:
    """Read a volume or a plane from a TIFF file.

    Pages of one shape are a volume, unless each is written as an image of its own. The stored
    numbers are taken: those of a palette are indices, and the bits of a page whose zeros are white
    stay as they are.

    Source: Tiff3DIO in nnU-Net 2.8.1.

    Args:
        path: The file.
        is_volume: Whether it is known to hold a volume: then what is stored as the colours of a
            plane are its columns.

    Returns:
        The values (z, y, x), a plane with one z; colours have a fourth axis.

    Raises:
        ValueError: If it cannot be read. The message does not name it.
    """
    import tifffile  # type: ignore[import-untyped]

    # What it logs of a damaged file is said by the error.
    logging.getLogger("tifffile").addHandler(logging.NullHandler())
    try:
        with tifffile.TiffFile(path) as file:
            series, *others = file.series
            axes = str(series.axes)
            values: npt.NDArray[Any] = series.asarray()
    except MemoryError:
        raise
    except Exception as error:  # whatever tifffile and its codecs meet in a damaged file
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"tifffile cannot read it ({reason})") from error

    # Smaller ones are previews; pages that were written one by one are as large.
    if any(other.size >= series.size for other in others):
        raise ValueError(f"it has {len(others) + 1} images instead of one volume")
    if values.dtype == np.bool_:
        values = values.astype(np.uint8)
    is_coloured = axes.endswith("S") and not is_volume
    n_axes = 4 if is_coloured else 3
    shape = (1,) * (n_axes - values.ndim) + values.shape
    while len(shape) > n_axes and shape[0] == 1:
        shape = shape[1:]
    if len(shape) != n_axes:
        sizes = ", ".join(map(str, values.shape))
        raise ValueError(f"it has {values.ndim} axes ({sizes}) instead of one volume")
    return values.reshape(shape)


def file_beside(path: Path) -> Path | None:
    """The JSON file that nnU-Net expects beside a TIFF file; None where there is none.

    Beside nnU-Net's copies of the references there is none: it is beside the originals.
    """
    places = [path, original_reference(path) or path]
    files = [place.with_suffix(".json") for place in places]
    return next(filter(Path.is_file, files), None)


def affine_beside(path: Path) -> FloatArray | None:
    """The affine of a TIFF file, from its `file_beside`, which has the voxel size (z, y, x), mm.

    None where there is none.
    """
    beside = file_beside(path)
    if beside is None:
        return None

    try:
        z, y, x = (float(length) for length in read_json(beside)["spacing"])
        if not all(0 < length < np.inf for length in (z, y, x)):
            raise ValueError("a length is not positive")
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"`spacing` must be three lengths, got others in {str(beside)!r}. Correct it."
        ) from error
    return np.diag([x, y, z, 1.0])
