"""A fast reader for the NIfTI files that label maps usually are.

Nibabel reads the header, libdeflate the voxels.
"""

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deflate
import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.nifti_grid import nifti_grid
from nnunet_dro.evaluation.scoring.readers import Reader, reader_for

NIFTI_ENDINGS = (".nii.gz", ".nii")

_GZIP_MAGIC = b"\x1f\x8b"

#: The length of the longer header, that of NIfTI-2.
_HEADER_BYTES = 540

#: How many compressed bytes are looked at to find the header.
_COMPRESSED_START_BYTES = 65536

#: The most bytes of header and voxels; larger numbers stand in damaged headers.
_MOST_BYTES = 2**40

#: The least factor of scaled values; with smaller ones all labels are background. ITK takes those
#: for 1.
_LEAST_SLOPE = float(np.finfo(np.float64).eps)


class UnusualNiftiError(Exception):
    """The file is not of the common kind and is left to a complete reader."""


@dataclass(frozen=True)
class _Header:
    """What the header says of the voxels: (z, y, x), from a byte of the file on."""

    dtype: np.dtype[Any]
    offset: int
    grid: Grid
    slope: float = 1.0
    intercept: float = 0.0

    @property
    def n_voxels(self) -> int:
        """How many voxels there are: a Python integer, which cannot overflow."""
        return math.prod(self.grid.shape)

    @property
    def is_scaled(self) -> bool:
        """Whether other values are meant than those that are stored."""
        return (self.slope, self.intercept) != (1.0, 0.0)

    @property
    def n_bytes(self) -> int:
        """Size of header and voxels."""
        return self.offset + self.n_voxels * self.dtype.itemsize


def read_nifti(path: Path, reader: Reader | None = None) -> tuple[npt.NDArray[Any], Grid]:
    """Read a label map or an image from a NIfTI file.

    Args:
        path: The file.
        reader: The reader that the dataset names, if any, by whose rule the voxels lie.

    Returns:
        The values (z, y, x), and where they lie.

    Raises:
        UnusualNiftiError: If the file is not of the common kind; SimpleITK may read it.
        ValueError: If it is damaged or not one volume. The message does not name it.
    """
    stored = path.read_bytes()
    is_compressed = stored.startswith(_GZIP_MAGIC)
    start = _inflate_start(stored) if is_compressed else stored[:_HEADER_BYTES]
    header = _parse(start, path, reader_for(path, reader))
    if header.n_bytes > _MOST_BYTES:
        lengths = ", ".join(map(str, header.grid.shape[::-1]))
        raise ValueError(f"its header is damaged: it has axes of length {lengths}")

    content = _inflate(stored, header.n_bytes) if is_compressed else stored
    if len(content) < header.n_bytes:
        raise ValueError("it is truncated")

    voxels: npt.NDArray[Any] = np.frombuffer(
        content,
        dtype=header.dtype,
        count=header.n_voxels,
        offset=header.offset,
    )
    if not voxels.dtype.isnative:
        voxels = voxels.astype(voxels.dtype.newbyteorder("="))
    if header.is_scaled:
        if voxels.dtype.kind != "f":
            # Single precision holds every integer of two bytes.
            voxels = voxels.astype(np.float32 if voxels.itemsize <= 2 else np.float64)
        voxels = voxels * header.slope + header.intercept
    return voxels.reshape(header.grid.shape), header.grid


def step_of_scaled(path: Path) -> float:
    """How far apart the values are that a NIfTI file of scaled integers can hold.

    It is 0 for other files.
    """
    with path.open("rb") as file:
        stored = file.read(_COMPRESSED_START_BYTES)
    start = _inflate_start(stored) if stored.startswith(_GZIP_MAGIC) else stored
    try:
        header = _parse(start[:_HEADER_BYTES], path, Reader.ITK)
    except (UnusualNiftiError, ValueError):
        return 0.0
    is_of_integers = header.dtype.kind in "iu"
    return abs(header.slope) if is_of_integers and header.is_scaled else 0.0


