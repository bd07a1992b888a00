#!/usr/bin/env bash
# SimpleITK multiplies the two layers of a .seg.nrrd if it is asked for integers.
#
# Versions: SimpleITK 2.5.7 (ITK 5.4), pynrrd 1.1.3, numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: 3D Slicer stores segments that overlap in several layers of one .seg.nrrd file. Asked for
# a scalar type, SimpleITK reads the layers as the channels of a colour: of two layers, the second is
# the opacity of the first. As 32-bit integers, what comes back is the product of the layers, that is
# their intersection; as 8-bit integers, the product over 255, which is 0 everywhere. Of three layers
# it is a brightness, in which a label of 1 in one layer is rounded down to 0. Nothing is said.
#
# Guess before the run: an error, or the first layer alone.
#
# Seen (voxels of 64 that are not 0; each layer has 8, and 4 are in both of the first two):
#   1 layer:  as uint8 8, as int32 8
#   2 layers: as uint8 0, as int32 4
#   3 layers: as uint8 0, as int32 0
#
# Why it matters: ReadImage(path, sitkUInt8) is a usual way to read a mask. A reference with two
# layers becomes empty, so that a case without a lesion is scored, or all of a prediction is called
# false; a case with one layer in the same folder is read as it should be.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile SimpleITK==2.5.7 pynrrd==1.1.3 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import nrrd
import numpy as np
import SimpleITK as sitk

STATED = {1: (8, 8), 2: (0, 4), 3: (0, 0)}

layers = np.zeros((3, 4, 4, 4), np.uint8)
layers[0, :2, :2, :2] = 1
layers[1, 1:3, :2, :2] = 1
layers[2, 2:, 2:, 2:] = 1

seen = {}
for n_layers in STATED:
    header = {
        "space": "left-posterior-superior",
        "kinds": ["list", "domain", "domain", "domain"],
        "space directions": np.vstack([np.full(3, np.nan), np.eye(3)]),
        "space origin": np.zeros(3),
    }
    for layer in range(n_layers):
        header[f"Segment{layer}_ID"] = f"Segment_{layer}"
        header[f"Segment{layer}_Name"] = f"lesion {layer}"
        header[f"Segment{layer}_Layer"] = str(layer)
        header[f"Segment{layer}_LabelValue"] = "1"
    if n_layers == 1:
        # Slicer writes a single layer without the axis of layers.
        header["kinds"] = header["kinds"][1:]
        header["space directions"] = header["space directions"][1:]
        nrrd.write("mask.seg.nrrd", layers[0], header)
    else:
        nrrd.write("mask.seg.nrrd", layers[:n_layers], header)

    counts = []
    for pixel_type in (sitk.sitkUInt8, sitk.sitkInt32):
        array = sitk.GetArrayFromImage(sitk.ReadImage("mask.seg.nrrd", pixel_type))
        counts.append(int((array != 0).sum()))
    seen[n_layers] = tuple(counts)
    print("{} layer(s): as uint8 {}, as int32 {}".format(n_layers, *counts))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
