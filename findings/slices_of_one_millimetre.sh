#!/usr/bin/env bash
# A mask that SimpleITK writes as TIFF keeps the size of its pixels, and its slices are 1 mm thick.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: SimpleITK writes a volume in any of its formats, and drops without a word what a format, or
# its writer, does not keep. TIFF keeps the size within the slice, 0.5 x 0.5 mm, but not the distance of
# the slices, which is 1 mm when the file is read, and neither the origin nor the direction of the axes.
# GIPL, VTK and MRC keep sizes and origin, and lose the direction. Where an axis runs the other way, as
# the first two do for SimpleITK in NIfTI files of RAS orientation, the mask then lies beside its image.
# NIfTI, MetaImage and NRRD keep everything, and the voxels are the same in all.
#
# Guess before the run: the voxel size survives in each format that a volume can be written in.
#
# Seen (a lesion of 10 x 10 voxels in 4 slices of 4 mm, in an image whose first two axes run the other
# way; voxel size and volume as read, and the Dice of the mask with itself, resampled onto its image):
#   nii.gz: voxels 0.5 x 0.5 x 4 mm, 400 mm3, Dice 1.00
#   mha:    voxels 0.5 x 0.5 x 4 mm, 400 mm3, Dice 1.00
#   nrrd:   voxels 0.5 x 0.5 x 4 mm, 400 mm3, Dice 1.00
#   tif:    voxels 0.5 x 0.5 x 1 mm, 100 mm3, Dice 0.00
#   gipl:   voxels 0.5 x 0.5 x 4 mm, 400 mm3, Dice 0.00
#   vtk:    voxels 0.5 x 0.5 x 4 mm, 400 mm3, Dice 0.00
#   mrc:    voxels 0.5 x 0.5 x 4 mm, 400 mm3, Dice 0.00
#
# Why it matters: Tools for microscopy and for meshes take TIFF and VTK. A pixel size that is right makes
# one trust the whole voxel size. Volumes, and distances across slices, are then too small by the
# thickness of the slices, which differs by scanner.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile SimpleITK==2.5.7 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import SimpleITK as sitk

STATED = {
    "nii.gz": ([0.5, 0.5, 4], 400, 1),
    "mha": ([0.5, 0.5, 4], 400, 1),
    "nrrd": ([0.5, 0.5, 4], 400, 1),
    "tif": ([0.5, 0.5, 1], 100, 0),
    "gipl": ([0.5, 0.5, 4], 400, 0),
    "vtk": ([0.5, 0.5, 4], 400, 0),
    "mrc": ([0.5, 0.5, 4], 400, 0),
}

array = np.zeros((8, 40, 40), np.uint8)
array[2:6, 5:15, 20:30] = 1
mask = sitk.GetImageFromArray(array)
mask.SetSpacing([0.5, 0.5, 4])
mask.SetOrigin([10, 20, 30])
mask.SetDirection([-1, 0, 0, 0, -1, 0, 0, 0, 1])

differs = False
for ending, stated in STATED.items():
    sitk.WriteImage(mask, f"mask.{ending}")
    read = sitk.ReadImage(f"mask.{ending}")
    if not np.array_equal(sitk.GetArrayFromImage(read), array):
        sys.exit("This differs from what is stated: the voxels.")

    shapes = sitk.LabelShapeStatisticsImageFilter()
    shapes.Execute(read)
    volume = shapes.GetPhysicalSize(1)
    on_image = sitk.Resample(read, mask, sitk.Transform(), sitk.sitkNearestNeighbor, 0)
    resampled = sitk.GetArrayFromImage(on_image)
    dice = 2 * int((resampled & array).sum()) / int(resampled.sum() + array.sum())

    size = " x ".join(f"{edge:.4g}" for edge in read.GetSpacing())
    print(f"{ending + ':':7s} voxels {size} mm, {volume:.0f} mm3, Dice {dice:.2f}")
    seen = (*read.GetSpacing(), volume, dice)
    differs = differs or not np.allclose(seen, (*stated[0], *stated[1:]), rtol=1e-4)
if differs:
    sys.exit("This differs from what is stated.")
PYTHON
