#!/usr/bin/env bash
# An invented tumour costs nothing, most or all of a case's score, by who else is in the batch.
#
# Versions: torchmetrics 1.9.0, torch 2.13.0, numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: The generalized Dice weighs each label by one over its squared volume in the reference. Where
# the label is absent, this is infinite. torchmetrics then takes the largest weight of that label among
# the cases that were handed over together, and 0 where no other has it. So the prediction of a tumour in
# a healthy patient has a score of 1 if it is scored alone. Beside a patient with a large tumour the same
# prediction has 0.39, and beside one with a small tumour 0.01: the smaller the tumour of another patient,
# the lower the score of this one. What the function returns per case, and what the class averages, differ
# alike. The weights may be one over the volume, too (weight_type="simple"), with the same effect.
#
# Guess before the run, by its documentation: the score of a case is that case's own, so that the mean
# over four cases is the same whether they come one by one or together.
#
# Seen (32 x 32 pixels, an organ of 16 x 16; generalized_dice_score of a case in which 4 x 4 pixels of
# tumour are predicted that are not there, and the mean of four cases by GeneralizedDiceScore):
#   alone: 1.000
#   beside a healthy case: 1.000
#   beside a case with a tumour of 6 x 6: 0.388
#   beside a case with a tumour of 2 x 2: 0.008
#   mean, one case at a time: 1.000
#   mean, two cases at a time: 1.000
#   mean, four cases at a time: 0.992
#
# Why it matters: A model that finds tumours in healthy patients has a perfect score in an evaluation
# case by case, and another one with another batch size or another order of the cases.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import torch
from torchmetrics.functional.segmentation import generalized_dice_score
from torchmetrics.segmentation import GeneralizedDiceScore

STATED = {
    "alone": 1,
    "beside a healthy case": 1,
    "beside a case with a tumour of 6 x 6": 0.388,
    "beside a case with a tumour of 2 x 2": 0.008,
    "mean, one case at a time": 1,
    "mean, two cases at a time": 1,
    "mean, four cases at a time": 0.992,
}
ORGAN, TUMOUR = 1, 2
OPTIONS = {"num_classes": 3, "include_background": False, "input_format": "index"}


def with_square(label_map, label, *, begin, size):
    changed = label_map.clone()
    changed[begin : begin + size, begin : begin + size] = label
    return changed


healthy = with_square(torch.zeros(32, 32, dtype=torch.long), ORGAN, begin=8, size=16)
invented = with_square(healthy, TUMOUR, begin=26, size=4)
large = with_square(healthy, TUMOUR, begin=0, size=6)
small = with_square(healthy, TUMOUR, begin=0, size=2)


def score(*others):
    """That of the invented tumour, handed over together with perfect predictions of others."""
    predictions = torch.stack([*others, invented])
    references = torch.stack([*others, healthy])
    return float(generalized_dice_score(predictions, references, **OPTIONS)[-1])


def mean(batch_size):
    predictions = torch.stack([healthy, invented, small, large])
    references = torch.stack([healthy, healthy, small, large])
    metric = GeneralizedDiceScore(**OPTIONS)
    for batch in zip(predictions.split(batch_size), references.split(batch_size)):
        metric.update(*batch)
    return float(metric.compute())


seen = {
    "alone": score(),
    "beside a healthy case": score(healthy),
    "beside a case with a tumour of 6 x 6": score(large),
    "beside a case with a tumour of 2 x 2": score(small),
    "mean, one case at a time": mean(1),
    "mean, two cases at a time": mean(2),
    "mean, four cases at a time": mean(4),
}
for name, value in seen.items():
    print(f"{name}: {value:.3f}")

if any(abs(seen[name] - STATED[name]) > 6e-4 for name in STATED):
    sys.exit("This differs from what is stated.")
PYTHON
