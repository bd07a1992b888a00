"""Loops that are not nnU-Net's train on a GPU where there is one: here on a played one, where no
devices mix."""

from dataclasses import replace

import numpy as np
import pytest

import experiments.digits.training as digits
import experiments.imbalanced_pair.training as pair
import experiments.nuclei.patches as patches
import experiments.nuclei.training as nuclei
import experiments.nuclei.unseen_training as unseen
import experiments.nuclei.wrong_labels_training as wrong_labels
from experiments.digits.plan import Run as DigitsRun
from experiments.digits.plan import split_digits
from experiments.nuclei.methods import METHODS
from experiments.nuclei.unseen_training import Method, UnseenRun
from experiments.nuclei.wrong_labels_data import spoilt_images
from experiments.nuclei.wrong_labels_training import DRO, L2RW, PLAIN, RANDOM, TRAININGS
from tests.experiments.made_nuclei import made_images
from tests.fake_gpu import FakeGPU

IMAGES = made_images()
RNG = np.random.default_rng(0)


def of_nuclei(method):
    run = nuclei.Run(METHODS[method], 0, 3)
    return lambda: nuclei.train(
        run, IMAGES[::10], IMAGES[:1], network=nuclei.new_network(0), fill=True
    )


def of_wrong_labels(method):
    noisy = spoilt_images(IMAGES, IMAGES[:1], rng=np.random.default_rng(0))
    return lambda: wrong_labels.train_noisy(replace(TRAININGS[method], iterations=3), noisy)


def of_unseen(generated):
    run = UnseenRun(
        "nnUNetTrainerDRO_beta0", 0, 2, Method(0.1, generated=generated, largest_change=0.05)
    )
    return lambda: unseen.train_unseen(run, IMAGES[:8], IMAGES[:1])


def of_digits(beta):
    run = DigitsRun(0.2, (0.0, beta), 0, 2, largest_share=0.5, n_train=10, n_test=10, batch=10)
    split = split_digits(RNG.random((250, 784)), np.repeat(np.arange(10), 25), run)
    return lambda: digits.train(run, split)


def of_pair(method):
    run = pair.Run(method, 8, 0, 0.05, n_train=54, n_test=10, batch=20, steps=3)
    split = pair.split_pair(RNG.random((120, 784)), np.repeat([4, 9], 60), run)
    return lambda: pair.train(run, split)


@pytest.mark.parametrize(
    ("made", "method"),
    [
        *((of_nuclei, method) for method in ("share0.5", "paper", "GroupDRO")),
        *((of_wrong_labels, method) for method in (PLAIN, RANDOM, L2RW, DRO)),
        *((of_unseen, generated) for generated in ("GI-LS", "worst styles")),
        (of_digits, 10.0),
        *((of_pair, method) for method in pair.METHODS),
    ],
)
def test_it_trains_on_a_gpu(monkeypatch, made, method):
    train = made(method)
    for module in (nuclei, patches, wrong_labels, unseen, digits, pair):
        if hasattr(module, "device_name"):
            monkeypatch.setattr(module, "device_name", lambda: "cuda")

    with FakeGPU() as gpu:
        train()

    assert gpu.events.count("wait")
