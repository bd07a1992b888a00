"""A fast reader for the NIfTI files that label maps usually are.

Nibabel reads the header, libdeflate the voxels.
"""

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import deflate
import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import FloatArray, Grid

_GZIP_MAGIC = b"\x1f\x8b"

#: The length of the longer header, that of NIfTI-2.
_HEADER_BYTES = 540

#: How many compressed bytes are looked at to find the header.
_COMPRESSED_START_BYTES = 65536

#: Metres and micrometres, in millimetres, by NIfTI's code of the unit; ITK heeds them, too.
_UNITS_MM = {1: 1000.0, 3: 0.001}


class UnusualNiftiError(Exception):
    """The file is not of the common kind and is left to a complete reader."""


@dataclass(frozen=True)
class _Header:
    """What the header says of the voxels: (z, y, x), from a byte of the file on."""

    dtype: npt.DTypeLike
    shape: tuple[int, int, int]
    offset: int
    affine: FloatArray
    slope: float = 1.0
    intercept: float = 0.0

    @property
    def n_voxels(self) -> int:
        """How many voxels there are."""
        return int(np.prod(self.shape))

    @property
    def n_bytes(self) -> int:
        """Size of header and voxels."""
        voxel_bytes = np.dtype(self.dtype).itemsize
        return self.offset + self.n_voxels * voxel_bytes


def read_nifti(path: Path) -> tuple[npt.NDArray[Any], Grid]:
    """Read a label map from a NIfTI file.

    Raises:
        UnusualNiftiError: If the file is not of the common kind; SimpleITK may read it.
        ValueError: If it is damaged or not one volume. The message does not name it.
    """
    stored = path.read_bytes()
    if stored.startswith(_GZIP_MAGIC):
        header = _parse(_inflate_start(stored))
        content = _inflate(stored, header.n_bytes)
    else:
        header = _parse(stored[:_HEADER_BYTES])
        content = stored
    if len(content) < header.n_bytes:
        raise ValueError("it is truncated")

    voxels = np.frombuffer(
        content,
        dtype=header.dtype,
        count=header.n_voxels,
        offset=header.offset,
    )
    if (header.slope, header.intercept) != (1.0, 0.0):
        voxels = voxels * header.slope + header.intercept
    if not voxels.dtype.isnative:
        voxels = voxels.astype(voxels.dtype.newbyteorder("="))
    return voxels.reshape(header.shape), Grid(header.shape, header.affine)


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
        content = deflate.gzip_decompress(stored, n_bytes)
        # Where the size is wrong, the checksum at the end is that of something else.
        (checksum,) = struct.unpack("<I", stored[-8:-4])
        if len(content) == n_bytes and deflate.crc32(content) == checksum:
            return content
    except deflate.DeflateError:
        pass

    # Several members, bytes after the voxels, or damage: the standard library tells them apart.
    try:
        return gzip.decompress(stored)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError("it is truncated or damaged") from error


def _parse(start: bytes) -> _Header:
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
        shape = header.get_data_shape()
        affine = _affine_of(header)
    except (HeaderDataError, WrapStructError, KeyError, ValueError) as error:
        # A field without meaning, such as the code of no type (KeyError) or a quaternion longer
        # than 1 (ValueError).
        raise UnusualNiftiError from error

    n_axes, *lengths = header["dim"].tolist()
    _check_axes(n_axes, lengths)

    if slope is None:
        # A slope of 0 or NaN is stored where nothing is scaled.
        slope = 1.0
        intercept = 0.0

    offset = header["vox_offset"]
    is_scaled = (slope, intercept) != (1.0, 0.0)
    has_usual_type = dtype.kind == "f" or (dtype.kind in "iu" and not is_scaled)
    if not has_usual_type or dtype.itemsize > 8:
        raise UnusualNiftiError
    if not 1 <= n_axes <= 7 or not kind.sizeof_hdr <= offset < np.inf:
        raise UnusualNiftiError
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-12:
        raise UnusualNiftiError

    x, y, z = (*shape[:3], 1, 1)[:3]
    return _Header(
        dtype=dtype,
        shape=(z, y, x),
        offset=int(offset),
        affine=affine,
        slope=slope,
        intercept=intercept,
    )


def _affine_of(header: Any) -> FloatArray:
    """The affine of nibabel's header, with the axes and the unit of `Grid`."""
    affine: FloatArray
    if header["sform_code"] > 0:
        affine = header.get_sform()
    elif header["qform_code"] > 0:
        affine = header.get_qform()
    else:
        # A voxel size alone. ITK, by which nnU-Net writes predictions, does not turn its axes.
        lengths = header["pixdim"][1:4] * (-1, -1, 1)
        affine = np.diag([*lengths, 1.0])

    unit = int(header["xyzt_units"]) & 7
    affine[:3] *= _UNITS_MM.get(unit, 1.0)
    # NIfTI counts towards right and anterior.
    affine[:2] *= -1
    return affine


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
