#!/usr/bin/env bash
# A lesion in the last slice loses two fifths of its volume where nibabel resamples it to 1 mm.
#
# Versions: nibabel 5.4.2, SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6, scipy 1.17.1; Python 3.11 or later.
#
# Behaviour: An image ends at the edge of its last voxel. For nibabel's resample_to_output it ends at the
# centre: its grid goes no further, and scipy, with which it resamples, takes what lies beyond for
# background, also with the nearest neighbour. So the first and the last slice keep half of their
# thickness, rounded up to whole new slices: 3 mm of 5, 2 mm of 3. Slices between them keep all of it, and
# SimpleITK keeps all of all, on a grid that covers the same space. Nothing is said. nilearn 0.14.1
# (resample_img) and dipy 1.12.1 (reslice) gave nibabel's numbers; they are not installed here.
#
# Guess before the run: the volume of the mask, wherever it lies, up to one new slice.
#
# Seen (a mask of 10 x 10 mm in an image of 10 slices, resampled to voxels of 1 mm; mm3):
#   slices of 5 mm, mask in 5 to 5:   true  500, nibabel  500, SimpleITK  500
#   slices of 5 mm, mask in 10 to 10: true  500, nibabel  300, SimpleITK  500
#   slices of 5 mm, mask in 1 to 10:  true 5000, nibabel 4600, SimpleITK 5000
#   slices of 3 mm, mask in 10 to 10: true  300, nibabel  200, SimpleITK  300
#
# Why it matters: Organs that the scan cuts off, such as the liver, the lungs and vertebrae, lie in the
# first or the last slice. Of a reference and a prediction that were equal, and that two tools resampled,
# one is larger there. Volumes in ml are too small by an amount that depends on the slice thickness, and
# thus on the scanner. Of images, such a loss at the edge is known:
# https://github.com/nipreps/fmriprep/pull/3453
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    nibabel==5.4.2 SimpleITK==2.5.7 numpy==2.4.6 scipy==1.17.1
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import nibabel
import numpy as np
import SimpleITK
from nibabel.processing import resample_to_output

STATED = {
    (5, 5, 5): (500, 500, 500),
    (5, 10, 10): (500, 300, 500),
    (5, 1, 10): (5000, 4600, 5000),
    (3, 10, 10): (300, 200, 300),
}
N_SLICES = 10


def by_nibabel(mask, slice_mm):
    image = nibabel.Nifti1Image(mask, np.diag([1, 1, slice_mm, 1]))
    resampled = resample_to_output(image, (1, 1, 1), order=0)
    return int((resampled.get_fdata() > 0).sum())


def by_simpleitk(mask, slice_mm):
    image = SimpleITK.GetImageFromArray(mask.transpose())
    image.SetSpacing((1, 1, slice_mm))
    resample = SimpleITK.ResampleImageFilter()
    resample.SetInterpolator(SimpleITK.sitkNearestNeighbor)
    resample.SetSize((20, 20, N_SLICES * slice_mm))
    # The first new slice begins where the first slice begins.
    resample.SetOutputOrigin((0, 0, (1 - slice_mm) / 2))
    return int(SimpleITK.GetArrayFromImage(resample.Execute(image)).sum())


seen = {}
for slice_mm, first, last in STATED:
    mask = np.zeros((20, 20, N_SLICES), np.uint8)
    mask[5:15, 5:15, first - 1 : last] = 1
    volumes = (int(mask.sum()) * slice_mm, by_nibabel(mask, slice_mm), by_simpleitk(mask, slice_mm))
    seen[slice_mm, first, last] = volumes
    place = f"slices of {slice_mm} mm, mask in {first} to {last}"
    print(place + ": true {}, nibabel {}, SimpleITK {}".format(*volumes))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
