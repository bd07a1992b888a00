#!/usr/bin/env bash
# A label of one slice is kept or lost where nnU-Net resamples it, by a patch release of batchgenerators.
#
# Versions: batchgenerators 0.25.3 and 0.25.4 (0.25.5 is like the latter), numpy 2.4.6, scipy 1.17.1,
# scikit-image 0.26.0; Python 3.11 or later.
#
# Behaviour: nnU-Net 2.8.1 resamples labels with resize_segmentation(labels, shape, order=1) and takes
# any batchgenerators from 0.25.1 on. Until 0.25.3, a voxel gets a label that has half or more of it.
# From 0.25.4 on, the label with the most gets it, and of two equal ones the one that is nearest. Where
# voxels double in size, a sheet of one slice has exactly half of the new slice: it was always kept, at
# twice its thickness, and now it is kept whole or lost whole, by whether its slice is odd or even.
# In return, a voxel in which four labels meet is no longer background, which none of them was. The
# comments in the code of 0.25.4 give this rule; thin labels are not among its reasons.
#
# Guess before the run: the releases differ where several labels meet, and nowhere else.
#
# Seen (voxels of a sheet of 144, by the slice it is in; background where four labels meet):
#   batchgenerators 0.25.3: slice 2: 144, slice 3: 144, slice 4: 144, slice 5: 144; background 1
#   batchgenerators 0.25.4: slice 2: 0, slice 3: 144, slice 4: 0, slice 5: 144; background 0
#
# Why it matters: Valves, walls and membranes are one voxel thick. Two installations of one nnU-Net train
# on different labels from the same files, one of them on cases that look healthy, and neither says so.
# Not resampled, the references of the evaluation still have the label.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile numpy==2.4.6 scipy==1.17.1 scikit-image==0.26.0

cat > resample.py <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
from batchgenerators.augmentations.utils import resize_segmentation

STATED = {"0.25.3": ([144, 144, 144, 144], 1), "0.25.4": ([0, 144, 0, 144], 0)}
SLICES = (2, 3, 4, 5)

kept = []
for index in SLICES:
    sheet = np.zeros((12, 12, 12), np.uint8)
    sheet[index] = 1
    kept.append(int((resize_segmentation(sheet, (6, 12, 12), order=1) == 1).sum()))

quarters = np.zeros((12, 12), np.uint8)
quarters[:6, :6], quarters[:6, 6:], quarters[6:, :6], quarters[6:, 6:] = 1, 2, 3, 4
background = int((resize_segmentation(quarters, (9, 9), order=1) == 0).sum())

release = version("batchgenerators")
sheets = ", ".join(f"slice {index}: {n_voxels}" for index, n_voxels in zip(SLICES, kept))
print(f"batchgenerators {release}: {sheets}; background {background}")
if (kept, background) != STATED[release]:
    sys.exit("This differs from what is stated.")
PYTHON

for release in 0.25.3 0.25.4; do
    venv/bin/pip install --quiet --no-compile batchgenerators==$release
    venv/bin/python resample.py
done
