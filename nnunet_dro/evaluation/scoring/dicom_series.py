"""The image in a series of DICOM files, read with highdicom."""

from pathlib import Path
from typing import Any

import numpy.typing as npt

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.dicom import reading_dicom
from nnunet_dro.evaluation.scoring.grid import Grid


def read_series(folder: Path) -> tuple[npt.NDArray[Any], Grid]:
    """Read the image in a folder with one series of DICOM slices; other DICOM files may be there.

    Returns:
        The values (z, y, x), and where they lie.

    Raises:
        ValueError: If there is not one series of slices at even distances, or highdicom is not
            installed. The message names the folder.
    """
    with reading_dicom(folder):
        import highdicom
        import pydicom

        slices = []
        for path in sorted(folder.rglob("*")):
            if path.is_file() and pydicom.misc.is_dicom(path):
                dataset = pydicom.dcmread(path)
                if "ImagePositionPatient" in dataset and "PixelData" in dataset:
                    slices.append(dataset)

    n_series = len({dataset.get("SeriesInstanceUID") for dataset in slices})
    if n_series != 1:
        raise InputError(
            "images",
            must="hold one series per case",
            got=f"{n_series} in {str(folder)!r}",
            cure="Leave one series of single slices there.",
        )
    if len(slices) == 1 and "SpacingBetweenSlices" not in slices[0]:
        slices[0].SpacingBetweenSlices = slices[0].get("SliceThickness")
    with reading_dicom(folder):
        volume = highdicom.get_volume_from_series(
            slices, apply_real_world_transform=False, apply_presentation_lut=False
        )
    # The affine of voxel indices (x, y, z), from that of (z, y, x).
    return volume.array, Grid(volume.array.shape, volume.affine[:, [2, 1, 0, 3]])
