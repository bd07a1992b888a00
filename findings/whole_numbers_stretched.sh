#!/usr/bin/env bash
# An organ's label is lost in the masks that also have a tumour, when nibabel saves floats as bytes.
#
# Versions: nibabel 5.4.2, numpy 2.4.6, SimpleITK 2.5.7; Python 3.11 or later.
#
# Behaviour: get_fdata() gives a mask as floats. If an array of floats is saved with
# set_data_dtype(numpy.uint8), nibabel does not store its numbers, even where all are whole and fit: it
# stretches the range from the least to the largest one to 0 ... 255, and writes the factor into the
# header. A label that is not a multiple of 1/255 of the largest one comes back next to a whole number.
# Code that reads the file and casts it to integers gets the whole number below. Where the largest label
# is 1, 3 or 5, all labels come back as they were, and where it is 2, 4 or 7 they do not. An array of
# integers is stored as it is.
#
# Guess before the run: whole numbers that fit into bytes are stored as they are.
#
# Seen (labels as nibabel reads them, the same cast to integers, and what SimpleITK casts them to):
#   labels 0 to 1: 0.000 1.000                         cast 0 1        SimpleITK 0 1
#   labels 0 to 2: 0.000 0.996 2.000                   cast 0 0 2      SimpleITK 0 0 2
#   labels 0 to 3: 0.000 1.000 2.000 3.000             cast 0 1 2 3    SimpleITK 0 1 2 3
#   labels 0 to 4: 0.000 1.004 1.992 2.996 4.000       cast 0 1 1 2 4  SimpleITK 0 1 1 2 4
#   integers 0 to 4: 0.000 1.000 2.000 3.000 4.000     cast 0 1 2 3 4  SimpleITK 0 1 2 3 4
#
# Why it matters: With 1 for the organ and 2 for the tumour, healthy patients keep their organ and those
# with a tumour lose it: a perfect prediction then has a Dice of 0 for the organ in just these patients.
# The file holds bytes, as was asked for, and its picture looks right.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile nibabel==5.4.2 numpy==2.4.6 SimpleITK==2.5.7
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import nibabel
import numpy as np
import SimpleITK as sitk

#: The labels as they are cast to integers, by the largest one and the type of the array.
STATED = {
    (1, float): [0, 1],
    (2, float): [0, 0, 2],
    (3, float): [0, 1, 2, 3],
    (4, float): [0, 1, 1, 2, 4],
    (4, int): [0, 1, 2, 3, 4],
}

seen = {}
for largest, kind in STATED:
    labels = np.arange(largest + 1)
    volume = np.broadcast_to(labels, (5, 5, largest + 1)).astype(kind)
    mask = nibabel.Nifti1Image(volume, np.eye(4), dtype=np.uint8)
    mask.set_data_dtype(np.uint8)
    nibabel.save(mask, "mask.nii")

    read = nibabel.load("mask.nii").get_fdata()[0, 0]
    cast = read.astype(np.uint8).tolist()
    image = sitk.Cast(sitk.ReadImage("mask.nii"), sitk.sitkUInt8)
    by_itk = sitk.GetArrayFromImage(image)[:, 0, 0].tolist()
    seen[largest, kind] = cast
    numbers = " ".join(f"{value:.3f}" for value in read)
    what = "labels" if kind is float else "integers"
    print(f"{what} 0 to {largest}: {numbers}, cast {cast}, SimpleITK {by_itk}")
    if by_itk != cast:
        sys.exit("This differs from what is stated.")

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
