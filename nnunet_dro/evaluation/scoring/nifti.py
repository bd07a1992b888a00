"""A fast reader for the NIfTI files that label maps usually are.

nibabel could read the headers, but importing it would take longer than scoring several cases.

Source of the format: the NIfTI-1 and NIfTI-2 data format standards, nifti.nimh.nih.gov.
"""

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import deflate
import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import FloatArray, Grid

_GZIP_MAGIC = b"\x1f\x8b"
_HEADER_BYTES = 540

#: NIfTI's codes of integer types.
_INTEGERS = {
    2: np.uint8,
    4: np.int16,
    8: np.int32,
    256: np.int8,
    512: np.uint16,
    768: np.uint32,
    1024: np.int64,
    1280: np.uint64,
}

#: Those of floating-point numbers. Libraries read NaN as 0, which would be background.
_FLOATS = {16: np.float32, 64: np.float64}


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
        start = zlib.decompressobj(wbits=31).decompress(stored[:65536], _HEADER_BYTES) if compressed else stored
    except zlib.error as error:
        raise ValueError("it is damaged") from error
    header = _parse(bytes(start[:_HEADER_BYTES]))
    content = _inflate(stored, header.n_bytes) if compressed else stored
    if len(content) < header.n_bytes:
        raise ValueError("it is truncated")
    voxels = np.frombuffer(content, dtype=header.dtype, count=int(np.prod(header.shape)), offset=header.offset)
    if (header.slope, header.intercept) != (1.0, 0.0):
        voxels = voxels * header.slope + header.intercept
    if not voxels.dtype.isnative:
        voxels = voxels.astype(voxels.dtype.newbyteorder("="))
    return voxels.reshape(header.shape), Grid(header.shape, header.affine)


def _inflate(stored: bytes, n_bytes: int) -> bytes | bytearray:
    """The content of a gzip file whose size is known from the header.

    The size that gzip itself stores is modulo 2^32, and is that of the last member only.
    """
    try:
        content = deflate.gzip_decompress(stored, n_bytes)
        # Otherwise the checksum at the end is that of something else.
        if len(content) == n_bytes and deflate.crc32(content) == struct.unpack("<I", stored[-8:-4])[0]:
            return content
    except deflate.DeflateError:
        pass
    # Several members, bytes after the voxels, or damage: the standard library tells them apart.
    try:
        return gzip.decompress(stored)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError("it is truncated or damaged") from error


def _parse(start: bytes) -> _Header:
    order: Literal["<", ">"] = "<" if start[:4] in (struct.pack("<i", 348), struct.pack("<i", 540)) else ">"
    if len(start) >= 348 and start[:4] == struct.pack(f"{order}i", 348) and start[344:348] == b"n+1\0":
        dim = struct.unpack(f"{order}8h", start[40:56])
        code = struct.unpack(f"{order}h", start[70:72])[0]
        pixdim = struct.unpack(f"{order}8f", start[76:108])
        offset, slope, intercept = struct.unpack(f"{order}3f", start[108:120])
        qform, sform = struct.unpack(f"{order}2h", start[252:256])
        quaternion = struct.unpack(f"{order}6f", start[256:280])
        rows, first = struct.unpack(f"{order}12f", start[280:328]), 348
    elif len(start) >= 540 and start[:4] == struct.pack(f"{order}i", 540) and start[4:8] == b"n+2\0":
        code = struct.unpack(f"{order}h", start[12:14])[0]
        dim = struct.unpack(f"{order}8q", start[16:80])
        pixdim = struct.unpack(f"{order}8d", start[104:168])
        offset = struct.unpack(f"{order}q", start[168:176])[0]
        slope, intercept = struct.unpack(f"{order}2d", start[176:192])
        qform, sform = struct.unpack(f"{order}2i", start[344:352])
        quaternion = struct.unpack(f"{order}6d", start[352:400])
        rows, first = struct.unpack(f"{order}12d", start[400:496]), 540
    else:
        raise UnusualNiftiError
    n_axes = dim[0]
    if 3 < n_axes <= 7 and any(n > 1 for n in dim[4 : n_axes + 1]):
        raise ValueError(f"it has {n_axes} axes, of length {', '.join(map(str, dim[1 : n_axes + 1]))}")
    if any(n < 1 for n in dim[1 : min(n_axes, 7) + 1]):
        raise ValueError(f"it has an axis of length {min(dim[1 : min(n_axes, 7) + 1])}")
    scaled = slope not in (0.0, 1.0) or (intercept != 0.0 and slope != 0.0)
    usual = code in _FLOATS or (code in _INTEGERS and not scaled)
    if not usual or not 1 <= n_axes <= 7 or not first <= offset < np.inf:
        raise UnusualNiftiError
    x, y, z = (int(n) for n in (*dim[1 : min(n_axes, 3) + 1], 1, 1)[:3])
    if sform > 0:
        affine = np.vstack([np.reshape(rows, (3, 4)), [0, 0, 0, 1]]).astype(np.float64)
    else:
        affine = _from_quaternion(pixdim, quaternion if qform > 0 else (0.0,) * 6)
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) < 1e-12:
        raise UnusualNiftiError
    # NIfTI counts towards right and anterior.
    affine[:2] *= -1
    dtype = np.dtype((_INTEGERS | _FLOATS)[code]).newbyteorder(order)
    # A slope of 0 or NaN stands for none.
    scaling = (slope, intercept) if scaled and np.isfinite((slope, intercept)).all() else (1.0, 0.0)
    return _Header(dtype, (z, y, x), int(offset), affine, *scaling)


def _from_quaternion(pixdim: tuple[float, ...], quaternion: tuple[float, ...]) -> FloatArray:
    """Source: nifti1.h, method 2; method 1 is the quaternion (0, 0, 0)."""
    b, c, d, *offsets = quaternion
    a = max(0.0, 1 - b * b - c * c - d * d) ** 0.5
    rotation = np.array(
        [
            [a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)],
            [2 * (b * c + a * d), a * a + c * c - b * b - d * d, 2 * (c * d - a * b)],
            [2 * (b * d - a * c), 2 * (c * d + a * b), a * a + d * d - b * b - c * c],
        ]
    )
    sizes = np.array([*pixdim[1:3], pixdim[3] * (-1 if pixdim[0] == -1 else 1)])
    affine = np.eye(4)
    affine[:3, :3] = rotation * sizes
    affine[:3, 3] = offsets
    return affine
