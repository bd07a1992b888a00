"""Where the voxels of a NIfTI file lie, by the rule of the reader that nnU-Net uses for it.

A header has two forms of its affine, sform and qform, each with a code that is 0 if it means
nothing, and the voxel size in pixdim. Nothing makes the three agree.
"""

from pathlib import Path
from typing import Any

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.scoring.grid import Grid, side_lengths
from nnunet_dro.evaluation.scoring.itk import affine_in_header
from nnunet_dro.evaluation.scoring.readers import Reader

#: Metres and micrometres, in millimetres, by NIfTI's code of the unit; ITK heeds them, too.
_UNITS_MM = {1: 1000.0, 3: 0.001}

#: The code of an sform that ITK takes before a coded qform: that of the scanner's coordinates.
_SCANNER = 1

#: How far the sides of voxels may be from right angles for this module to be sure that ITK
#: accepts them; ITK's own bound is 1e-4.
_SURELY_RIGHT = 5e-5

#: Matrices that are nearer than this are the same, mm: at their far corner, voxels are still the
#: same.
_SAME_MM = 1e-5

#: How near to each other the sizes and origins of two forms are at which ITK may take them for
#: similar, mm; ITK's own bound is 1e-4.
_MAYBE_SIMILAR_MM = 1e-3

_NIFTI_TO_ITK = np.diag([-1.0, -1.0, 1.0, 1.0])


def nifti_grid(header: Any, shape: tuple[int, int, int], reader: Reader, path: Path) -> Grid | None:
    """The grid of a file by the rule of a reader.

    Where ITK refuses the header, since the sides of its voxels are at no right angles, the rule is
    nibabel's.

    Args:
        header: Nibabel's header.
        shape: Voxels (z, y, x).
        reader: Whose rule it is.
        path: The file, about which ITK is asked where its rule hangs on rounding.

    Returns:
        The grid; None where neither reader knows where the voxels lie.

    Raises:
        HeaderDataError, ValueError: If a quaternion has no meaning.
    """
    has_lengths = _mend_pixdim(header)
    lengths = header["pixdim"][1:4].astype(np.float64)
    unit_mm = _UNITS_MM.get(int(header["xyzt_units"]) & 7, 1.0)
    best = _NIFTI_TO_ITK @ header.get_best_affine()
    by_nibabel = _in_mm(best, unit_mm)

    by_itk = None
    if has_lengths:
        by_itk = _itk_affine(header, best, lengths)
    by_itk = affine_in_header(path) if by_itk is None else _in_mm(by_itk, unit_mm)

    if not _is_usable(by_nibabel):
        return None if by_itk is None else Grid(shape, by_itk)
    if reader is Reader.ITK and by_itk is not None:
        other = _unless_same(by_nibabel, by_itk)
        return Grid(shape, by_itk, other_affine=other)

    voxel_size = lengths * unit_mm
    if reader is Reader.REORIENTING and not _is_upright(by_nibabel):
        voxel_size = side_lengths(by_nibabel)
    x, y, z = voxel_size.tolist()
    other = None
    if by_itk is not None:
        other = _unless_same(by_itk, by_nibabel)
    return Grid(
        shape,
        by_nibabel,
        voxel_size=(z, y, x),
        other_affine=other,
        is_by_other_rule=reader is Reader.ITK,
    )


def _mend_pixdim(header: Any) -> bool:
    """Give a header the voxel size that nibabel makes of one without meaning.

    That is the absolute value, and 1 for 0.

    Returns:
        Whether the voxel size had a meaning along every axis that there is.
    """
    if header["pixdim"][0] not in (-1, 1):
        header["pixdim"][0] = 1

    lengths = header["pixdim"][1:4]
    is_length = np.isfinite(lengths) & (lengths > 0)
    if not is_length.all():
        mended = np.abs(np.where(np.isfinite(lengths), lengths, 1.0))
        mended[mended == 0] = 1.0
        header["pixdim"][1:4] = mended
    n_axes = int(header["dim"][0])
    return bool(is_length[:n_axes].all())


def _itk_affine(header: Any, best: FloatArray, lengths: FloatArray) -> FloatArray | None:
    """The affine of ITK: the directions and the origin of one form, and the lengths of pixdim.

    It is None where the rule hangs on rounding, or where ITK may refuse the header.

    Source: SetImageIOOrientationFromNIfTI in ITK's itkNiftiImageIO.cxx (5.4).
    """
    sform_code = int(header["sform_code"])
    qform_code = int(header["qform_code"])
    if sform_code <= 0 and qform_code <= 0:
        # A voxel size alone: ITK does not turn the axes.
        return np.diag([*lengths, 1.0])

    # Nibabel's best affine is the sform, or the qform where the sform has no code.
    form = best
    if sform_code > _SCANNER and qform_code > 0:
        form = _NIFTI_TO_ITK @ header.get_qform()
        if _may_pass_for_similar(best, form):
            return None

    sides = side_lengths(form)
    if not np.isfinite(form).all() or not (sides > 0).all():
        return None

    directions = form[:3, :3] / sides
    angles = directions.T @ directions - np.eye(3)
    if np.abs(angles).max() > _SURELY_RIGHT:
        return None
    affine = np.eye(4)
    affine[:3, :3] = directions * lengths
    affine[:3, 3] = form[:3, 3]
    return affine


def _may_pass_for_similar(sform: FloatArray, qform: FloatArray) -> bool:
    """Whether ITK may take an sform for similar to the qform, although it is not.

    Then it takes the sform, whatever its code. It compares their left singular vectors, which do
    not tell a mirrored axis.
    """
    difference = np.abs(sform - qform)
    if difference.max() <= _SAME_MM:
        return False
    if difference[:3, 3].max() > _MAYBE_SIMILAR_MM:
        return False

    sizes = np.linalg.svd(sform[:3, :3], compute_uv=False)
    sizes_of_qform = np.linalg.svd(qform[:3, :3], compute_uv=False)
    return bool(np.abs(sizes - sizes_of_qform).max() <= _MAYBE_SIMILAR_MM)


def _in_mm(affine: FloatArray, unit_mm: float) -> FloatArray:
    if unit_mm == 1:
        return affine
    scaled = affine.copy()
    scaled[:3] *= unit_mm
    return scaled


def _is_usable(affine: FloatArray) -> bool:
    """Whether an affine is finite and keeps voxels apart."""
    return bool(np.isfinite(affine).all() and abs(np.linalg.det(affine[:3, :3])) >= 1e-12)


def _unless_same(affine: FloatArray, chosen: FloatArray) -> FloatArray | None:
    """An affine where it is another than the chosen one."""
    return None if np.abs(affine - chosen).max() <= _SAME_MM else affine


def _is_upright(affine: FloatArray) -> bool:
    """Whether the axes of an image (x, y, z) point right, anterior and superior already."""
    from nibabel.orientations import aff2axcodes

    return bool(aff2axcodes(_NIFTI_TO_ITK @ affine) == ("R", "A", "S"))
