#!/usr/bin/env bash
# A boolean mask that tifffile writes has its background as foreground for Pillow and SimpleITK.
#
# Versions: tifffile 2026.3.3, Pillow 13.0.0, SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: A TIFF file says whether 0 is black or white. Of an array of booleans tifffile stores one bit
# per pixel and says that 0 is white; of the same mask as uint8, that 0 is black. tifffile hands out the
# bits as stored, the other two what is to be seen: black for True. So the mask is complemented on the
# way, in every page of a volume, too. Pillow writes such masks the other way, and all agree on those.
#
# Guess before the run: True may be read as 1 or as 255; False is 0.
#
# Seen (pixels that are not 0, of a mask with 60 of 693):
#   bool by tifffile:  read by tifffile 60, by Pillow 633, by SimpleITK 633
#   uint8 by tifffile: read by tifffile 60, by Pillow 60, by SimpleITK 60
#   bool by Pillow:    read by tifffile 60, by Pillow 60, by SimpleITK 60
#
# Why it matters: A thresholded prediction is an array of booleans. Stored by the one and scored by the
# other, a perfect prediction has a Dice of 0, and a poor one of a large organ may look good: nothing in
# the values, which are 0 and 255, tells that they are swapped. Files with such bits from other writers
# surprised readers before: https://github.com/imageio/imageio/issues/355
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    tifffile==2026.3.3 Pillow==13.0.0 SimpleITK==2.5.7 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import SimpleITK
import tifffile
from PIL import Image

STATED = {
    "bool by tifffile": (60, 633, 633),
    "uint8 by tifffile": (60, 60, 60),
    "bool by Pillow": (60, 60, 60),
}

mask = np.zeros((21, 33), bool)
mask[2:6, 5:20] = True
tifffile.imwrite("bool by tifffile.tif", mask)
tifffile.imwrite("uint8 by tifffile.tif", mask.astype(np.uint8))
Image.fromarray(mask).save("bool by Pillow.tif")

seen = {}
for name in STATED:
    path = f"{name}.tif"
    read = (
        tifffile.imread(path),
        np.asarray(Image.open(path)),
        SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(path, SimpleITK.sitkUInt8)),
    )
    seen[name] = tuple(int(np.count_nonzero(values)) for values in read)
    print(name + ": read by tifffile {}, by Pillow {}, by SimpleITK {}".format(*seen[name]))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
