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
_HEADER_BYTES = 540


class UnusualNiftiError(Exception):
    """The file is not of the common kind and is left to a complete reader."""


@dataclass(frozen=True)
class _Header:
    dtype: npt.DTypeLike
    shape: tuple[int, int, int]
    offset: int
    affine: FloatArray
    slope: float = 1.0
    intercept: float = 0.0

    @property
    def n_bytes(self) -> int:
        """Size of header and voxels."""
        return self.offset + int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


def read_nifti(path: Path) -> tuple[npt.NDArray[Any], Grid]:
    """Read a label map from a NIfTI file."""
    stored = path.read_bytes()
    compressed = stored[:2] == _GZIP_MAGIC
    try:
        start = (
            zlib.decompressobj(wbits=31).decompress(stored[:65536], _HEADER_BYTES)
            if compressed
            else stored
        )
    except zlib.error as error:
        raise ValueError("it is damaged") from error
    header = _parse(bytes(start[:_HEADER_BYTES]))
    content = _inflate(stored, header.n_bytes) if compressed else stored
    if len(content) < header.n_bytes:
        raise ValueError("it is truncated")
    voxels = np.frombuffer(
        content, dtype=header.dtype, count=int(np.prod(header.shape)), offset=header.offset
    )
    if (header.slope, header.intercept) != (1.0, 0.0):
        voxels = voxels * header.slope + header.intercept
    if not voxels.dtype.isnative:
        voxels = voxels.astype(voxels.dtype.newbyteorder("="))
    return voxels.reshape(header.shape), Grid(header.shape, header.affine)


def _inflate(stored: bytes, n_bytes: int) -> bytes | bytearray:
    """The content of a gzip file of known size.

    What gzip itself stores is modulo 2^32, and of the last member only.
    """
    try:
        content = deflate.gzip_decompress(stored, n_bytes)
        # Otherwise the checksum at the end is that of something else.
        if (
            len(content) == n_bytes
            and deflate.crc32(content) == struct.unpack("<I", stored[-8:-4])[0]
        ):
            return content
    except deflate.DeflateError:
        pass
    # Several members, bytes after the voxels, or damage: the standard library tells them apart.
    try:
        return gzip.decompress(stored)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError("it is truncated or damaged") from error


def _parse(start: bytes) -> _Header:
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
        offset = header["vox_offset"]
        if header["sform_code"] > 0:
            affine = header.get_sform()
        elif header["qform_code"] > 0:
            affine = header.get_qform()
        else:  # A voxel size alone. ITK, by which nnU-Net writes predictions, does not turn its axes.
            affine = np.diag([*header["pixdim"][1:4] * (-1, -1, 1), 1.0])
        affine[:3] *= {1: 1000.0, 3: 0.001}.get(
            int(header["xyzt_units"]) & 7, 1.0
        )  # metres and micrometres, as in ITK
    except (HeaderDataError, WrapStructError, KeyError, ValueError) as error:
        # A field without meaning, such as the code of no type (KeyError) or a quaternion longer
        # than 1 (ValueError).
        raise UnusualNiftiError from error
    n_axes, *lengths = header["dim"].tolist()
    if 3 < n_axes <= 7 and any(n > 1 for n in lengths[3:n_axes]):
        raise ValueError(f"it has {n_axes} axes, of length {', '.join(map(str, lengths[:n_axes]))}")
    if any(n < 1 for n in lengths[: min(n_axes, 7)]):
        raise ValueError(f"it has an axis of length {min(lengths[: min(n_axes, 7)])}")
    # A slope of 0 or NaN stands for none.
    scaling = (1.0, 0.0) if slope is None else (slope, intercept)
    usual = dtype.itemsize <= 8 and (
        dtype.kind == "f" or (dtype.kind in "iu" and scaling == (1.0, 0.0))
    )
    usual = usual and 1 <= n_axes <= 7 and kind.sizeof_hdr <= offset < np.inf
    if not usual or not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-12:
        raise UnusualNiftiError
    # NIfTI counts towards right and anterior.
    affine[:2] *= -1
    x, y, z = (*shape[:3], 1, 1)[:3]
    return _Header(dtype, (z, y, x), int(offset), affine, *scaling)
