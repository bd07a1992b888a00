#!/usr/bin/env bash
# MedPy's mean surface distance of lesions is 0.9 or 6.6, depending on which end of the image comes first.
#
# Versions: MedPy 0.5.2, numpy 2.4.6, scipy 1.17.1; Python 3.11 or later.
#
# Behaviour: obj_assd first pairs the objects of both masks, one with one, and leaves the others out.
# One predicted object covers a large lesion and a satellite of four pixels beside it. Of the two, MedPy
# takes the one that scipy numbers first, not the one that overlaps more. If both masks are turned upside
# down, it is the satellite, and the distances are those from the large object to it.
#
# Guess before the run: both masks may be mirrored or transposed, and the number stays.
#
# Seen (the same two masks; obj_assd, and assd without pairs):
#   as they are: 0.900, 0.643
#   upside down: 6.601, 0.643
#
# Why it matters: Readers differ in the direction and the order of the axes, nibabel and SimpleITK among
# them. Then the same files have another distance of lesions, and a network whose prediction merges
# neighbours looks good or bad by the side on which the small one lies.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile MedPy==0.5.2 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from medpy.metric.binary import assd, obj_assd

STATED = {"as they are": (0.9, 0.643), "upside down": (6.601, 0.643)}

reference = np.zeros((40, 20), bool)
reference[2:12, 5:15] = True
reference[14:16, 9:11] = True
prediction = np.zeros((40, 20), bool)
prediction[2:16, 5:15] = True

masks = {
    "as they are": (prediction, reference),
    "upside down": (np.flipud(prediction), np.flipud(reference)),
}
seen = {}
for name, pair in masks.items():
    seen[name] = (obj_assd(*pair), assd(*pair))
    print("{}: obj_assd {:.3f}, assd {:.3f}".format(name, *seen[name]))

if any(not np.allclose(seen[name], STATED[name], atol=6e-4) for name in STATED):
    sys.exit("This differs from what is stated.")
PYTHON
