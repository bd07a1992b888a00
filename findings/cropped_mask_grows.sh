#!/usr/bin/env bash
# Empty slices of a NIfTI mask are cropped with nibabel, and its volume grows from 1000 to 1728 mm3.
#
# Versions: nibabel 5.4.2, SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6, scipy 1.17.1; Python 3.11 or later.
#
# Behaviour: A NIfTI file may have, beside its voxel size, an sform that leads to a template, code 4,
# and the way to a template scales: here by 1.2 along each axis. The voxel size in the header stays that
# of the scanner. nibabel's mask_volume and SimpleITK (with a line on stderr) measure by it. But whatever
# gives the image another affine or a new header makes nibabel compute the voxel size anew, from the
# sform: a crop does, a full slice [:] does not. The resampling to 1 mm measures by the sform, too.
#
# Guess before the run: a crop leaves the voxel size as it is. It was right only without the sform.
#
# Seen (a mask of 10 x 10 x 10 voxels; mm3 by nibabel, by SimpleITK):
#   no sform of a template: as it is 1000, 1000; cropped 1000, 1000; resampled to 1 mm 1000, 1000
#   sform of a template:    as it is 1000, 1000; cropped 1728, 1728; resampled to 1 mm 1728, 1728
#
# Why it matters: Masks are cropped to what they hold before they are stored or shared. A lesion then has
# another volume and other distances in mm than in the file that it came from, and a cohort in which only
# some images were registered is in two units. That the two fields disagree in such files is known:
# https://github.com/NIFTI-Imaging/nifti_clib/issues/127
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    nibabel==5.4.2 SimpleITK==2.5.7 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - 2>stderr <<'PYTHON' || { cat stderr; exit 1; }
import math
import sys

import nibabel
import numpy as np
import SimpleITK
from nibabel.imagestats import mask_volume
from nibabel.processing import resample_to_output

STATED = {
    "no sform of a template": {
        "as it is": (1000, 1000),
        "cropped": (1000, 1000),
        "resampled to 1 mm": (1000, 1000),
    },
    "sform of a template": {
        "as it is": (1000, 1000),
        "cropped": (1728, 1728),
        "resampled to 1 mm": (1728, 1728),
    },
}


def volumes(image):
    nibabel.save(image, "mask.nii.gz")
    by_nibabel = mask_volume(nibabel.load("mask.nii.gz"))
    read = SimpleITK.ReadImage("mask.nii.gz")
    n_voxels = int(SimpleITK.GetArrayFromImage(read).sum())
    return round(by_nibabel), round(n_voxels * math.prod(read.GetSpacing()))


voxels = np.zeros((24, 24, 24), np.uint8)
voxels[7:17, 7:17, 7:17] = 1
seen = {}
for name in STATED:
    nibabel.save(nibabel.Nifti1Image(voxels, np.eye(4)), "original.nii.gz")
    image = nibabel.load("original.nii.gz")
    image.set_qform(np.eye(4), code="scanner")
    if name == "sform of a template":
        image.set_sform(np.diag([1.2, 1.2, 1.2, 1]), code="mni")
    seen[name] = {
        "as it is": volumes(image),
        "cropped": volumes(image.slicer[2:]),
        "resampled to 1 mm": volumes(resample_to_output(image, 1.0, order=0)),
    }
    words = "; ".join("{} {}, {}".format(step, *pair) for step, pair in seen[name].items())
    print(f"{name}: {words}")

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
