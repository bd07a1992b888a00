#!/usr/bin/env bash
# The longest diameter of one lesion is 9.2, 10.2 or 11.5 mm, by SimpleITK and two ways of scikit-image.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), scikit-image 0.26.0, numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: SimpleITK's Feret diameter lies between the centres of two voxels, so that a lesion of one
# pixel is 0 mm long. The one of scikit-image (feret_diameter_max) lies between the outer sides of
# pixels. Its axis_major_length is that of an ellipse with the same second moments; this too is 0 for
# one pixel, but more than the other two for a longish lesion.
#
# Guess before the run: SimpleITK is a pixel shorter than scikit-image. That was right, but we had
# expected the axis of the ellipse between the two.
#
# Seen (pixels of 1 mm):
#   3 x 10 pixels:           SimpleITK 9.22, Feret of scikit-image 10.20, its ellipse 11.49
#   disc, ten pixels across: SimpleITK 9.90, Feret of scikit-image 11.18, its ellipse 10.08
#   one pixel:               SimpleITK 0.00, Feret of scikit-image 1.00, its ellipse 0.00
#
# Why it matters: Lesions are often counted, or divided into small and large ones, by a limit such as
# 10 mm. The same lesion is below the limit with one ruler and above it with another. With slices of
# 5 mm the difference along the body is 5 mm.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile SimpleITK==2.5.7 scikit-image==0.26.0 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import SimpleITK as sitk
from skimage.measure import regionprops

STATED = {
    "3 x 10 pixels": (9.22, 10.20, 11.49),
    "disc, ten pixels across": (9.90, 11.18, 10.08),
    "one pixel": (0.0, 1.0, 0.0),
}

row, column = np.indices((16, 16))
lesions = {
    "3 x 10 pixels": (abs(row - 7) <= 1) & (column >= 3) & (column < 13),
    "disc, ten pixels across": (row - 7.5) ** 2 + (column - 7.5) ** 2 < 25,
    "one pixel": (row == 7) & (column == 7),
}
shape = sitk.LabelShapeStatisticsImageFilter()
shape.ComputeFeretDiameterOn()

seen = {}
for name, lesion in lesions.items():
    mask = lesion.astype(np.uint8)
    shape.Execute(sitk.GetImageFromArray(mask))
    region = regionprops(mask)[0]
    seen[name] = (shape.GetFeretDiameter(1), region.feret_diameter_max, region.axis_major_length)
    words = "{}: SimpleITK {:.2f}, Feret of scikit-image {:.2f}, its ellipse {:.2f}"
    print(words.format(name, *seen[name]))

if any(not np.allclose(seen[name], STATED[name], atol=0.005) for name in STATED):
    sys.exit("This differs from what is stated.")
PYTHON
