#!/usr/bin/env bash
# One slice scores a seventh of its surface distance once it is stored as a volume of one slice.
#
# Versions: MedPy 0.5.2, surface-distance 0.1, numpy 2.4.6, scipy 1.17.1; Python 3.11 or later.
#
# Behaviour: Both tools take arrays of two and of three dimensions. In an array of shape (1, 64, 64)
# every voxel of a mask touches the end of the volume, so that every voxel is surface, and the inside,
# where both masks agree, enters the statistics with distance 0. The same two discs, 4 pixels apart, get
# 2.37 and 0.34 as the mean distance, and 0.42 and 0.95 as the share of the surface within 2 mm.
#
# Guess before the run: MedPy differs; surface-distance, whose surface runs between voxels, does not.
# The second half was wrong.
#
# Seen:
#   (64, 64):    MedPy assd 2.372, hd95 4.000; surface-distance hd95 4.000, surface Dice at 2 mm 0.425
#   (1, 64, 64): MedPy assd 0.343, hd95 2.828; surface-distance hd95 2.236, surface Dice at 2 mm 0.947
#
# Why it matters: Readers of 2-D images hand out arrays of shape (1, height, width), nnU-Net's among
# them. Whether somebody squeezes the array before scoring decides whether a network looks mediocre or
# good, and nothing in the output shows which was done.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    MedPy==0.5.2 surface-distance==0.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import surface_distance
from medpy.metric import binary

STATED = {(64, 64): (2.372, 4.0, 4.0, 0.425), (1, 64, 64): (0.343, 2.828, 2.236, 0.947)}

row, column = np.mgrid[:64, :64]
reference = (row - 32) ** 2 + (column - 32) ** 2 <= 15**2
prediction = (row - 32) ** 2 + (column - 36) ** 2 <= 15**2

seen = {}
for shape in STATED:
    masks = (reference.reshape(shape), prediction.reshape(shape))
    distances = surface_distance.compute_surface_distances(*masks, (1.0,) * len(shape))
    seen[shape] = (
        binary.assd(*masks),
        binary.hd95(*masks),
        surface_distance.compute_robust_hausdorff(distances, 95),
        surface_distance.compute_surface_dice_at_tolerance(distances, 2),
    )
    print(
        "{}: MedPy assd {:.3f}, hd95 {:.3f}; "
        "surface-distance hd95 {:.3f}, surface Dice at 2 mm {:.3f}".format(shape, *seen[shape])
    )

if any(not np.allclose(seen[shape], STATED[shape], atol=6e-4) for shape in STATED):
    sys.exit("This differs from what is stated.")
PYTHON
