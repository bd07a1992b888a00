"""4 against 9: the digits, the network, and the ways to weight the images of a batch."""

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
    #: Seed of split, first weights and draws. Runs that differ in ``method`` alone share all of
    #: them.
    seed: int
    learning_rate: float  # Learning rate of SGD, without momentum.
    n_train: int = 425  # Training images of both digits, whatever the ratio.
    n_test: int = 80  # Test images per digit.
    batch: int = 100  # Images per step.
    steps: int = 320  # Steps of SGD.
    momentum: float = 0.0  # Momentum of SGD.
    #: Whether the training images are made of the digits that are there by small affine transforms,
    #: as many as are wanted. The trusted images are then no training images.
    made: bool = False
    #: Steps between two tests, of which the last quarter is averaged; 0 for a test at the end
    #: alone.
    test_every: int = 0

    @property
    def n_rare(self) -> int:
        """4s in training."""
        return round(self.n_train / (self.ratio + 1))


class Split(NamedTuple):
    """Images and labels.

    Images have the shape (n, 1, 28, 28) and are standardised with the training images. Labels have
    the shape (n,); they are 1 for a 4 and 0 for a 9.
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
    #: Examples that count in a step, not in per cent: (sum w)^2 / sum w^2, the mean over the steps.
    effective: float
    seconds: float  # Processor time of the run.


def split_pair(images: NDArray[np.float64], digits: NDArray[np.int64], run: Run) -> Split:
    """The run's images. A seed has the same test and trusted images for every ratio."""
    rng = np.random.default_rng([run.seed, 0])
    train = []
    trusted = []
    test = []
    for digit, n_wanted in ((COMMON, run.n_train - run.n_rare), (RARE, run.n_rare)):
        rows = rng.permutation(np.flatnonzero(digits == digit))
        test.append(rows[: run.n_test])
        others = rows[run.n_test :]
        trusted.append(others[:N_TRUSTED])
        train.append(np.resize(others[N_TRUSTED:] if run.made else others, n_wanted))

    train_images = images[np.concatenate(train)]
    if run.made:
        train_images = moved(train_images, np.random.default_rng([run.seed, 3]))
    centre = train_images.mean()
    spread = train_images.std()

    def standardised(values: NDArray[np.float64]) -> Tensor:
        return torch.from_numpy((values - centre) / spread).float().reshape(-1, 1, 28, 28)

    def labels(rows: list[NDArray[np.int64]]) -> Tensor:
        return torch.from_numpy((digits[np.concatenate(rows)] == RARE).astype(np.int64))

    return Split(
        train_images=standardised(train_images),
        train_labels=labels(train),
        trusted_images=standardised(images[np.concatenate(trusted)]),
        trusted_labels=labels(trusted),
        test_images=standardised(images[np.concatenate(test)]),
        test_labels=labels(test),
    )


