#!/usr/bin/env bash
# Two of five readers drew a lesion, and STAPLE takes it into the consensus if the images are large.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: STAPLE weighs the readers by how well each agrees with the consensus, and iterates. All five
# readers drew a large lesion, and two of them also a small one of 4 x 4 x 4 voxels. Around it is a margin
# in which nobody drew anything. Without the margin, the small lesion is out, with a probability of 0.00;
# with 20 voxels of it, it is in, with 1.00, and the three who did not draw it lose sensitivity. A lesion
# of one reader stays out and one of three is in, whatever the margin.
#
# Guess before the run: the margin changes probabilities a little, and nothing at a threshold of 0.5.
#
# Seen (voxels of the consensus; the probability of the small lesion, by the number of its readers):
#   margin  0: one 1728 (0.00), two 1728 (0.00), three 1792 (1.00)
#   margin 10: one 1728 (0.00), two 1728 (0.00), three 1792 (1.00)
#   margin 20: one 1728 (0.00), two 1792 (1.00), three 1792 (1.00)
#
# Why it matters: Consensus references depend on whether the masks were cropped before, and on how large
# the scanner's field of view is. Networks are then scored on lesions that a majority of readers refused,
# in some cases of a study, and the probabilities of 0 and 1 suggest that there was no doubt.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile SimpleITK==2.5.7 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import SimpleITK

N_READERS = 5
STATED = {
    0: [(1728, 0), (1728, 0), (1792, 1)],
    10: [(1728, 0), (1728, 0), (1792, 1)],
    20: [(1728, 0), (1792, 1), (1792, 1)],
}


def consensus(margin, n_readers_of_small):
    masks = []
    for reader in range(N_READERS):
        mask = np.zeros((20, 20, 20), np.uint8)
        mask[2:14, 2:14, 2:14] = 1
        if reader < n_readers_of_small:
            mask[15:19, 15:19, 15:19] = 1
        masks.append(SimpleITK.GetImageFromArray(np.pad(mask, margin)))
    probability = SimpleITK.GetArrayFromImage(SimpleITK.STAPLE(masks, 1))
    small = (margin + 16,) * 3
    return int((probability >= 0.5).sum()), round(float(probability[small]), 2)


seen = {}
for margin in STATED:
    seen[margin] = [consensus(margin, n_readers) for n_readers in (1, 2, 3)]
    one, two, three = (f"{voxels} ({p:.2f})" for voxels, p in seen[margin])
    print(f"margin {margin}: one {one}, two {two}, three {three}")

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
