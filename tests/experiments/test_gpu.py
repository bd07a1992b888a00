"""Loops that are not nnU-Net's train on a GPU where there is one: here on a pretended one, with the CPU's values."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_leaves

import experiments.digits.training as digits
import experiments.imbalanced_pair.training as pair
import experiments.nuclei.training as nuclei
import experiments.nuclei.unseen_training as unseen
import experiments.nuclei.wrong_labels_training as wrong_labels
from experiments.digits.plan import Run as DigitsRun
from experiments.digits.plan import split_digits
from experiments.imbalanced_pair.training import Run as PairRun
from experiments.imbalanced_pair.training import split_pair
from experiments.nuclei.methods import METHODS
from experiments.nuclei.training import Run, new_network
from experiments.nuclei.unseen_training import Method, UnseenRun
from experiments.nuclei.wrong_labels_data import spoilt_images
from experiments.nuclei.wrong_labels_methods import DRO, L2RW, PLAIN, RANDOM, TRAININGS
from tests.experiments.made_nuclei import made_images
from tests.experiments.pretended_gpu import DEVICE, pretended_gpu


def on_cpu_and_gpu(monkeypatch, train, *modules):
    """What a training returns on the CPU and on a GPU, as dictionaries without their times."""
    results = [asdict(train())]
    for module in modules:
        monkeypatch.setattr(module, "device_name", lambda: DEVICE)
    with pretended_gpu() as gpu:
        results.append(asdict(train()))
    assert gpu.n_operations > 100
    for result in results:
        for name in ("seconds", "milliseconds"):
            result.pop(name, None)
    return results


def assert_close(here, there, *, rel):
    """Check that numbers are about the same, and all else is the same."""
    for ours, theirs in zip(tree_leaves(here), tree_leaves(there), strict=True):
        assert theirs == (pytest.approx(ours, rel=rel) if isinstance(ours, float) else ours)


def test_the_pretended_gpu_mixes_with_nothing():
    with pretended_gpu():
        there, here = torch.ones(2).to(DEVICE), torch.ones(2)
        assert (there + 1).cpu().tolist() == [2, 2]
        with pytest.raises(AssertionError, match="on the CPU"):
            there + here
        with pytest.raises(TypeError, match="cannot become an array"):
            there.numpy()


@pytest.fixture
def images():
    return made_images()


@pytest.mark.parametrize("method", ["share0.5", "paper", "GroupDRO"])
def test_nuclei(method, images, monkeypatch):
    run = Run(METHODS[method], 0, 3)

    def train():
        network = new_network(0)
        return nuclei.train(run, images[::10], images[:1], network=network, fill=True)

    here, there = on_cpu_and_gpu(monkeypatch, train, nuclei)
    assert here == there


@pytest.mark.parametrize("method", [PLAIN, RANDOM, L2RW, DRO])
def test_wrong_labels(method, images, monkeypatch):
    run = replace(TRAININGS[method], iterations=3)
    noisy = spoilt_images(images, images[:1], rng=np.random.default_rng(0))

    def train():
        return wrong_labels.train_noisy(run, noisy)

    here, there = on_cpu_and_gpu(monkeypatch, train, nuclei, wrong_labels)
    # Learnt weights are computed case by case where PyTorch has no derivatives in forward mode, as there.
    assert_close(here, there, rel=0.01 if method == L2RW else 0)


@pytest.mark.parametrize("generated", ["GI-LS", "worst styles"])
def test_unseen_domains(generated, images, monkeypatch):
    run = UnseenRun("nnUNetTrainerDRO_beta0", 0, 2, Method(0.1, generated=generated, largest_change=0.05))

    def train():
        return unseen.train(run, images[:8], images[:1])

    here, there = on_cpu_and_gpu(monkeypatch, train, nuclei, unseen)
    assert here == there


def test_digits(monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 25)
    run = DigitsRun(0.2, (0.0, 10.0), 0, 2, largest_share=0.5, n_train=10, n_test=10, batch=10)
    split = split_digits(rng.random((250, 784)), labels, run)
    here, there = on_cpu_and_gpu(monkeypatch, lambda: digits.train(run, split), digits)
    assert here == there


@pytest.mark.parametrize("method", pair.METHODS)
def test_pair(method, monkeypatch):
    rng = np.random.default_rng(0)
    run = PairRun(method, 8, 0, 0.05, n_train=54, n_test=10, batch=20, steps=3)
    split = split_pair(rng.random((120, 784)), np.repeat([4, 9], 60), run)
    here, there = on_cpu_and_gpu(monkeypatch, lambda: pair.train(run, split), pair)
    assert_close(here, there, rel=1e-3)
