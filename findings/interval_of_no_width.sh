#!/usr/bin/env bash
# Given one volume at a time, the multinomial bootstrap of torchmetrics has an interval of no width.
#
# Versions: torchmetrics 1.9.0, torch 2.13.0, numpy 2.4.6; Python 3.11 or later. Run on a CPU.
#
# Behaviour: BootStrapper wraps a metric, draws cases with replacement, and returns quantiles. With
# sampling_strategy="multinomial" it draws among the cases that are handed over together. All at once give
# the bootstrap. One at a time, there is one case to draw, and each of the copies is the same: the standard
# deviation is 0, and both ends of the interval are the mean. Two that are alike at a time give little more.
# The default, "poisson", gives about the same interval either way. The documentation calls it a bootstrap
# of the batch that approximates one of all cases. Nothing is said when it does not.
#
# Guess before the run: the interval depends on the cases, and not on how many are handed over together.
#
# Seen (20 cases, whose Dice scores are 0.18 to 1; the 95 % interval of their mean, from 200 bootstraps):
#   multinomial, 20 at a time: mean 0.685, interval 0.572 to 0.771
#   multinomial,  2 at a time: mean 0.684, interval 0.673 to 0.695
#   multinomial,  1 at a time: mean 0.684, interval 0.684 to 0.684
#   poisson, 20 at a time: mean 0.689, interval 0.575 to 0.784
#   poisson,  1 at a time: mean 0.685, interval 0.579 to 0.782
#
# Why it matters: Volumes are large, so that validation hands them over one by one. The interval of a mean
# Dice of 20 patients then says that nothing is uncertain, and each difference between methods counts.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile torchmetrics==1.9.0 torch==2.13.0 numpy==2.4.6
cd "$folder"

venv/bin/python -W ignore - <<'PYTHON'
import sys

import torch
from torchmetrics.segmentation import DiceScore
from torchmetrics.wrappers import BootStrapper

# The least and the largest width of the interval.
STATED = {
    ("multinomial", 20): (0.18, 0.28),
    ("multinomial", 2): (0.01, 0.04),
    ("multinomial", 1): (0, 0),
    ("poisson", 20): (0.18, 0.28),
    ("poisson", 1): (0.18, 0.28),
}

# A lesion of 20 columns in each case, of which 2 to 20 are found.
references = torch.zeros(20, 1, 8, 32, dtype=torch.long)
references[:, :, 2:6, 4:24] = 1
predictions = references.clone()
for case in range(20):
    predictions[case, :, :, 6 + case :] = 0

differs = False
for (strategy, together), (least, largest) in STATED.items():
    torch.manual_seed(0)
    metric = BootStrapper(
        DiceScore(num_classes=1, average="macro"),
        num_bootstraps=200,
        quantile=torch.tensor([0.025, 0.975]),
        sampling_strategy=strategy,
    )
    for first in range(0, 20, together):
        cases = slice(first, first + together)
        metric.update(predictions[cases], references[cases])
    scores = metric.compute()
    low, high = scores["quantile"].tolist()
    print(f"{strategy}, {together:2d} at a time: mean {scores['mean']:.3f}, interval {low:.3f} to {high:.3f}")
    differs = differs or not least <= high - low <= largest
if differs:
    sys.exit("This differs from what is stated.")
PYTHON