def moved(images: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Images (n, 784), each moved a little in its own way.

    They are rotated by up to 10 degrees, scaled by up to 10 % and shifted by up to 1.5 pixels.
    """
    angles = np.deg2rad(rng.uniform(-10, 10, len(images)))
    scales = rng.uniform(0.9, 1.1, len(images))
    shifts = rng.uniform(-1.5, 1.5, (len(images), 2))
    centre = np.full(2, 13.5)
    result = np.empty_like(images)
    for number, image in enumerate(images):
        cos = np.cos(angles[number])
        sin = np.sin(angles[number])
        matrix = np.array([[cos, -sin], [sin, cos]]) / scales[number]
        offset = centre - matrix @ (centre + shifts[number])
        pixels = image.reshape(28, 28)
        result[number] = ndimage.affine_transform(pixels, matrix, offset, order=1).ravel()
    return result


def lenet() -> nn.Sequential:
    """LeNet-5 with ReLU and max-pooling, without padding.

    Images (b, 1, 28, 28) -> logits (b, 2).
    """
    return nn.Sequential(
        nn.Conv2d(1, 6, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 120),
        nn.ReLU(),
        nn.Linear(120, 84),
        nn.ReLU(),
        nn.Linear(84, 2),
    )


def draw_batch(run: Run, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Rows of a batch, with replacement; for ``resample`` half of it, or one fewer, are 4s."""
    if run.method != "resample":
        return rng.integers(len(labels), size=run.batch)
    n_rare = run.batch // 2
    rare = rng.choice(np.flatnonzero(labels == 1), n_rare)
    common = rng.choice(np.flatnonzero(labels == 0), run.batch - n_rare)
    return np.concatenate([rare, common])


def proportion_weights(labels: Tensor, *, n_rare: int, n_train: int) -> Tensor:
    """N / (2 n_class b): both digits weigh the same, and a weight is 1 / b on average."""
    common = n_train / (2 * (n_train - n_rare))
    rare = n_train / (2 * n_rare)
    by_label = torch.tensor([common, rare], device=labels.device)
    return by_label[labels] / len(labels)


def hard_mining_weights(losses: Tensor, labels: Tensor) -> Tensor:
    """The 4s of the batch and as many of its 9s, all alike.

    The 9s are those of the highest loss; there is one if there is no 4.
    """
    is_rare = labels == 1
    n_hard = min(max(1, int(is_rare.sum())), int((~is_rare).sum()))
    hardest = losses.masked_fill(is_rare, -torch.inf).topk(n_hard).indices
    kept = is_rare.float()
    kept[hardest] = 1
    return kept / kept.sum()


def losses_of(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of each image."""
    return cross_entropy(logits, labels, reduction="none")


class _Training:
    """SGD on sum_i w_i l_i over a batch, with the weights of a method."""

    def __init__(self, run: Run, split: Split) -> None:
        self.run = run
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(run.seed)
            # Channels last is the faster order of memory for few channels on a CPU.
            network = lenet().to(memory_format=torch.channels_last)
        self.network = network.to(device_name())
        self.split = Split(*(part.to(device_name()) for part in split))
        self.optimiser = torch.optim.SGD(
            self.network.parameters(), lr=run.learning_rate, momentum=run.momentum
        )
        self.learned = LearnedWeights(self.network, losses_of, at_once=True)
        # Weights have random numbers of their own, so that all but resample draw the same batches.
        self.rng = np.random.default_rng([run.seed, 2])

    def step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step with a batch; returns its weights."""
        if self.run.method == "L2RW":
            trusted = (self.split.trusted_images, self.split.trusted_labels)
            gradient = self.learned.gradient((images, labels), trusted)
            gradient.write()
            weights = gradient.weights
        else:
            losses = losses_of(self.network(images), labels)
            weights = _weights(self.run, losses.detach(), labels, self.rng)
            self.optimiser.zero_grad()
            torch.autograd.backward((weights * losses).sum())
        self.optimiser.step()
        return weights


def _sums(weights: Tensor, labels: Tensor) -> tuple[float, float, float]:
    """Of a step: all weights, those of the 4s, and the examples that count: (sum w)^2 / sum w^2."""
    total = float(weights.sum())
    # No example has a weight where none of a batch would help the trusted ones.
    effective = total**2 / float((weights**2).sum()) if total else 0.0
    return total, float((weights * labels).sum()), effective


def _shares(sums: list[tuple[float, float, float]]) -> dict[str, float]:
    """``weight`` and ``effective`` of an `Outcome`, from `_sums` of all steps."""
    total, rare, effective = (sum(values) for values in zip(*sums, strict=True))
    return {"weight": 100 * rare / total, "effective": effective / len(sums)}


def train(run: Run, split: Split) -> Outcome:
    """Train one network with the method of the run, and test it."""
    start = time.process_time()
    digits = split.train_labels.numpy()
    training = _Training(run, split)
    split = training.split
    rng = np.random.default_rng([run.seed, 1])
    sums = []
    halfway = 0.0
    tests: list[tuple[float, float]] = []
    for step in range(1, run.steps + 1):
        rows = draw_batch(run, digits, rng)
        labels = split.train_labels[rows]
        weights = training.step(split.train_images[rows], labels)
        sums.append(_sums(weights, labels))
        if step == (run.steps + 1) // 2:
            halfway = sum(_wrong(training.network, split)) / 2
        if run.test_every and step % run.test_every == 0:
            tests.append(_wrong(training.network, split))

    last = tests[-max(1, len(tests) // 4) :] or [_wrong(training.network, split)]
    rare, common = (float(mean) for mean in np.mean(last, axis=0))
    return Outcome(
        rare=rare,
        common=common,
        halfway=halfway,
        **_shares(sums),
        seconds=time.process_time() - start,
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
        is_wrong = (network(split.test_images).argmax(1) != split.test_labels).float()
    is_rare = split.test_labels
    is_common = 1 - is_rare
    rare = 100 * float((is_wrong * is_rare).sum() / is_rare.sum())
    common = 100 * float((is_wrong * is_common).sum() / is_common.sum())
    return rare, common
