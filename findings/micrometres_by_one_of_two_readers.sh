#!/usr/bin/env bash
# Of a NIfTI mask in micrometres, SimpleITK gives the voxel size in mm, and nibabel as it stands.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), nibabel 5.4.2, MedPy 0.5.2, numpy 2.4.6, scipy 1.17.1; Python
# 3.11 or later.
#
# Behaviour: A NIfTI header names the unit of its voxel sizes. Where it is the micrometre, SimpleITK
# multiplies by a thousandth, and nibabel hands out the number of the header; it has the unit beside
# it, which nobody has to look at. So the same distance, computed by the same function, is a thousand
# times as large with one reader as with the other. MedPy's own reader is SimpleITK's.
#
# Guess before the run: MedPy, which also has code for nibabel, gives the number as it stands.
#
# Seen (two cubes, shifted by 3 voxels of 0.5 in the header):
#   header in mm: voxel 0.5 and 0.5, MedPy's HD95 1.5 and 1.5 by SimpleITK and by nibabel
#   header in micrometres: voxel 0.0005 and 0.5, MedPy's HD95 0.0015 and 1.5
#
# Why it matters: Microscopy and micro-CT are stored in micrometres. nnU-Net has a reader of either
# kind, and metrics take the voxel size from one of them; a tolerance of 1 mm for the surface Dice is
# then met by every pair of masks or is one micrometre.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    SimpleITK==2.5.7 nibabel==5.4.2 MedPy==0.5.2 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import nibabel
import numpy as np
from medpy.io import load
from medpy.metric import binary

STATED = {"mm": (0.5, 0.5, 1.5, 1.5), "micron": (0.0005, 0.5, 0.0015, 1.5)}

seen = {}
for unit in STATED:
    for name, start in (("reference", 4), ("prediction", 7)):
        mask = np.zeros((16, 16, 16), np.uint8)
        mask[start : start + 6, 4:10, 4:10] = 1
        image = nibabel.Nifti1Image(mask, np.diag([0.5, 0.5, 0.5, 1]))
        image.header.set_xyzt_units(unit)
        nibabel.save(image, f"{name}_{unit}.nii.gz")

    reference, header = load(f"reference_{unit}.nii.gz")
    prediction, _ = load(f"prediction_{unit}.nii.gz")
    by_simpleitk = header.get_voxel_spacing()
    by_nibabel = nibabel.load(f"reference_{unit}.nii.gz").header.get_zooms()
    seen[unit] = (
        by_simpleitk[0],
        by_nibabel[0],
        binary.hd95(prediction, reference, voxelspacing=by_simpleitk),
        binary.hd95(prediction, reference, voxelspacing=by_nibabel),
    )
    print("header in {}: voxel {:g} and {:g}, HD95 {:g} and {:g}".format(unit, *seen[unit]))

if any(not np.allclose(seen[unit], STATED[unit], rtol=1e-3) for unit in STATED):
    sys.exit("This differs from what is stated.")
PYTHON
