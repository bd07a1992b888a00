"""Label maps in any format that ITK reads."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.grid import Grid

#: A tag that every DICOM file has, as ITK names it: the class of what it holds.
_SOP_CLASS = "0008|0016"

#: What to do with DICOM. ITK takes the frames of a segmentation for neighbours, whatever gaps are
#: between them, and their values for 255.
_NAME_DICOM = "Name DICOM segmentations CASE.dcm."

#: The size of the header of a GIPL file, whose voxels are never compressed.
_GIPL_HEADER_BYTES = 256

#: ITK's readers of the formats whose endings it does not know in capitals, by these.
_READERS_OF_CAPITALS = {".MHA": "MetaImageIO", ".GIPL": "GiplImageIO"}


def read_with_itk(path: Path) -> tuple[npt.NDArray[Any], Grid]:
    """Read a label map with SimpleITK.

    Raises:
        ValueError: If it cannot be read, or has several channels or volumes. The message names the
            file.
    """
    try:
        image = itk_image(path)
    except ValueError as error:
        raise InputError(
            "path",
            must="be a readable label map",
            got=f"{str(path)!r}: {error}",
            cure="Write it again, as one channel of label values.",
        ) from error

    if image.HasMetaDataKey(_SOP_CLASS):
        raise ValueError(
            f"`path` must be a label map, got {str(path)!r}, which is DICOM. {_NAME_DICOM}"
        )
    values = _values_of(image, path)
    while values.ndim > 3 and values.shape[0] == 1:
        values = values[0]
    if values.ndim > 3:
        sizes = ", ".join(map(str, image.GetSize()))
        raise InputError(
            "path",
            must="hold one volume",
            got=f"{values.ndim} axes ({sizes}) in {str(path)!r}",
            cure="Split it.",
        )
    shape = (1,) * (3 - values.ndim) + values.shape
    return values.reshape(shape), Grid(shape, itk_affine(image))


def itk_image(path: Path) -> Any:
    """SimpleITK's image of a file.

    Raises:
        ValueError: If it cannot be read, is truncated or does not say where its voxels lie. The
            message does not name it.
    """
    import SimpleITK

    # The error says in one line what is wrong.
    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    try:
        image = SimpleITK.ReadImage(
            str(path),
            imageIO=_READERS_OF_CAPITALS.get(path.suffix, ""),
        )
    except RuntimeError as error:
        raise ValueError("ITK cannot read it") from error
    if not np.isfinite(itk_affine(image)).all():
        raise ValueError("its header has NaN or infinity where its voxels lie")

    # ITK fills up what a GIPL file lacks with whatever is in memory.
    voxel_bytes = image.GetSizeOfPixelComponent() * image.GetNumberOfComponentsPerPixel()
    n_bytes = _GIPL_HEADER_BYTES + voxel_bytes * image.GetNumberOfPixels()
    if path.suffix.lower() == ".gipl" and path.stat().st_size < n_bytes:
        raise ValueError("it is truncated")
    return image


def _values_of(image: Any, path: Path) -> npt.NDArray[Any]:
    """The voxels of an image; its colours must be greys."""
    import SimpleITK

    values: npt.NDArray[Any] = SimpleITK.GetArrayFromImage(image)
    n_components = image.GetNumberOfComponentsPerPixel()
    is_coloured = n_components > 1
    # The layers of 3D Slicer can be equal, and are no greys even then.
    if is_coloured and path.name.lower().endswith(".seg.nrrd"):
        raise ValueError(
            f"`path` must hold one layer of labels, got {n_components} in {str(path)!r}. In 3D "
            "Slicer, export the segmentation as a label map (to files, or to a labelmap node)."
        )

    return one_channel(values, path) if is_coloured else values


def one_channel(
    values: npt.NDArray[Any], path: Path, *, cure: str = "Store label values, not colours."
) -> npt.NDArray[Any]:
    """Grey values that are stored as colours, along the last axis.

    They are the same in each channel.
    """
    if (values != values[..., :1]).any():
        raise ValueError(f"`path` must have one channel, got {str(path)!r}. {cure}")
    return np.ascontiguousarray(values[..., 0])


def itk_affine(image: Any) -> FloatArray:
    """The affine of SimpleITK's image, see `Grid`."""
    n_axes = min(image.GetDimension(), 3)
    spacing = np.array(image.GetSpacing()[:n_axes])
    direction = np.reshape(image.GetDirection(), (image.GetDimension(), -1))
    direction = direction[:n_axes, :n_axes]

    affine = np.eye(4)
    affine[:n_axes, :n_axes] = direction * spacing
    affine[:n_axes, 3] = image.GetOrigin()[:n_axes]
    return affine


def affine_in_header(path: Path) -> FloatArray | None:
    """The affine that ITK reads from a file's header, see `Grid`; None for none."""
    import SimpleITK

    SimpleITK.ProcessObject.SetGlobalWarningDisplay(False)
    reader = SimpleITK.ImageFileReader()
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
    except RuntimeError:
        return None
    affine = itk_affine(reader)
    return affine if np.isfinite(affine).all() else None
