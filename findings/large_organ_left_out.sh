#!/usr/bin/env bash
# In half precision MONAI gives a large organ an IoU of 0, and leaves its Dice out of the mean.
#
# Versions: MONAI 1.6.1, torch 2.13.0, numpy 2.4.6; Python 3.11 or later. Run on a CPU.
#
# Behaviour: MONAI takes masks of any type of number, and counts their voxels in that type. In float16
# there is no number above 65504, so that larger counts, and sums of two, are infinite. What comes of it
# differs by metric and by which of the masks is in float16. If it is the prediction, the IoU of a large
# organ is 0. If it is both, the IoU is 0 or nan, the sensitivity 0 and the Dice nan. The mean over cases
# leaves out nan, as it does for an organ that is absent. Nothing is said. A prediction that MONAI's
# AsDiscrete made is in float32; sigmoid().round() of a network in mixed precision is in float16.
#
# Guess before the run: an error, or numbers that differ in the third decimal.
#
# Seen (an organ of 20, 40, 70 and 100 thousand voxels, of which a tenth is missed; and the mean):
#   both in float32:
#     IoU         0.90 0.90 0.90 0.90, mean 0.90
#     Dice        0.95 0.95 0.95 0.95, mean 0.95
#     sensitivity 0.90 0.90 0.90 0.90, mean 0.90
#   prediction in float16:
#     IoU         0.90 0.90 0.90 0.00, mean 0.67
#     Dice        0.95 0.95 0.95 0.95, mean 0.95
#     sensitivity 0.90 0.90 0.90 0.90, mean 0.90
#   both in float16:
#     IoU         0.90 0.00 0.00  nan, mean 0.30
#     Dice        0.95  nan  nan  nan, mean 0.95
#     sensitivity 0.90 0.90 0.00 0.00, mean 0.45
#
# Why it matters: A liver has more than 100 thousand voxels, and masks in float16 take half of the
# memory. A good network looks as if it had missed the large organs, or is judged by the small ones
# alone: the mean Dice then stays as it is, however poor the large ones are.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile monai==1.6.1 torch==2.13.0 numpy==2.4.6
cd "$folder"

venv/bin/python -W ignore - <<'PYTHON'
import sys

import torch
from monai.metrics import ConfusionMatrixMetric, DiceMetric, MeanIoU

TYPES = {
    "both in float32": (torch.float32, torch.float32),
    "prediction in float16": (torch.float16, torch.float32),
    "both in float16": (torch.float16, torch.float16),
}
STATED = {
    "both in float32": {
        "IoU": "0.90 0.90 0.90 0.90, mean 0.90",
        "Dice": "0.95 0.95 0.95 0.95, mean 0.95",
        "sensitivity": "0.90 0.90 0.90 0.90, mean 0.90",
    },
    "prediction in float16": {
        "IoU": "0.90 0.90 0.90 0.00, mean 0.67",
        "Dice": "0.95 0.95 0.95 0.95, mean 0.95",
        "sensitivity": "0.90 0.90 0.90 0.90, mean 0.90",
    },
    "both in float16": {
        "IoU": "0.90 0.00 0.00  nan, mean 0.30",
        "Dice": "0.95  nan  nan  nan, mean 0.95",
        "sensitivity": "0.90 0.90 0.00 0.00, mean 0.45",
    },
}
VOXELS = (20_000, 40_000, 70_000, 100_000)


def one_hot(first, last):
    """Background and organ, shape (1, 2, 64, 64, 64); the organ has voxels first to last."""
    masks = torch.zeros(2, 64**3)
    masks[1, first:last] = 1
    masks[0] = 1 - masks[1]
    return masks.view(1, 2, 64, 64, 64)


def scores(metric, prediction_type, reference_type):
    """The score of each organ, and the mean that MONAI makes of them."""
    cases = []
    for n_voxels in VOXELS:
        reference = one_hot(0, n_voxels).to(reference_type)
        prediction = one_hot(n_voxels // 10, n_voxels).to(prediction_type)
        metric(prediction, reference)
        cases.append((prediction, reference))
    mean = metric.aggregate()
    mean = mean[0] if isinstance(mean, list) else mean

    each = []
    for prediction, reference in cases:
        metric.reset()
        metric(prediction, reference)
        value = metric.aggregate("none")
        each.append(value[0] if isinstance(value, list) else value)
    words = " ".join(f"{float(value):4.2f}" for value in each)
    return f"{words}, mean {float(mean):.2f}"


differs = False
for name, types in TYPES.items():
    print(f"{name}:")
    metrics = {
        "IoU": MeanIoU(include_background=False),
        "Dice": DiceMetric(include_background=False),
        "sensitivity": ConfusionMatrixMetric(
            include_background=False, metric_name="sensitivity", compute_sample=True
        ),
    }
    for metric_name, metric in metrics.items():
        seen = scores(metric, *types)
        print(f"  {metric_name:11s} {seen}")
        differs = differs or seen != STATED[name][metric_name]
if differs:
    sys.exit("This differs from what is stated.")
PYTHON
