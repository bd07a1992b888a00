#!/usr/bin/env bash
# MISeval's Hausdorff distance of a lesion and of the same lesion 20 rows below is 0.
#
# Versions: miseval 1.3.0, hausdorff 0.2.6, MedPy 0.5.2, numpy 2.4.6, scipy 1.17.1; Python 3.11 or later.
#
# Behaviour: evaluate(reference, prediction, metric="HD") hands the masks as they are to the package
# hausdorff, which takes an array for a list of points: each row is one point, and its pixels are the
# coordinates. So rows may change places as they like, and the distance is 0. A shift along the rows
# gives a number that cannot grow beyond the square root of the pixels in which two rows differ. A missed
# lesion gets no more than one that is found 20 columns away.
#
# Guess before the run, by the source: 0 for the shift by rows. That a missed lesion gets the same
# as one that is found elsewhere was not guessed.
#
# Seen (a disc with a radius of 8 in 64 x 64 pixels; MISeval, MedPy):
#   1 row below: 0.00, 1.00
#   20 rows below: 0.00, 20.00
#   1 column to the right: 1.41, 1.00
#   20 columns to the right: 4.12, 20.00
#   20 of both: 4.12, 28.28
#   missed: 4.12, an error
#
# Why it matters: A paper with "Hausdorff distance" from MISeval has numbers that look like pixels, are
# small, and ignore where the lesion is along one axis: which one depends on how the image lies in the
# array. Missed lesions do not stand out in their mean.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    miseval==1.3.0 hausdorff==0.2.6 MedPy==0.5.2 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from medpy.metric import binary
from miseval import evaluate

STATED = {
    "1 row below": (0, 1),
    "20 rows below": (0, 20),
    "1 column to the right": (1.414, 1),
    "20 columns to the right": (4.123, 20),
    "20 of both": (4.123, 28.284),
    "missed": (4.123, None),
}


def disc(row, column):
    rows, columns = np.mgrid[:64, :64]
    return ((rows - row) ** 2 + (columns - column) ** 2 <= 8**2).astype(int)


reference = disc(20, 20)
predictions = {
    "1 row below": disc(21, 20),
    "20 rows below": disc(40, 20),
    "1 column to the right": disc(20, 21),
    "20 columns to the right": disc(20, 40),
    "20 of both": disc(40, 40),
    "missed": np.zeros_like(reference),
}
differs = False
for name, prediction in predictions.items():
    by_miseval = float(evaluate(reference, prediction, metric="HD"))
    try:
        by_medpy = float(binary.hd(prediction, reference))
        words = f"{by_medpy:.2f}"
    except RuntimeError:
        by_medpy, words = None, "an error"
    print(f"{name}: {by_miseval:.2f}, {words}")
    miseval_stated, medpy_stated = STATED[name]
    differs |= not np.isclose(by_miseval, miseval_stated, atol=6e-4)
    differs |= (by_medpy is None) != (medpy_stated is None)
    differs |= by_medpy is not None and not np.isclose(by_medpy, medpy_stated, atol=6e-4)

if differs:
    sys.exit("This differs from what is stated.")
PYTHON
