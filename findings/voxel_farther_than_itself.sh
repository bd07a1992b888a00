#!/usr/bin/env bash
# The surface Dice at a tolerance of one voxel falls from 1 to 0.67 where the mask is stored as NIfTI.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), surface-distance 0.1, numpy 2.4.6, scipy 1.17.1; Python 3.11 or
# later.
#
# Behaviour: A NIfTI header keeps voxel sizes as 32-bit floats. SimpleITK hands out 0.8 mm as
# 0.800000011920929, and from .mha, which keeps decimals, as 0.8. surface-distance asks whether a
# distance is at most the tolerance. So what is off by one voxel of 0.8 mm is within 0.8 mm by .mha, and
# outside by .nii.gz. With voxels of 0.7 or 0.9 mm, which the header rounds down, both say within.
#
# Guess before the run: 1 for each of these files.
#
# Seen (a cube, shifted by one voxel; tolerance: the edge of a voxel):
#   voxels of 0.7 mm: .mha 1.000, .nii.gz 1.000
#   voxels of 0.8 mm: .mha 1.000, .nii.gz 0.666
#   voxels of 0.9 mm: .mha 1.000, .nii.gz 1.000
#   voxels of 1.2 mm: .mha 1.000, .nii.gz 0.666
#
# Why it matters: One voxel is a usual tolerance, and distances of masks are mostly a few whole voxels.
# Whether they count then depends on the format, and in one table on the scanner: its voxel size is
# rounded up or down.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    SimpleITK==2.5.7 surface-distance==0.1 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import SimpleITK
from surface_distance import compute_surface_dice_at_tolerance, compute_surface_distances

STATED = {0.7: (1, 1), 0.8: (1, 0.666), 0.9: (1, 1), 1.2: (1, 0.666)}

reference = np.zeros((24, 24, 24), bool)
reference[6:16, 6:16, 6:16] = True
prediction = np.roll(reference, 1, axis=0)

seen = {}
for voxel_mm in STATED:
    scores = []
    for name in ("reference.mha", "reference.nii.gz"):
        image = SimpleITK.GetImageFromArray(reference.astype(np.uint8))
        image.SetSpacing([voxel_mm] * 3)
        SimpleITK.WriteImage(image, name)
        spacing = SimpleITK.ReadImage(name).GetSpacing()
        distances = compute_surface_distances(reference, prediction, spacing)
        scores.append(compute_surface_dice_at_tolerance(distances, voxel_mm))
    seen[voxel_mm] = scores
    print("voxels of {} mm: .mha {:.3f}, .nii.gz {:.3f}".format(voxel_mm, *scores))

if any(not np.allclose(seen[voxel_mm], STATED[voxel_mm], atol=6e-4) for voxel_mm in STATED):
    sys.exit("This differs from what is stated.")
PYTHON
