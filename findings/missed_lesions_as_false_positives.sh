#!/usr/bin/env bash
# Three of four lesions are missed: MedPy's true positive rate is 1, its false positive rate 0.75.
#
# Versions: MedPy 0.5.2, numpy 2.4.6, scipy 1.17.1; Python 3.11 or later.
#
# Behaviour: obj_tpr(result, reference) divides by the objects of the result: it is the share of found
# objects that are right. obj_fpr(result, reference) divides by the objects of the reference: it is the
# share of lesions that were missed. So neither sees what its name says. Their documentation says both:
# "objects in result" that exist in the reference, and that 1 tells "that all distinct binary objects in
# the reference array also exist in the result array". The second is not so here.
#
# Guess before the run: 0.25 and 0 for the first pair, 1 and 0.75 for the second.
#
# Seen:
#   4 lesions, 1 found, none invented: obj_tpr 1.00, obj_fpr 0.75
#   1 lesion, found, 3 invented:       obj_tpr 0.25, obj_fpr 0.00
#
# Why it matters: Of two networks, the one that finds one lesion of four has the perfect detection rate,
# and its misses are reported as false alarms. Whoever swaps the arguments gets the rates of these names.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile MedPy==0.5.2 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from medpy.metric.binary import obj_fpr, obj_tpr

STATED = {
    "4 lesions, 1 found, none invented": (1.0, 0.75),
    "1 lesion, found, 3 invented": (0.25, 0.0),
}

four = np.zeros((16, 16), bool)
for row in (2, 10):
    for column in (2, 10):
        four[row : row + 3, column : column + 3] = True
one = np.zeros((16, 16), bool)
one[2:5, 2:5] = True

masks = {
    "4 lesions, 1 found, none invented": {"reference": four, "result": one},
    "1 lesion, found, 3 invented": {"reference": one, "result": four},
}
seen = {}
for name, pair in masks.items():
    seen[name] = (obj_tpr(**pair), obj_fpr(**pair))
    print("{}: obj_tpr {:.2f}, obj_fpr {:.2f}".format(name, *seen[name]))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
