#!/usr/bin/env bash
# nnU-Net's --val_best without --val trains anew, and after one epoch the best network is gone.
#
# Versions: nnunetv2 2.8.1, torch 2.13.0, numpy 2.4.6; Python 3.11 or later.
#
# Behaviour: --val_best, by its help, validates checkpoint_best.pth instead of checkpoint_final.pth. Given
# alone for a finished training, it begins a new one from random weights, without a question or a copy.
# The first epoch is the best so far, so that checkpoint_best.pth is replaced as soon as it ends. Somebody
# notices, stops it and adds --val: that asks only whether there is a checkpoint_final.pth, the old one,
# and the network of that first epoch is validated.
#
# Guess before the run, by the help: --val_best only validates, as --val does.
#
# Seen (run_training(), which nnUNetv2_train calls, with four epochs of one iteration, and without the
# validation at its end; which training each file is of, and the network that would be validated):
#   finished: final 1, best 1, validated 1
#   --val_best, interrupted: final 1, best 2, validated None
#   --val --val_best: final 1, best 2, validated 2
#
# Why it matters: One option too few costs the best network of a training that took days. The scores of a
# network of one epoch then stand where those of the best belong, beside the final checkpoint of another
# training, and nothing says so.
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
        self.num_epochs = 4
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
    "finished": (1, 1, 1),
    "--val_best, interrupted": (1, 2, None),
    "--val --val_best": (1, 2, 2),
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
    files = [fold / f"checkpoint_{kind}.pth" for kind in ("final", "best")]
    return tuple(training_of(path) for path in [*files, Path("validated.pth")])


seen = {}
with open("log.txt", "w") as log, redirect_stdout(log):
    os.environ["EPOCHS"] = "all"
    seen["finished"] = train()
    os.environ["EPOCHS"] = "1"
    seen["--val_best, interrupted"] = train(val_with_best=True)
    seen["--val --val_best"] = train(only_run_validation=True, val_with_best=True)

for name, trainings in seen.items():
    print("{}: final {}, best {}, validated {}".format(name, *trainings))

if seen != STATED:
    sys.exit("This differs from what is stated.")
PYTHON
