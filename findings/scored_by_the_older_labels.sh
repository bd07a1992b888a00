#!/usr/bin/env bash
# Labels are replaced and preprocessed anew: nnU-Net trains on the new ones, and may validate by the old.
#
# Versions: nnunetv2 2.8.1, torch 2.13.0, SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: nnUNetv2_plan_and_preprocess makes the training data from labelsTr, and copies labelsTr to
# gt_segmentations, by which the validation of a training scores its predictions. The training data is made
# anew each time. A copy that exists is replaced only by a file of a later date. A comment in the code says
# so; --clean changes nothing of it, and nothing is printed. nnUNetv2_accumulate_crossval_results scores
# by labelsTr, so that one prediction has two scores.
#
# Guess before the run: after preprocessing anew, both are those of labelsTr. By the source: what was seen.
#
# Seen (a lesion of 10 rows from row 10; labels in which it begins at row 15, with a file date that is newer
# or older; Dice of a prediction of just what was trained on, by gt_segmentations and by labelsTr):
#   newer: trained on a lesion from row 15, Dice 1.00, by labelsTr 1.00
#   older: trained on a lesion from row 15, Dice 0.50, by labelsTr 1.00
#
# Why it matters: A second reader's labels, a consensus, or an older release are unpacked over the first
# ones, and tar, unzip, rsync -a and cp -p keep the date at which they were made. The network learns them,
# and is then judged by labels that are no longer in the dataset, for some cases and not for others.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    nnunetv2==2.8.1 torch==2.13.0 SimpleITK==2.5.7 numpy==2.4.6
cd "$folder"
export nnUNet_raw=raw nnUNet_preprocessed=preprocessed nnUNet_results=results

cat > labels.py <<'PYTHON'
"""python labels.py FIRST_ROW YEAR YEAR writes the label maps of cases a and b as files of these years."""

import json
import os
import sys
from datetime import datetime
from pathlib import Path

import numpy as np
import SimpleITK as sitk

first_row = int(sys.argv[1])
dataset = Path("raw/Dataset001_Lesions")
label_map = np.zeros((32, 32, 32), np.uint8)
label_map[10:20, first_row : first_row + 10, 10:20] = 1
image = np.random.default_rng(0).normal(100, 10, label_map.shape).astype(np.float32)
for case, year in zip("ab", sys.argv[2:]):
    for name, array in ((f"imagesTr/{case}_0000", image), (f"labelsTr/{case}", label_map)):
        path = dataset / f"{name}.nii.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        sitk.WriteImage(sitk.GetImageFromArray(array), str(path))
        date = datetime(int(year), 1, 1).timestamp()
        os.utime(path, (date, date))
description = {
    "channel_names": {"0": "MR"},
    "labels": {"background": 0, "lesion": 1},
    "numTraining": 2,
    "file_ending": ".nii.gz",
}
(dataset / "dataset.json").write_text(json.dumps(description))
PYTHON

venv/bin/python labels.py 10 2024 2024
venv/bin/nnUNetv2_plan_and_preprocess -d 1 -c 3d_fullres -npfp 1 -np 1 > log 2>&1 || { cat log; exit 1; }
# The new label map of case a is newer, and that of case b older, as unzip, tar, cp -p and rsync -a keep it.
venv/bin/python labels.py 15 2025 2023
venv/bin/nnUNetv2_plan_and_preprocess -d 1 --clean \
    -c 3d_fullres -npfp 1 -np 1 > log 2>&1 || { cat log; exit 1; }
if grep -iwE "warning|older|newer" log; then
    echo "This differs from what is stated."
    exit 1
fi

venv/bin/python - <<'PYTHON'
import sys
from pathlib import Path

import blosc2
import numpy as np
import SimpleITK as sitk
from nnunetv2.evaluation.evaluate_predictions import compute_metrics
from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

STATED = {"newer": (15, 1.0, 1.0), "older": (15, 0.5, 1.0)}

preprocessed = Path("preprocessed/Dataset001_Lesions")
for case, age in (("a", "newer"), ("b", "older")):
    path = preprocessed / "nnUNetPlans_3d_fullres" / f"{case}_seg.b2nd"
    trained_on = blosc2.open(str(path))[:][0] == 1
    sitk.WriteImage(sitk.GetImageFromArray(trained_on.astype(np.uint8)), "prediction.nii.gz")

    first_row = int(np.argwhere(trained_on)[:, 1].min())
    dice = []
    for references in (preprocessed / "gt_segmentations", Path("raw/Dataset001_Lesions/labelsTr")):
        reference = str(references / f"{case}.nii.gz")
        scores = compute_metrics(reference, "prediction.nii.gz", SimpleITKIO(), [1])
        dice.append(scores["metrics"][1]["Dice"])
    seen = (first_row, *dice)
    print("{}: trained on a lesion from row {}, Dice {:.2f}, by labelsTr {:.2f}".format(age, *seen))
    if not np.allclose(seen, STATED[age]):
        sys.exit("This differs from what is stated.")
PYTHON
