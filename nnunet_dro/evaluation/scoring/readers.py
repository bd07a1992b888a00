"""Which of nnU-Net's readers a dataset is read with.

They do not agree on where the voxels of a NIfTI file lie.
"""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any

#: The key of dataset.json that names a reader.
_KEY = "overwrite_image_reader_writer"


class Reader(str, Enum):
    """A reader of nnU-Net, by the name of its class.

    ITK takes the sform before a coded qform only if the code of the sform is 1, and the voxel size
    from pixdim. Nibabel takes the sform whenever it has a code. The reader that reorients reads as
    nibabel does, but takes the voxel size of what it turns from the affine.
    """

    ITK = "SimpleITKIO"
    NIBABEL = "NibabelIO"
    REORIENTING = "NibabelIOWithReorient"


#: Name to reader, with those that read as another one does.
_NAMED = {reader.value: reader for reader in Reader} | {"SimpleITKIOWithReorient": Reader.ITK}


def reader_named(dataset: Mapping[str, Any]) -> Reader | None:
    """The reader that a dataset.json names; None where the ending of the files decides."""
    return _NAMED.get(str(dataset.get(_KEY)))


def reader_for(path: Path, named: Reader | None = None) -> Reader:
    """The reader of a NIfTI file.

    Where the dataset names none, it is the first of nnU-Net's readers that knows the ending: ITK's
    for .nii.gz, and nibabel's for .nii (nnU-Net 2.8.1).
    """
    if named is not None:
        return named
    if path.name.lower().endswith(".nii"):
        return Reader.NIBABEL
    return Reader.ITK
