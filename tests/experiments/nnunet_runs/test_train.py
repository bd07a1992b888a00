import random
import sys

import nnunetv2.run.run_training
import numpy as np
import torch

from experiments.nnunet_runs import train


def test_nnunet_starts_from_the_weights_and_random_numbers_of_the_seed(tmp_path, monkeypatch):
    """What nnU-Net would draw, whatever was drawn before."""
    drawn = []

    def draw(*_, **__):
        drawn.append((torch.nn.Linear(2, 1).weight.tolist(), np.random.random(), random.random()))

    monkeypatch.setattr(nnunetv2.run.run_training, "run_training", draw)
    for seed in ("4", "4", "5"):
        words = ["train", "Dataset001_Any", "3d", "0", "-tr", "T", "-p", "P", "--seed", seed]
        monkeypatch.setattr(sys, "argv", [*words, "--times", str(tmp_path / "times.json")])
        train.main()

    first, again, other = drawn

    assert first == again
    assert all(mine != theirs for mine, theirs in zip(first, other, strict=True))
