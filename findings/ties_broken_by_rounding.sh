#!/usr/bin/env bash
# A signed-rank test of the Dice of small lesions ranks rounding errors.
#
# Versions: scipy 1.17.1, medpy 0.5.2, numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: Six lesions of one voxel are segmented by two methods. In five of them the second method has
# a Dice that is higher by a third, and in one of them lower by a third: all six differences are equal,
# so all share one rank, and the p value is 0.22. But 1 - 2/3 and 2/3 - 1/3 are not the same double. So
# scipy.stats.wilcoxon ranks the loss below or above all gains, and the p value is 0.06 or 0.53: it
# depends on whether the loss is from 2/3 to 1/3 or from 1 to 2/3. If the differences are rounded to ten
# decimals, it is 0.22.
#
# Guess before the run: differences of Dice values that are equal as fractions are tied, or nearly always
# so. It was wrong.
#
# Seen (p as it is; p of rounded differences):
#   the loss is from 2/3 to 1/3: 0.0625, 0.21875
#   the loss is from 1 to 2/3:   0.53125, 0.21875
#
# Why it matters: Small structures have few possible Dice values, so that equal differences are frequent
# there. A comparison or a ranking of challenge teams by this test then decides by rounding errors.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile scipy==1.17.1 medpy==0.5.2 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from medpy.metric.binary import dc
from scipy.stats import wilcoxon

STATED = {"from 2/3 to 1/3": (0.0625, 0.21875), "from 1 to 2/3": (0.53125, 0.21875)}
# Voxels of a prediction that holds the lesion's only voxel, and its Dice: 2 / (1 + n).
ALL, TWO_THIRDS, ONE_THIRD = 1, 2, 5
LOSS = {"from 2/3 to 1/3": (TWO_THIRDS, ONE_THIRD), "from 1 to 2/3": (ALL, TWO_THIRDS)}
GAIN = {"from 2/3 to 1/3": (TWO_THIRDS, ALL), "from 1 to 2/3": (ONE_THIRD, TWO_THIRDS)}


def dice(n_voxels):
    reference = np.zeros(8, bool)
    reference[0] = True
    prediction = np.zeros(8, bool)
    prediction[:n_voxels] = True
    return dc(prediction, reference)


seen = {}
for name in STATED:
    pairs = [LOSS[name]] + 5 * [GAIN[name]]
    differences = np.array([dice(after) - dice(before) for before, after in pairs])
    p = wilcoxon(differences).pvalue
    p_of_rounded = wilcoxon(differences.round(10)).pvalue
    seen[name] = (float(p), float(p_of_rounded))
    print(f"the loss is {name}: {p:g}, {p_of_rounded:g}")

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
