#!/usr/bin/env bash
# The whole image is predicted as lesion, and lesion-metrics gives each cubic lesion an IoU of 1.
#
# Versions: lesion-metrics 0.1.12, scikit-image 0.26.0, numpy 2.4.6, scipy 1.17.1; Python 3.11 or later.
#
# Behaviour: iou_per_lesion() cuts both masks to the bounding box of a lesion of its first argument before
# it divides the intersection by the union. What the other mask has beyond the box does not count. A cube
# fills its box, so that all that covers it has an IoU of 1. This small ball fills a third of its box, so
# that a prediction eleven times as large has a third. In the other order of arguments the box is that of
# the prediction, and the IoU is right. ltpr() and lfdr() take the two orders, with one threshold: the
# lesion is found, and all that is predicted is false. The docstring calls the first mask the reference,
# and names no box. jaccard(), of the same package, has none.
#
# Guess before the run: an IoU that does not depend on the order, as jaccard() gives it.
#
# Seen (one lesion; ltpr and lfdr with iou_threshold=0.5):
#   cube, exact: IoU 1.00, in the other order 1.00, jaccard 1.00; ltpr 1, lfdr 0
#   cube, grown by 1: IoU 1.00, in the other order 0.40, jaccard 0.40; ltpr 1, lfdr 1
#   cube, grown by 5: IoU 1.00, in the other order 0.06, jaccard 0.06; ltpr 1, lfdr 1
#   cube, whole image: IoU 1.00, in the other order 0.00, jaccard 0.00; ltpr 1, lfdr 1
#   ball, grown by 5: IoU 0.36, in the other order 0.09, jaccard 0.09; ltpr 0, lfdr 1
#
# Why it matters: A threshold on the IoU is there so that a prediction which floods the image finds
# nothing. This one lets it find all lesions that fill their boxes, as the smallest do: the rate of found
# lesions rewards whoever predicts too much, and depends on the form of the lesion.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    lesion-metrics==0.1.12 scikit-image==0.26.0 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
from lesion_metrics.metrics import iou_per_lesion, jaccard, lfdr, ltpr
from scipy.ndimage import binary_dilation

STATED = {
    "cube, exact": (1.0, 1.0, 1.0, 1, 0),
    "cube, grown by 1": (1.0, 0.4, 0.4, 1, 1),
    "cube, grown by 5": (1.0, 0.06, 0.06, 1, 1),
    "cube, whole image": (1.0, 0.0, 0.0, 1, 1),
    "ball, grown by 5": (0.36, 0.09, 0.09, 0, 1),
}


def grown(mask, voxels):
    return binary_dilation(mask, iterations=voxels)


cube = np.zeros((40, 40, 40), bool)
cube[18:22, 18:22, 18:22] = True
z, y, x = np.indices(cube.shape) - 20
ball = z**2 + y**2 + x**2 <= 9

pairs = {
    "cube, exact": (cube, cube),
    "cube, grown by 1": (cube, grown(cube, 1)),
    "cube, grown by 5": (cube, grown(cube, 5)),
    "cube, whole image": (cube, np.ones_like(cube)),
    "ball, grown by 5": (ball, grown(ball, 5)),
}
seen = {}
for name, (reference, prediction) in pairs.items():
    (iou,) = iou_per_lesion(reference, prediction)
    (other_order,) = iou_per_lesion(prediction, reference)
    seen[name] = (
        round(float(iou), 2),
        round(float(other_order), 2),
        round(float(jaccard(prediction, reference)), 2),
        int(ltpr(prediction, reference, iou_threshold=0.5)),
        int(lfdr(prediction, reference, iou_threshold=0.5)),
    )
    words = "{}: IoU {:.2f}, in the other order {:.2f}, jaccard {:.2f}; ltpr {}, lfdr {}"
    print(words.format(name, *seen[name]))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
