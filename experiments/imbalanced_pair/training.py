"""4 against 9, imbalanced.

The digits, the network, and the ways to weight the images of a batch.
"""

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.device import device_name
from experiments.spoilt_labels.random_weights import random_weights
from nnunet_dro.losses import LearnedWeights

METHODS = ("plain", "proportion", "resample", "hard mining", "random", "L2RW")
RARE = 4
COMMON = 9
#: Trusted images of each digit; they are training images of every method.
N_TRUSTED = 5


@dataclass(frozen=True)
class Run:
    """One training and everything that determines it."""

    method: str  # One of `METHODS`.
    ratio: int  # 9s for each 4 in training, >= 1.
    seed: int  # Seed of split, first weights and draws. Runs that differ in ``method`` alone share all of them.
    learning_rate: float  # Learning rate of SGD, without momentum.
    n_train: int = 425  # Training images of both digits, whatever the ratio.
    n_test: int = 80  # Test images per digit.
    batch: int = 100  # Images per step.
    steps: int = 320  # Steps of SGD.
    momentum: float = 0.0  # Momentum of SGD.
    # Whether the training images are made of the digits that are there by small affine transforms,
    # as many as are wanted. The trusted images are then no training images.
    made: bool = False
    # Steps between two tests, of which the last quarter is averaged; 0 for a test at the end alone.
    test_every: int = 0

    @property
    def n_rare(self) -> int:
        """4s in training."""
        return round(self.n_train / (self.ratio + 1))


class Split(NamedTuple):
    """Images of shape (n, 1, 28, 28), standardised with the training images.

    Labels (n,), 1 for a 4 and 0 for a 9.
    """

    train_images: Tensor
    train_labels: Tensor
    trusted_images: Tensor
    trusted_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


@dataclass(frozen=True)
class Outcome:
    """The result of a run, in per cent where not said otherwise."""

    rare: float  # Test 4s taken for 9s, at the end, or the mean of the last quarter of the tests.
    common: float  # Test 9s taken for 4s, likewise.
    halfway: float  # Test images wrong after half of the steps.
    weight: float  # Share of the 4s in the weights of all examples in all steps.
    effective: float  # Examples that count in a step, not in per cent: (sum w)^2 / sum w^2, the mean over the steps.
    seconds: float  # Processor time of the run.


def split_pair(images: NDArray[np.float64], digits: NDArray[np.int64], run: Run) -> Split:
    """The run's images. A seed has the same test and trusted images for every ratio."""
    rng = np.random.default_rng([run.seed, 0])
    train = []
    trusted = []
    test = []
    for digit, n_wanted in ((COMMON, run.n_train - run.n_rare), (RARE, run.n_rare)):
        here = rng.permutation(np.flatnonzero(digits == digit))
        test.append(here[: run.n_test])
        others = here[run.n_test :]
        trusted.append(others[:N_TRUSTED])
        train.append(np.resize(others[N_TRUSTED:] if run.made else others, n_wanted))
    parts = [images[np.concatenate(rows)] for rows in (train, trusted, test)]
    if run.made:
        parts[0] = moved(parts[0], np.random.default_rng([run.seed, 3]))
    centre = parts[0].mean()
    spread = parts[0].std()
    tensors: list[Tensor] = []
    for values, rows in zip(parts, (train, trusted, test), strict=True):
        tensors.append(torch.from_numpy((values - centre) / spread).float().reshape(-1, 1, 28, 28))
        tensors.append(torch.from_numpy((digits[np.concatenate(rows)] == RARE).astype(np.int64)))
    return Split(*tensors)


