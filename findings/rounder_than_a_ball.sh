#!/usr/bin/env bash
# SimpleITK gives a small lesion half of its surface, and a roundness that not even a ball has.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: Roundness is the surface of a ball of the same volume, divided by the lesion's own surface.
# No body has more than 1, and a cube has 0.81, whatever its size. Where SimpleITK computes both, a cube
# of one voxel has 1.61 and one of 20 x 20 x 20 voxels 0.90. The surface (GetPerimeter) is estimated
# from lines through the voxels: that of one voxel is 3.0 of its 6 faces, that of the large cube 0.90 of
# its faces.
#
# Guess before the run: the surface of one voxel is that of its six faces, 6 mm2, and its roundness 0.81.
#
# Seen (cubes, voxels of 1 mm):
#   side of  1 voxels: 0.50 of the true surface, roundness 1.61
#   side of  2 voxels: 0.69 of the true surface, roundness 1.17
#   side of  5 voxels: 0.82 of the true surface, roundness 0.98
#   side of 20 voxels: 0.90 of the true surface, roundness 0.90
#
# Why it matters: The estimate is made for smooth bodies, and for large ones it is near the truth. But
# the error has the size of a lesion in it: small lesions seem rounder than large ones of the same form.
# A model of roundness, or strata by it, then divides lesions by size under another name.
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

STATED = {1: (0.50, 1.61), 2: (0.69, 1.17), 5: (0.82, 0.98), 20: (0.90, 0.90)}

shape = sitk.LabelShapeStatisticsImageFilter()
shape.ComputePerimeterOn()

seen = {}
for side in STATED:
    mask = np.zeros((30, 30, 30), np.uint8)
    mask[3 : 3 + side, 3 : 3 + side, 3 : 3 + side] = 1
    shape.Execute(sitk.GetImageFromArray(mask))
    seen[side] = (shape.GetPerimeter(1) / (6 * side**2), shape.GetRoundness(1))
    words = "side of {:2d} voxels: {:.2f} of the true surface, roundness {:.2f}"
    print(words.format(side, *seen[side]))

if any(not np.allclose(seen[side], STATED[side], atol=0.005) for side in STATED):
    sys.exit("This differs from what is stated.")
PYTHON
