"""The headers of NIfTI files: plain ones as they are stored, and all others by nibabel.

Importing nibabel, which imports a reader of DICOM files, takes a third of the time of evaluating a
folder of small label maps. The headers that nnU-Net's readers write need nothing of it.

Source: nifti1.h of the NIfTI Data Format Working Group (the fields and their places).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_N_BYTES = 348
_MAGIC = b"n+1\0"

#: The fields that are read: name to type and place.
_FIELDS: dict[str, tuple[Any, int]] = {
    "sizeof_hdr": ("<i4", 0),
    "dim": (("<i2", 8), 40),
    "datatype": ("<i2", 70),
    "pixdim": (("<f4", 8), 76),
    "vox_offset": ("<f4", 108),
    "scl_slope": ("<f4", 112),
    "scl_inter": ("<f4", 116),
    "xyzt_units": ("u1", 123),
    "qform_code": ("<i2", 252),
    "sform_code": ("<i2", 254),
    "srow": (("<f4", (3, 4)), 280),
}
_DTYPE = np.dtype(
    {
        "names": list(_FIELDS),
        "formats": [kind for kind, _ in _FIELDS.values()],
        "offsets": [place for _, place in _FIELDS.values()],
        "itemsize": _N_BYTES,
    }
)

#: NIfTI's codes of types of numbers.
_TYPES = {
    2: "u1",
    4: "<i2",
    8: "<i4",
    16: "<f4",
    64: "<f8",
    256: "i1",
    512: "<u2",
    768: "<u4",
    1024: "<i8",
    1280: "<u8",
}

#: The code of an sform in the scanner's coordinates, beside which no reader asks for the qform.
_SCANNER = 1

#: The shape by which FreeSurfer means another one.
_OF_FREESURFER = (27307, 1, 6)


class UnusualNiftiError(Exception):
    """The file is not of the common kind and is left to a complete reader."""


class PlainHeader:
    """A little-endian header of NIfTI-1 whose values are not scaled and whose affine is the sform.

    It has what is used of nibabel's `Nifti1Header`, under the same names.
    """

    sizeof_hdr = _N_BYTES

    def __init__(self, start: bytes) -> None:
        self._fields = np.frombuffer(start, dtype=_DTYPE, count=1).copy().reshape(())

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A field, which can be changed in place."""
        return self._fields[name]

    @property
    def is_plain(self) -> bool:
        """Whether this class knows what the header means."""
        n_axes = int(self["dim"][0])
        has_size = self["sizeof_hdr"] == _N_BYTES and 1 <= n_axes <= 7
        if not has_size or (self["dim"][1 : n_axes + 1] < 1).any():
            return False
        if int(self["datatype"]) not in _TYPES or self.get_data_shape()[:3] == _OF_FREESURFER:
            return False
        if self["scl_slope"] not in (0, 1) or self["scl_inter"] != 0:
            return False
        if self["sform_code"] == _SCANNER:
            return True
        return bool(self["sform_code"] > _SCANNER and self["qform_code"] == 0)

    def get_data_shape(self) -> tuple[int, ...]:
        """The lengths of the axes (x, y, z, ...)."""
        n_axes = int(self["dim"][0])
        return tuple(self["dim"][1 : n_axes + 1].tolist())

    def get_data_dtype(self) -> np.dtype[Any]:
        """The type of the voxels."""
        return np.dtype(_TYPES[int(self["datatype"])])

    def get_slope_inter(self) -> tuple[float, float]:
        """The scale of the voxels: there is none."""
        return 1.0, 0.0

    def get_best_affine(self) -> FloatArray:
        """Voxel index (x, y, z, 1) to position, which is the sform."""
        affine = np.eye(4)
        affine[:3] = self["srow"]
        return affine


def header_of(start: bytes) -> Any:
    """The header in the first bytes of a file: a `PlainHeader` or one of nibabel's.

    Raises:
        UnusualNiftiError: If it is not that of a single NIfTI file, or a field has no meaning.
    """
    if len(start) >= _N_BYTES and start[344:348] == _MAGIC:
        plain = PlainHeader(start)
        if plain.is_plain:
            return plain
    return _by_nibabel(start)


def _by_nibabel(start: bytes) -> Any:
    """A header of NIfTI-1 or NIfTI-2, in either byte order."""
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header
    from nibabel.spatialimages import HeaderDataError
    from nibabel.wrapstruct import WrapStructError

    kind = Nifti2Header if start[4:8] == b"n+2\0" else Nifti1Header
    if kind is Nifti1Header and start[344:348] != _MAGIC:
        raise UnusualNiftiError

    try:
        header = kind(start[: kind.sizeof_hdr], check=False)
        header.get_slope_inter()
        header.get_data_dtype()
        header.get_data_shape()
    except (HeaderDataError, WrapStructError, KeyError, ValueError) as error:
        # A field without meaning, such as the code of no type (KeyError).
        raise UnusualNiftiError from error
    return header
