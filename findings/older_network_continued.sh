#!/usr/bin/env bash
# nnU-Net's --c takes up an older, finished training and deletes the checkpoint of the one interrupted.
#
# Versions: nnunetv2 2.8.1, torch 2.13.0, numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: A training that is begun again without --c leaves the checkpoint_final.pth of the one before
# in place. Interrupted, it leaves checkpoint_latest.pth. --c, by its help, continues from the latest
# checkpoint, but it takes checkpoint_final.pth wherever there is one, whatever the dates. No epoch is left
# of that training: it ends at once, is saved as final once more, its network is validated, and
# checkpoint_latest.pth is deleted. checkpoint_best.pth remains that of the second training.
#
# Guess before the run, by the help: --c goes on with the training that was interrupted.
#
# Seen (run_training(), which nnUNetv2_train calls, with four epochs of one iteration, and without the
# validation at its end; which training each file is of, and the network that would be validated):
#   finished: final 1, latest None, best 1, validated 1
#   begun again, interrupted: final 1, latest 2, best 2, validated None
#   continued by --c: final 1, latest None, best 2, validated 1
#
# Why it matters: A training is repeated once labels were corrected; on a cluster it reaches its time limit
# and a script continues it. The scores reported of the new network are then those of the old one, in files
# of today, and the new one is lost but for checkpoint_best.pth.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --no-compile nnunetv2==2.8.1 torch==2.13.0 numpy==2.4.6
cd "$folder"
export nnUNet_raw=raw nnUNet_preprocessed=preprocessed nnUNet_results=results

venv/bin/python - <<'PYTHON'
import json
from pathlib import Path

import numpy as np
from skimage.io import imsave

images = Path("raw/Dataset001_Cells/imagesTr")
labels = images.with_name("labelsTr")
images.mkdir(parents=True)
labels.mkdir()
for index in range(6):
    mask = np.zeros((32, 32), np.uint8)
    mask[8:20, index + 4 : index + 16] = 1
    imsave(labels / f"cell_{index}.png", mask, check_contrast=False)
    imsave(images / f"cell_{index}_0000.png", 50 + 100 * mask, check_contrast=False)
description = {
    "channel_names": {"0": "microscopy"},
    "labels": {"background": 0, "cell": 1},
    "numTraining": 6,
    "file_ending": ".png",
}
images.with_name("dataset.json").write_text(json.dumps(description))
PYTHON
venv/bin/nnUNetv2_plan_and_preprocess -d 1 -c 2d -npfp 1 -np 1 > log.txt 2>&1

cat > nnUNetTrainerShort.py <<'PYTHON'
import os

from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer


class nnUNetTrainerShort(nnUNetTrainer):
    def initialize(self):
        self.num_epochs, self.save_every = 4, 1
        self.num_iterations_per_epoch = self.num_val_iterations_per_epoch = 1
        super().initialize()

    def on_epoch_end(self):
        super().on_epoch_end()
        if os.environ["EPOCHS"] == str(self.current_epoch):
            raise KeyboardInterrupt

    def perform_actual_validation(self, save_probabilities=False):
        self.save_checkpoint("validated.pth")
PYTHON
mv nnUNetTrainerShort.py venv/lib/python3*/site-packages/nnunetv2/training/nnUNetTrainer/

export nnUNet_n_proc_DA=0
venv/bin/python -W ignore - <<'PYTHON'
import os
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path

import torch
from nnunetv2.run.run_training import run_training

STATED = {
    "finished": (1, None, 1, 1),
    "begun again, interrupted": (1, 2, 2, None),
    "continued by --c": (1, None, 2, 1),
}

begun = []


def training_of(path):
    if not path.exists():
        return None
    first_epoch = torch.load(path, weights_only=False)["logging"]["epoch_start_timestamps"][0]
    if first_epoch not in begun:
        begun.append(first_epoch)
    return begun.index(first_epoch) + 1


def train(**options):
    Path("validated.pth").unlink(missing_ok=True)
    with suppress(KeyboardInterrupt):
        run_training("1", "2d", "all", "nnUNetTrainerShort", device=torch.device("cpu"), **options)
    (fold,) = Path("results").glob("*/*/fold_all")
    files = [fold / f"checkpoint_{kind}.pth" for kind in ("final", "latest", "best")]
    return tuple(training_of(path) for path in [*files, Path("validated.pth")])


seen = {}
with open("log.txt", "w") as log, redirect_stdout(log):
    os.environ["EPOCHS"] = "all"
    seen["finished"] = train()
    os.environ["EPOCHS"] = "3"
    seen["begun again, interrupted"] = train()
    os.environ["EPOCHS"] = "all"
    seen["continued by --c"] = train(continue_training=True)

for name, trainings in seen.items():
    print("{}: final {}, latest {}, best {}, validated {}".format(name, *trainings))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
