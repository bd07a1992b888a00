#!/usr/bin/env bash
# SimpleITK resamples a label map onto its own grid, with sitkLabelGaussian, and small lesions are gone.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: Three of SimpleITK's interpolators are made for label maps. If the new grid is the old one,
# sitkNearestNeighbor and sitkLabelLinear leave a map as it is. sitkLabelGaussian gives each voxel the
# label that is strongest after smoothing, with a width of one voxel. Lesions of up to 2 x 2 x 2 voxels,
# vessels of one voxel, and walls of one voxel with the same label on both sides are gone, and larger
# lesions lose their corners. That it smooths is documented, and its width can be chosen in ITK;
# sitk.Resample has no parameter for that.
#
# Guess before the run: on its own grid a map stays as it is, whatever the interpolator.
#
# Seen (voxels before, and after each interpolator; the same with voxels of 1 mm and of 0.2 mm):
#   lesion, 2 x 2 x 2:          8, nearest neighbour    8, linear    8, Gaussian    0
#   lesion, 3 x 3 x 3:         27, nearest neighbour   27, linear   27, Gaussian   19
#   vessel, 1 voxel thick:     30, nearest neighbour   30, linear   30, Gaussian    0
#   vessel, 2 voxels thick:   120, nearest neighbour  120, linear  120, Gaussian  120
#   wall, 1 voxel thick:      900, nearest neighbour  900, linear  900, Gaussian    0
#   hollow ball, 1 voxel:    1392, nearest neighbour 1392, linear 1392, Gaussian  264
#
# Why it matters: Predictions are brought back to the grid of the image, and references to that of the
# network, also where they have it already. With this interpolator, small lesions that the network found
# are missed, and those that are gone from the reference are false positives. Size, position and large
# organs are as before, so that nothing tells what was done.
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

INTERPOLATORS = (sitk.sitkNearestNeighbor, sitk.sitkLabelLinear, sitk.sitkLabelGaussian)
STATED = {
    "lesion, 2 x 2 x 2": [8, 8, 8, 0],
    "lesion, 3 x 3 x 3": [27, 27, 27, 19],
    "vessel, 1 voxel thick": [30, 30, 30, 0],
    "vessel, 2 voxels thick": [120, 120, 120, 120],
    "wall, 1 voxel thick": [900, 900, 900, 0],
    "hollow ball, 1 voxel": [1392, 1392, 1392, 264],
}
radius = np.linalg.norm(np.indices((30, 30, 30)) - 14.5, axis=0)
SHAPES = {
    "lesion, 2 x 2 x 2": np.s_[12:14, 12:14, 12:14],
    "lesion, 3 x 3 x 3": np.s_[12:15, 12:15, 12:15],
    "vessel, 1 voxel thick": np.s_[:, 12:13, 12:13],
    "vessel, 2 voxels thick": np.s_[:, 12:14, 12:14],
    "wall, 1 voxel thick": np.s_[:, :, 12:13],
    "hollow ball, 1 voxel": (radius >= 10) & (radius < 11),
}

differs = False
for voxel_mm in (1.0, 0.2):
    print(f"voxels of {voxel_mm} mm:")
    for name, shape in SHAPES.items():
        array = np.zeros((30, 30, 30), np.uint8)
        array[shape] = 1
        image = sitk.GetImageFromArray(array)
        image.SetSpacing([voxel_mm] * 3)

        counts = [int(array.sum())]
        for interpolator in INTERPOLATORS:
            resampled = sitk.Resample(image, image, sitk.Transform(), interpolator, 0)
            counts.append(int(sitk.GetArrayFromImage(resampled).sum()))
        words = "{:5d}, nearest neighbour {:4d}, linear {:4d}, Gaussian {:4d}"
        print(f"  {name + ':':23s}", words.format(*counts))
        differs = differs or counts != STATED[name]
if differs:
    sys.exit("This differs from what is stated.")
PYTHON
