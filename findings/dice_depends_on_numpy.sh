#!/usr/bin/env bash
# MedPy's Dice of two empty masks is 1 or nan, depending on the version of numpy beside it.
#
# Versions: MedPy 0.5.2 with numpy 1.26.4 and scipy 1.15.3, and with numpy 2.4.6 and scipy 1.17.1;
# Python 3.11 or 3.12.
#
# Behaviour: MedPy gives a value of its own where its division by zero raises an error: a Dice of 1,
# a precision and a recall of 0. The counts in that division come from numpy. With numpy 1.26 they are
# integers of Python, and the division raises; with numpy 2.4 they are scalars of numpy, and it gives
# nan with a warning. The precision of a case whose label was missed changes in the same way.
#
# Guess before the run: 1 for Dice and 0 for the other two, whatever the version of numpy.
#
# Seen:
#   numpy 1.26.4: both empty: Dice 1, precision 0, recall 0; missed label: precision 0
#   numpy 2.4.6:  both empty: Dice nan, precision nan, recall nan; missed label: precision nan
#
# Why it matters: An unpinned numpy changes the mean Dice of a study with healthy patients, though MedPy
# and the masks are the same: the mean is nan, or leaves out what it counted as perfect.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat > score.py <<'PYTHON'
import sys
import warnings

import numpy as np
from medpy.metric import binary

STATED = {"1.26.4": (1.0, 0.0, 0.0, 0.0), "2.4.6": (np.nan,) * 4}
warnings.simplefilter("ignore")

empty = np.zeros((4, 4), bool)
lesion = empty.copy()
lesion[1, 1] = True
seen = (
    binary.dc(empty, empty),
    binary.precision(empty, empty),
    binary.recall(empty, empty),
    binary.precision(empty, lesion),
)
print(
    "numpy {}: both empty: Dice {:g}, precision {:g}, recall {:g}; "
    "missed label: precision {:g}".format(np.__version__, *seen)
)
if not np.array_equal(seen, STATED[np.__version__], equal_nan=True):
    sys.exit("This differs from what is stated.")
PYTHON

for versions in "numpy==1.26.4 scipy==1.15.3" "numpy==2.4.6 scipy==1.17.1"; do
    rm -rf venv
    python3 -m venv venv
    # The versions are two words.
    venv/bin/pip install --quiet --no-compile MedPy==0.5.2 $versions
    venv/bin/python score.py
done
