#!/usr/bin/env bash
# A lesion of 49 voxels has no largest component for ANTsPy, which then returns the whole image as mask.
#
# Versions: antspyx 0.6.3, numpy 2.3.5; Python 3.11 or later.
#
# Behaviour: iMath_get_largest_component() leaves out components of fewer than min_size voxels, 50 if
# nobody says otherwise. If none is left, every voxel of the image is 1, not 0. So a lesion of 50 voxels
# comes back as it was, one of 49 as the whole image, and so does a mask without any voxel, whatever the
# min_size. Nothing is said. The function has no documentation; that of the program it is made after names
# the 50, and not what becomes of the others:
# https://manpages.ubuntu.com/manpages/focal/man1/iMath.1.html
#
# Guess before the run: the lesion, or an empty mask; small lesions were met by chance.
#
# Seen (voxels of an image of 27000):
#   lesions of 64 and 27: 64, with min_size=1 64
#   lesion of 50: 50, with min_size=1 50
#   lesion of 49: 27000, with min_size=1 49
#   nothing: 27000, with min_size=1 27000
#
# Why it matters: Keeping the largest component is the usual clean-up of a prediction before it is scored.
# It turns a right prediction of a small lesion, and the right one of a healthy patient, into the worst
# that there is: Dice next to 0, and a volume of litres in a mean over patients.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile antspyx==0.6.3 numpy==2.3.5
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import ants
import numpy as np

STATED = {
    "lesions of 64 and 27": (64, 64),
    "lesion of 50": (50, 50),
    "lesion of 49": (27000, 49),
    "nothing": (27000, 27000),
}


def mask(*boxes):
    voxels = np.zeros((30, 30, 30), np.float32)
    for start, shape in boxes:
        box = tuple(slice(start, start + edge) for edge in shape)
        voxels[box] = 1
    return ants.from_numpy(voxels)


masks = {
    "lesions of 64 and 27": mask((2, (4, 4, 4)), (20, (3, 3, 3))),
    "lesion of 50": mask((5, (2, 5, 5))),
    "lesion of 49": mask((5, (1, 7, 7))),
    "nothing": mask(),
}
seen = {}
for name, image in masks.items():
    largest = ants.iMath_get_largest_component(image)
    of_any_size = ants.iMath_get_largest_component(image, min_size=1)
    seen[name] = (int(largest.sum()), int(of_any_size.sum()))
    print("{}: {}, with min_size=1 {}".format(name, *seen[name]))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
