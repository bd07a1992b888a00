#!/usr/bin/env bash
# One of four readers of nnU-Net writes label 300 as label 44, and label 256 as background.
#
# Versions: nnunetv2 2.8.1, torch 2.13.0, SimpleITK 2.5.7, nibabel 5.4.2, numpy 2.4.6; Python 3.11 or
# later.
#
# Behaviour: A dataset.json can name the reader and writer of its files (overwrite_image_reader_writer).
# All four for .nii.gz read labels of 16 bits, and three write them as they are. SimpleITKIOWithReorient
# writes every prediction in 8 bits, without a warning: 256 is taken from each label that is larger
# than 255.
#
# Guess before the run: the four differ in orientation alone, as their names say.
#
# Seen (a label map with the labels 1, 254, 255, 256 and 300, written and read again):
#   SimpleITKIO: 1 254 255 256 300
#   SimpleITKIOWithReorient: 1 44 254 255
#   NibabelIO: 1 254 255 256 300
#   NibabelIOWithReorient: 1 254 255 256 300
#
# Why it matters: Parcellations of the brain or the whole body can have more than 255 labels. Training is
# as good as with the other readers, but the files of validation and prediction show organs under the
# names of others. The labels from 256 on have a Dice of 0, and small numbers get voxels elsewhere in
# the body, which ruins their distances.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    nnunetv2==2.8.1 torch==2.13.0 SimpleITK==2.5.7 nibabel==5.4.2 numpy==2.4.6
cd "$folder"

venv/bin/python - <<'PYTHON'
import sys

import numpy as np
import SimpleITK as sitk
from nnunetv2.imageio.nibabel_reader_writer import NibabelIO, NibabelIOWithReorient
from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO, SimpleITKIOWithReorient

LABELS = [1, 254, 255, 256, 300]
STATED = {
    "SimpleITKIO": LABELS,
    "SimpleITKIOWithReorient": [1, 44, 254, 255],
    "NibabelIO": LABELS,
    "NibabelIOWithReorient": LABELS,
}

reference = np.zeros((4, 5, 6), np.uint16)
reference[0, 0, : len(LABELS)] = LABELS
sitk.WriteImage(sitk.GetImageFromArray(reference), "reference.nii.gz")

seen = {}
for reader_type in (SimpleITKIO, SimpleITKIOWithReorient, NibabelIO, NibabelIOWithReorient):
    reader = reader_type()
    label_map, properties = reader.read_seg("reference.nii.gz")
    reader.write_seg(label_map[0].astype(np.uint16), "prediction.nii.gz", properties)
    written, _ = reader.read_seg("prediction.nii.gz")
    seen[reader_type.__name__] = [int(label) for label in np.unique(written) if label]
    print(f"{reader_type.__name__}: {' '.join(map(str, seen[reader_type.__name__]))}")

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
