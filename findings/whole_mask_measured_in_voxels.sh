#!/usr/bin/env bash
# panoptica uses the voxel size for the distances of instances, and not for those of the whole mask.
#
# Versions: panoptica 2.1.7, connected-components-3d 3.29.0, numpy 2.2.6, scipy 1.17.1; Python 3.11 or
# later.
#
# Behaviour: evaluate() takes a voxelspacing. With one lesion in the image and voxels of 5 x 1 x 1 mm,
# the HD95 of the instances (sq_hd95) and that of the whole mask (global_bin_hd95) are of the same
# surfaces, and stand beside each other in one result. The first is 5, in mm. The second is 2, in voxels,
# and does not change with the voxel size.
#
# Guess before the run: both in mm, and equal.
#
# Seen:
#   voxels of 1 x 1 x 1 mm: instances 2, whole mask 2
#   voxels of 5 x 1 x 1 mm: instances 5, whole mask 2
#
# Why it matters: A table of "HD95 in mm" made from the global column is in voxels, and how wrong it is
# depends on the slice thickness of each scanner. Strata by scanner are then compared in units of their
# own. Isotropic test data of 1 mm does not show it.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    panoptica==2.1.7 connected-components-3d==3.29.0 numpy==2.2.6 scipy==1.17.1
cd "$folder"

PANOPTICA_CITATION_REMINDER=false venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from panoptica import (
    ConnectedComponentsInstanceApproximator,
    InputType,
    Metric,
    NaiveThresholdMatching,
    Panoptica_Evaluator,
)

STATED = {(1.0, 1.0, 1.0): (2, 2), (5.0, 1.0, 1.0): (5, 2)}

reference = np.zeros((20, 20, 20), np.uint8)
reference[5:12, 5:12, 5:12] = 1
prediction = reference.copy()
prediction[5:13, 5:12, 5:14] = 1

evaluator = Panoptica_Evaluator(
    expected_input=InputType.SEMANTIC,
    instance_approximator=ConnectedComponentsInstanceApproximator(),
    instance_matcher=NaiveThresholdMatching(),
    instance_metrics=[Metric.HD95],
    global_metrics=[Metric.HD95],
)
seen = {}
for spacing in STATED:
    results = evaluator.evaluate(prediction, reference, voxelspacing=spacing)
    result = next(iter(results.values())).to_dict()
    seen[spacing] = (result["sq_hd95"], result["global_bin_hd95"])
    size = " x ".join(f"{length:g}" for length in spacing)
    print("voxels of {} mm: instances {:g}, whole mask {:g}".format(size, *seen[spacing]))

if any(not np.allclose(seen[spacing], STATED[spacing]) for spacing in STATED):
    sys.exit("This differs from what is stated.")
PYTHON
