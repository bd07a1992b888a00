#!/usr/bin/env bash
# MONAI keeps or removes a lesion of just the least size, by the version of scikit-image beside it.
#
# Versions: MONAI 1.6.1 with scikit-image 0.25.2 and 0.26.0, torch 2.13.0, numpy 2.4.6, scipy 1.17.1;
# Python 3.11 or later.
#
# Behaviour: RemoveSmallObjects(min_size=3) removes, by its documentation, what is smaller than 3 voxels.
# MONAI hands the 3 on to scikit-image, where it is the smallest size that is kept in 0.25, and the
# largest that is removed in 0.26. So a lesion of 3 voxels is kept by the one and removed by the other,
# and with by_measure=True one of 3 mm3. What is said is a FutureWarning of scikit-image, about a
# parameter that is deprecated. Of scikit-image alone it is known:
# https://github.com/scikit-image/scikit-image/issues/8001
#
# Guess before the run: what is as large as min_size is kept, as the documentation says.
#
# Seen (lesions of 1, 2, 3, 4 and 5 voxels of 1 mm3; the sizes that are kept):
#   scikit-image 0.25.2: min_size 3 keeps 3 4 5; 3 mm3 keep 3 4 5
#   scikit-image 0.26.0: min_size 3 keeps 4 5; 3 mm3 keep 4 5
#
# Why it matters: Lesions of less than 3 voxels are often left out in multiple sclerosis, and small ones
# are the most frequent. A model, on the same images, then has another lesion count and another rate of
# found lesions after an update of a package that nobody chose.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile \
    monai==1.6.1 torch==2.13.0 numpy==2.4.6 scipy==1.17.1

cat > sizes.py <<'PYTHON'
import sys
from importlib.metadata import version

import numpy as np
import torch
from monai.transforms import RemoveSmallObjects

STATED = {
    "0.25.2": "min_size 3 keeps 3 4 5; 3 mm3 keep 3 4 5",
    "0.26.0": "min_size 3 keeps 4 5; 3 mm3 keep 4 5",
}
SIZES = (1, 2, 3, 4, 5)

mask = torch.zeros(1, 12, 12, 12)
for row, size in enumerate(SIZES):
    mask[0, 2 * row, 5, :size] = 1


def kept(**options):
    """The sizes of the lesions that are kept."""
    lesions = np.asarray(RemoveSmallObjects(min_size=3, **options)(mask))[0, ::2, 5].sum(axis=1)
    return " ".join(str(int(size)) for size in lesions if size)


release = version("scikit-image")
seen = f"min_size 3 keeps {kept()}; 3 mm3 keep {kept(by_measure=True, pixdim=1)}"
print(f"scikit-image {release}: {seen}")
if seen != STATED[release]:
    sys.exit("This differs from what is stated.")
PYTHON

for release in 0.25.2 0.26.0; do
    venv/bin/pip install --quiet --no-compile scikit-image==$release
    venv/bin/python -W ignore sizes.py
done
