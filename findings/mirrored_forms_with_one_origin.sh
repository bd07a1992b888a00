#!/usr/bin/env bash
# ITK's choice between the two forms of a NIfTI file hangs on the origin, where they are mirrored.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), nibabel 5.4.2, numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: A NIfTI file can hold two affines, an sform and a qform. If both have a code and that of
# the sform is 2, SimpleITK takes the qform, and nibabel the sform. But if the two differ by nothing
# except a mirrored axis and have the same origin, SimpleITK takes them for similar and returns the
# sform. A thousandth of a millimetre in the origin of the sform makes it return the qform: the same
# voxels then point the other way.
#
# Guess before the run: SimpleITK always takes the qform here. It was wrong for equal origins.
#
# Seen (the direction of the first axis, right is positive):
#   origin of the sform 0.000 mm: nibabel -1, SimpleITK -1
#   origin of the sform 0.001 mm: nibabel -1, SimpleITK +1
#
# Why it matters: A reference and a prediction whose headers differ by one thousandth of a millimetre
# are mirror images of each other after resampling, with a Dice of about 0 and no warning. A test
# file with the origin at 0 does not show it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile SimpleITK==2.5.7 nibabel==5.4.2 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import nibabel
import numpy as np
import SimpleITK as sitk

STATED = {0.0: (-1, -1), 0.001: (-1, 1)}

seen = {}
for origin in STATED:
    sform = np.diag([-1.0, 1.0, 1.0, 1.0])
    sform[0, 3] = origin
    header = nibabel.Nifti1Image(np.zeros((4, 3, 2), np.uint8), np.eye(4)).header
    header.set_qform(np.eye(4), code=1)
    header.set_sform(sform, code=2)
    nibabel.save(nibabel.Nifti1Image(np.zeros((4, 3, 2), np.uint8), None, header), "mask.nii")

    by_nibabel = nibabel.load("mask.nii").affine[0, 0]
    # ITK counts from right to left.
    by_itk = -sitk.ReadImage("mask.nii").GetDirection()[0]
    seen[origin] = (round(by_nibabel), round(by_itk))
    print("origin of the sform {:.3f} mm: nibabel {:+d}, SimpleITK {:+d}".format(origin, *seen[origin]))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
