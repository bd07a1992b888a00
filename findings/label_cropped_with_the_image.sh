#!/usr/bin/env bash
# Half of a label lies where the image is 0: nnU-Net trains on the other half, and says nothing.
#
# Versions: nnunetv2 2.8.1, torch 2.13.0, SimpleITK 2.5.7 (ITK 5.4), numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: nnUNetv2_plan_and_preprocess crops each image to the box in which it is not 0, and the label
# map with it. What a label has outside of that box is no part of the preprocessed label map, and no
# prediction can have it. The check of the dataset (--verify_dataset_integrity) finds nothing wrong. But
# predictions are scored against the label map as it was given. With 1 added to every voxel of the image,
# which changes nothing that is to be seen, nothing is cropped.
#
# Guess before the run: labels outside of the box are named by the check of the dataset, or the box is
# enlarged to hold them.
#
# Seen (an image of 40 x 40 x 40 voxels, not 0 in the inner 20 x 20 x 20; a label of 8 x 16 x 16 that
# reaches out of these by half; its voxels in the preprocessed label map, and the Dice that nnU-Net gives
# to a prediction of just these voxels):
#   air is 0: 1024 of 2048 voxels, Dice 0.667
#   air is 1: 2048 of 2048 voxels, Dice 1.000
#
# Why it matters: Images are defaced, stripped of the skull, or masked to a field of view after they were
# annotated. The best network that there can be then has a Dice of 0.667 in these cases, which looks as
# if the training had failed.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile \
    nnunetv2==2.8.1 torch==2.13.0 SimpleITK==2.5.7 numpy==2.4.6
cd "$folder"
export nnUNet_raw=raw nnUNet_preprocessed=preprocessed nnUNet_results=results

venv/bin/python - <<'PYTHON'
import json
from pathlib import Path

import numpy as np
import SimpleITK as sitk

inside = np.random.default_rng(0).normal(100, 10, (20, 20, 20))
label_map = np.zeros((40, 40, 40), np.uint8)
label_map[26:34, 12:28, 12:28] = 1
for number, air in ((1, 0), (2, 1)):
    image = np.full((40, 40, 40), air, np.float32)
    image[10:30, 10:30, 10:30] = inside
    dataset = Path(f"raw/Dataset00{number}_Air")
    for name, array in (("imagesTr/a_0000", image), ("labelsTr/a", label_map)):
        path = dataset / f"{name}.nii.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        sitk.WriteImage(sitk.GetImageFromArray(array), str(path))
    description = {
        "channel_names": {"0": "MR"},
        "labels": {"background": 0, "lesion": 1},
        "numTraining": 1,
        "file_ending": ".nii.gz",
    }
    (dataset / "dataset.json").write_text(json.dumps(description))
PYTHON

venv/bin/nnUNetv2_plan_and_preprocess -d 1 2 --verify_dataset_integrity \
    -c 3d_fullres -npfp 1 -np 1 > log 2>&1 || { cat log; exit 1; }
if grep -iE "warning|outside|cropped" log; then
    echo "This differs from what is stated."
    exit 1
fi

venv/bin/python - <<'PYTHON'
import pickle
import sys
from pathlib import Path

import blosc2
import numpy as np
import SimpleITK as sitk
from nnunetv2.evaluation.evaluate_predictions import compute_metrics
from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

STATED = {"air is 0": (1024, 2 / 3), "air is 1": (2048, 1)}

for number, name in ((1, "air is 0"), (2, "air is 1")):
    folder = Path(f"preprocessed/Dataset00{number}_Air/nnUNetPlans_3d_fullres")
    kept = blosc2.open(str(folder / "a_seg.b2nd"))[:][0]
    box = pickle.loads((folder / "a.pkl").read_bytes())["bbox_used_for_cropping"]
    prediction = np.zeros((40, 40, 40), np.uint8)
    prediction[tuple(slice(*ends) for ends in box)] = kept == 1
    sitk.WriteImage(sitk.GetImageFromArray(prediction), "prediction.nii.gz")

    reference = f"raw/Dataset00{number}_Air/labelsTr/a.nii.gz"
    scores = compute_metrics(reference, "prediction.nii.gz", SimpleITKIO(), [1])
    n_kept = int((kept == 1).sum())
    dice = scores["metrics"][1]["Dice"]
    print(f"{name}: {n_kept} of 2048 voxels, Dice {dice:.3f}")
    if n_kept != STATED[name][0] or abs(dice - STATED[name][1]) > 6e-4:
        sys.exit("This differs from what is stated.")
PYTHON