def moved(images: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Images (n, 784), each rotated by up to 10 degrees, scaled by up to 10 % and shifted by up to 1.5 pixels."""
    angles = np.deg2rad(rng.uniform(-10, 10, len(images)))
    scales = rng.uniform(0.9, 1.1, len(images))
    shifts = rng.uniform(-1.5, 1.5, (len(images), 2))
    centre = np.full(2, 13.5)
    result = np.empty_like(images)
    for number, (image, angle, scale, shift) in enumerate(
        zip(images, angles, scales, shifts, strict=True)
    ):
        matrix = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) / scale
        offset = centre - matrix @ (centre + shift)
        result[number] = ndimage.affine_transform(
            image.reshape(28, 28), matrix, offset, order=1
        ).ravel()
    return result


def lenet() -> nn.Sequential:
    """LeNet-5 with ReLU and max-pooling, without padding.

    Images (b, 1, 28, 28) -> logits (b, 2).
    """
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2)),
    )


def draw_batch(run: Run, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of a batch, with replacement; for ``resample`` half of it, or one fewer, are 4s."""
    if run.method != "resample":
        return rng.integers(len(labels), size=run.batch)
    n_drawn = {1: run.batch // 2, 0: run.batch - run.batch // 2}
    return np.concatenate(
        [rng.choice(np.flatnonzero(labels == digit), n) for digit, n in n_drawn.items()]
    )


def proportion_weights(labels: Tensor, *, n_rare: int, n_train: int) -> Tensor:
    """Both digits weigh the same over the training set, and a weight is 1 / b on average.

    N / (2 n_class b).
    """
    of_class = torch.tensor(
        [n_train / (2 * (n_train - n_rare)), n_train / (2 * n_rare)], device=labels.device
    )
    return of_class[labels] / len(labels)


def hard_mining_weights(losses: Tensor, labels: Tensor) -> Tensor:
    """The 4s of the batch and as many of its 9s, those of the highest loss (one if there is no 4), all alike."""
    is_rare = labels == 1
    n_hard = min(max(1, int(is_rare.sum())), int((~is_rare).sum()))
    kept = is_rare.float()
    kept[losses.masked_fill(is_rare, -torch.inf).topk(n_hard).indices] = 1
    return kept / kept.sum()


def losses_of(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of each image."""
    return cross_entropy(logits, labels, reduction="none")


def train(run: Run, split: Split) -> Outcome:
    """Train one network by SGD on sum_i w_i l_i over a batch, with the weights of the method, and test it."""
    start = time.process_time()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        # Channels last is the faster order of memory for few channels on a CPU.
        network = lenet().to(memory_format=torch.channels_last).to(device_name())
    digits = split.train_labels.numpy()
    split = Split(*(part.to(device_name()) for part in split))
    optimiser = torch.optim.SGD(network.parameters(), lr=run.learning_rate, momentum=run.momentum)
    learned = LearnedWeights(network, losses_of, at_once=True)
    # Weights have random numbers of their own, so that all but resample draw the same batches.
    draws, control = (np.random.default_rng([run.seed, stream]) for stream in (1, 2))
    of_rare = of_all = effective = halfway = 0.0
    tests: list[tuple[float, float]] = []
    for step in range(1, run.steps + 1):
        rows = draw_batch(run, digits, draws)
        images = split.train_images[rows]
        labels = split.train_labels[rows]
        if run.method == "L2RW":
            found = learned.gradient((images, labels), (split.trusted_images, split.trusted_labels))
            found.write()
            weights = found.weights
        else:
            losses = losses_of(network(images), labels)
            weights = _weights(run, losses.detach(), labels, control)
            optimiser.zero_grad()
            torch.autograd.backward((weights * losses).sum())
        optimiser.step()
        of_rare += float((weights * labels).sum())
        of_all += (total := float(weights.sum()))
        # No example has a weight where none of a batch would help the trusted ones.
        effective += total**2 / float((weights**2).sum()) if total else 0.0
        if step == (run.steps + 1) // 2:
            halfway = sum(_wrong(network, split)) / 2
        if run.test_every and step % run.test_every == 0:
            tests.append(_wrong(network, split))
    last = tests[-max(1, len(tests) // 4) :] or [_wrong(network, split)]
    rare, common = (float(mean) for mean in np.mean(last, axis=0))
    return Outcome(
        rare,
        common,
        halfway,
        100 * of_rare / of_all,
        effective / run.steps,
        time.process_time() - start,
    )


def _weights(run: Run, losses: Tensor, labels: Tensor, rng: np.random.Generator) -> Tensor:
    if run.method == "proportion":
        return proportion_weights(labels, n_rare=run.n_rare, n_train=run.n_train)
    if run.method == "hard mining":
        return hard_mining_weights(losses, labels)
    if run.method == "random":
        return random_weights(len(labels), rng).to(losses.device)
    return torch.full_like(losses, 1 / len(losses))


def _wrong(network: nn.Module, split: Split) -> tuple[float, float]:
    """Per cent of the test images that are wrong, of the 4s and of the 9s."""
    with torch.no_grad():
        wrong = (network(split.test_images).argmax(1) != split.test_labels).float()
    is_rare = split.test_labels
    rare, common = (
        100 * float((wrong * of_digit).sum() / of_digit.sum())
        for of_digit in (is_rare, 1 - is_rare)
    )
    return rare, common
