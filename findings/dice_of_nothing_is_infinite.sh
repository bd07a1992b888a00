#!/usr/bin/env bash
# SimpleITK's Dice of two empty masks is infinite, its Jaccard index 1.8e308, and its Dice of label 1 is 0.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4); Python 3.9 or later.
#
# Behaviour: LabelOverlapMeasuresImageFilter does not raise where neither mask has a voxel. Its Dice
# over all labels is infinity. The Jaccard index, volume similarity and false negative error are the
# largest finite double. The Dice of label 1 of the same two masks is 0.0, as if the label had been
# missed, with a line on stderr. Only one of these four is caught by a filter for inf and nan.
#
# Guess before the run: nan, or an error.
#
# Seen:
#   Dice inf, Jaccard 1.7976931348623157e+308, false negatives 1.7976931348623157e+308, Dice of label 1 0.0
#
# Why it matters: One patient without a lesion, rightly predicted, makes the mean Dice of a study
# infinite or lowers it, depending on whether the label is named in the call; the mean Jaccard index
# becomes a finite number that numpy's isfinite lets pass.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile SimpleITK==2.5.7
cd "$folder"

venv/bin/python - <<'PYTHON'
import math
import sys

import SimpleITK as sitk

LARGEST = sys.float_info.max
STATED = (math.inf, LARGEST, LARGEST, 0.0)

empty = sitk.Image(8, 8, 8, sitk.sitkUInt8)
overlap = sitk.LabelOverlapMeasuresImageFilter()
overlap.Execute(empty, empty)
seen = (
    overlap.GetDiceCoefficient(),
    overlap.GetJaccardCoefficient(),
    overlap.GetFalseNegativeError(),
    overlap.GetDiceCoefficient(1),
)
print("Dice {}, Jaccard {}, false negatives {}, Dice of label 1 {}".format(*seen))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
