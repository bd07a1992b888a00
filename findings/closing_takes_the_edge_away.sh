#!/usr/bin/env bash
# A closing should only add. scipy's takes half of an organ away where it reaches the edge of the image.
#
# Versions: scipy 1.17.1, scikit-image 0.26.0, SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: A closing dilates a mask and erodes it again. binary_closing() takes what lies beyond the image
# for background, also in the erosion. So where a mask reaches the edge, it loses as many slices as the
# closing is wide. With border_value=1 it loses none, but in the dilation the mask then also grows from all
# edges inwards: what lies between the organ and an edge is filled, here the whole image. The closings of
# scikit-image and SimpleITK leave the organ as it is. The documentation names the parameter and its
# default, and says neither.
#
# Guess before the run: a closing never takes a voxel away.
#
# Seen (an organ of 6 x 6 x 6 voxels in an image of 16 x 16 x 16, in the middle and in the first slices;
# voxels after closings with cubes that reach 1, 2 and 3 voxels far):
#   in the middle:
#     scipy:                  216  216  216
#     scipy, border_value=1:  216  216 4096
#     scikit-image:           216  216  216
#     SimpleITK:              216  216  216
#   in the first slices:
#     scipy:                  180  144  108
#     scipy, border_value=1:  216  216 1536
#     scikit-image:           216  216  216
#     SimpleITK:              216  216  216
#
# Why it matters: Liver, lungs and spine often reach the first or last slice of a scan, and masks are closed
# to smooth them or to fill gaps. Their ends are then missing, in references as in predictions, and only in
# scans that are cut there: in those of a centre with a shorter field of view, for example.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    scipy==1.17.1 scikit-image==0.26.0 SimpleITK==2.5.7 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import SimpleITK as sitk
from scipy import ndimage
from skimage.morphology import closing

STATED = {
    "in the middle": {
        "scipy": [216, 216, 216],
        "scipy, border_value=1": [216, 216, 4096],
        "scikit-image": [216, 216, 216],
        "SimpleITK": [216, 216, 216],
    },
    "in the first slices": {
        "scipy": [180, 144, 108],
        "scipy, border_value=1": [216, 216, 1536],
        "scikit-image": [216, 216, 216],
        "SimpleITK": [216, 216, 216],
    },
}


def cube(radius):
    return np.ones([2 * radius + 1] * 3, bool)


def by_simpleitk(mask, radius):
    image = sitk.GetImageFromArray(mask.astype(np.uint8))
    closed = sitk.BinaryMorphologicalClosing(image, [radius] * 3, sitk.sitkBox)
    return sitk.GetArrayFromImage(closed)


TOOLS = {
    "scipy": lambda mask, radius: ndimage.binary_closing(mask, cube(radius)),
    "scipy, border_value=1": lambda mask, radius: ndimage.binary_closing(
        mask, cube(radius), border_value=1
    ),
    "scikit-image": lambda mask, radius: closing(mask, cube(radius)),
    "SimpleITK": by_simpleitk,
}
FIRST_VOXELS = {"in the middle": (5, 5, 5), "in the first slices": (0, 5, 5)}

differs = False
for place, first in FIRST_VOXELS.items():
    print(f"{place}:")
    mask = np.zeros((16, 16, 16), bool)
    mask[tuple(slice(start, start + 6) for start in first)] = True
    for name, close in TOOLS.items():
        seen = [int(close(mask, radius).sum()) for radius in (1, 2, 3)]
        print("  {:22s} {:4d} {:4d} {:4d}".format(name + ":", *seen))
        differs = differs or seen != STATED[place][name]
if differs:
    sys.exit("This differs from what is stated.")
PYTHON