def _inflate_start(stored: bytes) -> bytes:
    """The first bytes of the content of a gzip file, as many as a header has."""
    # wbits of 31: the largest window, and a gzip header before the data.
    decompressor = zlib.decompressobj(wbits=31)
    try:
        return decompressor.decompress(stored[:_COMPRESSED_START_BYTES], _HEADER_BYTES)
    except zlib.error as error:
        raise ValueError("it is damaged") from error


def _inflate(stored: bytes, n_bytes: int) -> bytes | bytearray:
    """The content of a gzip file whose size is known from the header.

    The size that gzip itself stores is modulo 2^32, and is that of the last member only.
    """
    try:
        # It checks the checksum; of several members it inflates the first.
        content = deflate.gzip_decompress(stored, n_bytes)
        (stored_size,) = struct.unpack("<I", stored[-4:])
        if len(content) == n_bytes and stored_size == n_bytes % 2**32:
            return content
    except deflate.DeflateError:
        pass

    # Several members, bytes after the voxels, or damage: the standard library tells them apart.
    try:
        return gzip.decompress(stored)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError("it is truncated or damaged") from error


def _parse(start: bytes, path: Path, reader: Reader) -> _Header:
    """Read a header from the first bytes of a file.

    Raises:
        UnusualNiftiError: If the file is not of the common kind.
        ValueError: If it holds several volumes, or none.
    """
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header
    from nibabel.spatialimages import HeaderDataError
    from nibabel.wrapstruct import WrapStructError

    kind = Nifti2Header if start[4:8] == b"n+2\0" else Nifti1Header
    if kind is Nifti1Header and start[344:348] != b"n+1\0":
        raise UnusualNiftiError

    try:
        header = kind(start[: kind.sizeof_hdr], check=False)
        slope, intercept = header.get_slope_inter()
        dtype = header.get_data_dtype()
        x, y, z = (*header.get_data_shape()[:3], 1, 1)[:3]
    except (HeaderDataError, WrapStructError, KeyError, ValueError) as error:
        # A field without meaning, such as the code of no type (KeyError).
        raise UnusualNiftiError from error

    n_axes, *lengths = header["dim"].tolist()
    _check_axes(n_axes, lengths)

    if slope is None:
        # A slope of 0 or NaN is stored where nothing is scaled.
        slope = 1.0
        intercept = 0.0
    if abs(slope) < _LEAST_SLOPE:
        raise ValueError(f"its header is damaged: it has a scl_slope of {slope:g}")
    offset = header["vox_offset"]
    is_numerical = dtype.kind in "fiu" and dtype.itemsize <= 8
    is_in_range = 1 <= n_axes <= 7 and kind.sizeof_hdr <= offset < np.inf
    if not (is_numerical and is_in_range):
        raise UnusualNiftiError

    if kind is Nifti2Header and reader is Reader.ITK:
        # SimpleITK 2.5 reads no NIfTI-2, so that nnU-Net goes on to its next reader.
        reader = Reader.NIBABEL
    grid = _grid_of(header, (int(z), int(y), int(x)), reader, path)
    return _Header(dtype, int(offset), grid, slope, intercept)


def _grid_of(header: Any, shape: tuple[int, int, int], reader: Reader, path: Path) -> Grid:
    """As from `nifti_grid`; UnusualNiftiError where there is none."""
    from nibabel.spatialimages import HeaderDataError

    try:
        grid = nifti_grid(header, shape, reader, path)
    except (HeaderDataError, ValueError) as error:
        # A quaternion longer than 1.
        raise UnusualNiftiError from error
    if grid is None:
        raise UnusualNiftiError
    return grid


def _check_axes(n_axes: int, lengths: list[int]) -> None:
    """Check that there is one volume with voxels in it."""
    # Axes beyond the third are time, and others that a label map does not have.
    others = lengths[3:n_axes]
    if 3 < n_axes <= 7 and any(length > 1 for length in others):
        named = ", ".join(map(str, lengths[:n_axes]))
        raise ValueError(f"it has {n_axes} axes, of length {named}")

    used = lengths[: min(n_axes, 7)]
    if any(length < 1 for length in used):
        raise ValueError(f"it has an axis of length {min(used)}")
