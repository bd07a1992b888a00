#!/usr/bin/env bash
# A lossless optimiser makes a PNG mask smaller, and Pillow reads the organ as tumour in it.
#
# Versions: pyoxipng 9.1.1 (oxipng 9.1), Pillow 13.0.0, SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python
# 3.11 or later.
#
# Behaviour: oxipng stores grey values as indices of a palette where that takes less space, and orders
# the palette so that it compresses well. Whoever shows the picture sees the same greys, and Pillow's
# convert("L") gives them. But numpy.asarray(Image.open(path)), which gives the values of the file that
# was not optimised, now gives the indices. With the default level, labels 1 and 2 are swapped in a mask
# of an organ with a tumour, and stay what they are with a third label. SimpleITK reads three colours.
#
# Guess before the run: lossless means the same array.
#
# Seen (what Pillow reads for labels 0, 1, 2 ... of the file that was optimised):
#   organ with tumour:     indices 0 2 1, convert("L") 0 1 2; SimpleITK has 3 colours
#   organ with two others: indices 0 1 2 3, convert("L") 0 1 2 3; SimpleITK has 1 colour
#   tissue, little around: indices 2 0 1, convert("L") 0 1 2; SimpleITK has 3 colours
#
# Why it matters: Masks of microscopy, dermatology and ultrasound are PNG files, and repositories run
# such optimisers over all of them. A perfect prediction then has a Dice of 0 for both labels in some
# cases, and only in some. As pictures, the files look right.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    pyoxipng==9.1.1 Pillow==13.0.0 SimpleITK==2.5.7 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import oxipng
import SimpleITK
from PIL import Image

STATED = {
    "organ with tumour": ([0, 2, 1], [0, 1, 2], 3),
    "organ with two others": ([0, 1, 2, 3], [0, 1, 2, 3], 1),
    "tissue, little around": ([2, 0, 1], [0, 1, 2], 3),
}


def disc(centre, radius):
    rows, columns = np.mgrid[:256, :256]
    return (rows - centre) ** 2 + (columns - centre) ** 2 <= radius**2


masks = {name: np.zeros((256, 256), np.uint8) for name in STATED}
masks["organ with tumour"][disc(128, 60)] = 1
masks["organ with tumour"][disc(140, 20)] = 2
masks["organ with two others"][disc(128, 100)] = 1
masks["organ with two others"][disc(128, 60)] = 2
masks["organ with two others"][disc(140, 20)] = 3
masks["tissue, little around"][20:] = 1
masks["tissue, little around"][disc(128, 20)] = 2

seen = {}
for name, mask in masks.items():
    Image.fromarray(mask).save("mask.png")
    oxipng.optimize("mask.png")

    picture = Image.open("mask.png")
    places = [np.argwhere(mask == label)[0] for label in np.unique(mask)]
    as_array = np.asarray(picture)
    as_greys = np.asarray(picture.convert("L"))
    seen[name] = (
        [int(as_array[tuple(place)]) for place in places],
        [int(as_greys[tuple(place)]) for place in places],
        SimpleITK.ReadImage("mask.png").GetNumberOfComponentsPerPixel(),
    )
    indices, greys, n_colours = seen[name]
    print(f"{name}: indices {indices}, greys {greys}; colours by SimpleITK: {n_colours}")

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
