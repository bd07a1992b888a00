"""One training on digits of which one is rare: its images, the training, and its accuracy after each epoch."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d, cross_entropy

from experiments.digits.network import wide_resnet
from nnunet_dro.sampling import HardnessTable

#: The digit that is rare in training.
RARE = 3


@dataclass(frozen=True)
class Run:
    """One training and everything that determines it.

    Attributes:
        share: Share of the rare digit's training images that is kept, in (0, 1].
        beta: Robustness, 1/loss units; 0 is ERM, by the same code.
        seed: Seed of the split, the first weights and the draws. Runs that differ in ``beta`` alone share all of them.
        n_train: Training images per digit, before the cut.
        n_test: Test images per digit.
        batch: Images per iteration.
        epochs: Number of epochs, each of as many draws as there are training images.
        learning_rate: Learning rate of SGD.
    """

    share: float
    beta: float
    seed: int
    n_train: int = 400
    n_test: int = 100
    batch: int = 8
    epochs: int = 28
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"`share` must be in (0, 1], got {self.share!r}. 0.01 keeps one image in a hundred.")


@dataclass(frozen=True)
class Split:
    """Images of shape (n, 1, 14, 14), standardised with the training images, and labels of shape (n,)."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class Curve:
    """Accuracy and draws of a run after each epoch, in per cent.

    Attributes:
        rare: Accuracy on the test images of the rare digit.
        overall: Accuracy on all test images.
        drawn: Share of the rare digit in the draws of the epoch.
        distinct: Share of distinct images in a batch; the mean of the epoch.
        seconds: Processor time of the run.
    """

    rare: list[float]
    overall: list[float]
    drawn: list[float]
    distinct: list[float]
    seconds: float


def split_digits(images: NDArray[np.float64], labels: NDArray[np.int64], run: Run) -> Split:
    """The run's training and test images, averaged over 2 x 2 pixels; the rare digit keeps its share of training."""
    rng = np.random.default_rng([run.seed, 0])
    train, test = [], []
    for digit in np.unique(labels):
        here = rng.permutation(np.flatnonzero(labels == digit))
        train.append(here[: max(1, round(run.share * run.n_train)) if digit == RARE else run.n_train])
        test.append(here[run.n_train : run.n_train + run.n_test])
    train_rows, test_rows = np.concatenate(train), np.concatenate(test)
    centre, spread = images[train_rows].mean(), images[train_rows].std()

    def as_images(rows: NDArray[np.int64]) -> Tensor:
        return avg_pool2d(torch.from_numpy((images[rows] - centre) / spread).float().reshape(-1, 1, 28, 28), 2)

    targets = torch.from_numpy(labels)
    return Split(as_images(train_rows), targets[train_rows], as_images(test_rows), targets[test_rows])


def train(run: Run, split: Split, *, progress: Callable[[float], None] = lambda share: None) -> Curve:
    """Train one network and test it after each epoch.

    Args:
        run: What to train.
        split: Its images.
        progress: Called after each epoch with the share that is done.
    """
    start = time.process_time()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        # Channels last is the faster order of memory for few channels on a CPU.
        network = wide_resnet().to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(network.parameters(), lr=run.learning_rate)
    n = len(split.train_labels)
    table = HardnessTable([str(i) for i in range(n)], beta=run.beta, exploration=1e-4, replace=True)
    rng = np.random.default_rng([run.seed, 1])
    is_rare, is_rare_test = (split.train_labels == RARE).numpy(), split.test_labels == RARE
    curve = Curve([], [], [], [], 0.0)
    for epoch in range(run.epochs):
        network.train()
        batches = []
        for _ in range(-(-n // run.batch)):
            cases = table.draw(run.batch, rng=rng).indices
            images = split.train_images[cases].contiguous(memory_format=torch.channels_last)
            losses = cross_entropy(network(images), split.train_labels[cases], reduction="none")
            optimiser.zero_grad()
            torch.autograd.backward(losses.mean())
            optimiser.step()
            table.update(cases, losses.detach().numpy())
            batches.append(cases)
        network.eval()
        with torch.inference_mode():
            right = network(split.test_images).argmax(1) == split.test_labels
        curve.rare.append(100 * float(right[is_rare_test].float().mean()))
        curve.overall.append(100 * float(right.float().mean()))
        curve.drawn.append(100 * float(is_rare[np.stack(batches)].mean()))
        curve.distinct.append(100 * float(np.mean([len(np.unique(cases)) for cases in batches])) / run.batch)
        progress((epoch + 1) / run.epochs)
    return replace(curve, seconds=time.process_time() - start)
