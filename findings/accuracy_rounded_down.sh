#!/usr/bin/env bash
# The accuracy of grand-challenge-metrics is 0 for a mask with 99 of 100 pixels right.
#
# Versions: grand-challenge-metrics 0.6.0, numpy 2.4.6, scipy 1.17.1, scikit-learn 1.9.1; Python 3.11 or
# later.
#
# Behaviour: accuracies_from_confusion_matrix() returns an accuracy per label, the share of pixels that are
# rightly this label or rightly another. It rounds each of them down to a whole number: it is 1 where all
# pixels are right, and 0 otherwise. dice_from_confusion_matrix(), of the same matrix, returns fractions.
# evalutils 0.4.2, as the package was called before, has the same code; it is not installed here.
#
# Guess before the run, by the documentation: the share of right pixels; by the source: what was seen.
#
# Seen (100 pixels with the labels 0, 1 and 2; accuracy by the package, as counted, Dice by the package):
#   one pixel of label 1 missed: accuracy 0 0 1, counted 0.99 0.99 1.00, Dice 0.99 0.98 1.00
#   label 1 missed:              accuracy 0 0 1, counted 0.68 0.68 1.00, Dice 0.80 0.00 1.00
#   nothing missed:              accuracy 1 1 1, counted 1.00 1.00 1.00, Dice 1.00 1.00 1.00
#
# Why it matters: The package is made for the evaluation of challenges. By this number a nearly perfect
# method and one that misses an organ are equal, and its mean over cases is the share of perfect cases,
# which looks like an accuracy.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    grand-challenge-metrics==0.6.0 numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from grand_challenge_metrics.stats import (
    accuracies_from_confusion_matrix,
    calculate_confusion_matrix,
    dice_from_confusion_matrix,
)

LABELS = [0, 1, 2]
STATED = {
    "one pixel of label 1 missed": ([0, 0, 1], [0.99, 0.99, 1], [0.99, 0.98, 1]),
    "label 1 missed": ([0, 0, 1], [0.68, 0.68, 1], [0.8, 0, 1]),
    "nothing missed": ([1, 1, 1], [1, 1, 1], [1, 1, 1]),
}

reference = np.zeros((10, 10), int)
reference[2:8, 2:8] = 1
reference[4:6, 4:6] = 2
predictions = {name: reference.copy() for name in STATED}
predictions["one pixel of label 1 missed"][2, 2] = 0
predictions["label 1 missed"][reference == 1] = 0

differs = False
for name, prediction in predictions.items():
    matrix = calculate_confusion_matrix(reference, prediction, LABELS)
    accuracies = accuracies_from_confusion_matrix(matrix)
    counted = [((reference == label) == (prediction == label)).mean() for label in LABELS]
    dice = dice_from_confusion_matrix(matrix)

    columns = [" ".join(f"{value:.2f}" for value in values) for values in (counted, dice)]
    whole = " ".join(f"{value:g}" for value in accuracies)
    print("{}: accuracy {}, counted {}, Dice {}".format(name, whole, *columns))
    differs |= not np.allclose((accuracies, counted, dice), STATED[name], atol=6e-3)

if differs:
    sys.exit("This differs from what is stated.")
PYTHON
