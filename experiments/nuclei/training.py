"""One training on nuclei, and its Dice on the way and at the end."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim import SGD, Optimizer

from experiments.datasets.division import (
    FOLDS,
    HELD_OUT,
    HELD_OUT_LENGTH,
    SHUFFLED,
    held_out_weights,
    shuffled,
)
from experiments.datasets.nuclei import TEST_SIZE, Image
from experiments.device import device_name
from experiments.nuclei.network import UNet
from experiments.nuclei.patches import BATCH, Batch, draw_patches
from nnunet_dro.losses import DiceCELoss, PooledHardness
from nnunet_dro.sampling import Draws, HardnessTable
from nnunet_dro.trainers.registry import parse_trainer_name

#: Settings of nnU-Net's optimiser.
LEARNING_RATE = 1e-2
MOMENTUM = 0.99
WEIGHT_DECAY = 3e-5
LARGEST_NORM = 12.0


@dataclass(frozen=True)
class Run:
    """One training and everything that determines it."""

    #: Name of the trainer whose way of drawing and weighting is taken, without its length.
    trainer: str
    seed: int  # Seed of the split, the first weights, the draws and the augmentation.
    iterations: int  # Length of the training.

    @property
    def optimiser(self) -> dict[str, Any]:
        """Learning rate and momentum of SGD."""
        return {"lr": LEARNING_RATE, "momentum": MOMENTUM, "nesterov": True}

    @property
    def moments(self) -> list[int]:
        """Iterations after which the network is tested: a tenth, a half and all."""
        return sorted({max(1, self.iterations // part) for part in (10, 2, 1)})


@dataclass(frozen=True)
class OptimisedRun(Run):
    """A training with an optimiser of its own."""

    learning_rate: float  # Its learning rate at the start.
    momentum: float = MOMENTUM  # Its Nesterov momentum; 0 is plain SGD.

    @property
    def optimiser(self) -> dict[str, Any]:
        """Learning rate and momentum of SGD."""
        return {"lr": self.learning_rate, "momentum": self.momentum, "nesterov": self.momentum > 0}


@dataclass
class Result:
    """What came out of a run."""

    #: Rows with the iteration, the modality, the test case and its Dice in [0, 1].
    dice: list[tuple[int, str, str, float]] = field(default_factory=list)
    #: Rows with the iteration, the modality and its share of the draws so far, in [0, 1].
    share: list[tuple[int, str, float]] = field(default_factory=list)
    clipped_share: float = 0.0  # Share of the importance weights that were clipped, in [0, 1].
    seconds: float = 0.0  # Processor time of the run.


class Sampler:
    """Draws images and weights their losses as the trainer of that name does.

    The groups of the trainer are the modalities, unless others are given.
    """

    def __init__(self, trainer: str, images: Sequence[Image], groups: Sequence[str] = ()) -> None:
        _, options = parse_trainer_name(trainer)
        history = options.history
        self.importance = options.importance
        self.pooled: PooledHardness | None = None
        if history.hardness == "pooled":
            self.pooled = PooledHardness(len(images), memory=history.memory)
        self.table = HardnessTable(
            [image.case for image in images],
            rule=options.rule(groups or [image.modality for image in images]),
            momentum=history.momentum,
            exploration=options.exploration,
            replace=options.replace,
        )
        self.draws = np.zeros(len(images), dtype=np.int64)
        self.n_clipped = 0
        self.batch_weights = torch.ones(BATCH)

    def draw(self, rng: np.random.Generator) -> Draws:
        """Draw the images of a batch."""
        draws = self.table.draw(BATCH, rng=rng)
        np.add.at(self.draws, draws.indices, 1)
        return draws

    def weighted_loss(
        self, loss: DiceCELoss, logits: Tensor, target: Tensor, draws: Draws
    ) -> Tensor:
        """The loss to minimise, a scalar, of logits (b, 2, height, width).

        The hardness goes into the table.
        """
        cases = loss(logits, target)
        hardness = cases.hardness
        if self.pooled is not None:
            hardness = self.pooled(torch.from_numpy(draws.indices).to(logits.device), cases)
        hardness = hardness.cpu()
        self.batch_weights = self.weights(hardness, draws)
        self.table.update(draws.indices, hardness.numpy())
        return cases.weighted(self.batch_weights.to(logits.device))

    def weights(self, hardness: Tensor, draws: Draws) -> Tensor:
        """The weights of the losses of a batch, 1 where every image counts the same, shape (b,)."""
        # What a group counts, before the losses of this batch change it.
        group_weights = self.table.rule.loss_weights(draws.indices, draws.probabilities)
        weights = torch.ones(len(hardness))
        if group_weights is not None:
            weights = torch.from_numpy(group_weights).float()
        if self.importance is None:
            return weights

        corrections, clipped = self.importance(
            hardness,
            torch.from_numpy(draws.stale_losses).float(),
            shares=torch.from_numpy(draws.shares).float(),
            explored=torch.from_numpy(draws.explored).float(),
            betas=torch.from_numpy(draws.betas).float(),
        )
        self.n_clipped += int(clipped.sum())
        return weights * corrections

    def backward(
        self, loss: DiceCELoss, network: UNet, images: Tensor, labels: Tensor, draws: Draws
    ) -> None:
        """Give the network's parameters the gradient to step along.

        The hardness of the images goes into the table.
        """
        torch.autograd.backward(self.weighted_loss(loss, network(images), labels, draws))

    def step(
        self, optimiser: Optimizer, loss: DiceCELoss, network: UNet, batch: Batch, draws: Draws
    ) -> None:
        """Move the network along its gradient, which is made shorter where it is long."""
        optimiser.zero_grad()
        self.backward(loss, network, *batch, draws)
        torch.nn.utils.clip_grad_norm_(network.parameters(), LARGEST_NORM)
        optimiser.step()


def new_network(seed: int) -> UNet:
    """A network whose random weights are those of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return UNet()


def train(
    run: Run,
    train_images: Sequence[Image],
    test_images: Sequence[Image],
    *,
    network: UNet | None = None,
    fill: bool = False,
    sampler: Sampler | None = None,
    loss: DiceCELoss | None = None,
) -> Result:
    """Train one network, and test it on the way and at the end.

    Runs of the same seed start from the same weights, and draw and augment from the same random
    numbers. A network that is given is trained in its place; with ``fill`` a pass over the training
    images gives their stale losses first. The loss has a Dice of the whole batch if none is given.
    """
    start = time.process_time()
    network = (network or new_network(run.seed)).to(device_name())
    optimiser = SGD(network.parameters(), weight_decay=WEIGHT_DECAY, **run.optimiser)
    loss = (loss or DiceCELoss(batch_dice=True, do_bg=False, hardness="pooled")).to(device_name())
    result = Result()
    if sampler is None:
        sampler = Sampler(run.trainer, train_images, groups_of(run, train_images, loss))
    to_draw = np.random.default_rng([run.seed, 1])
    to_augment = np.random.default_rng([run.seed, 2])
    tests = [image.centre(TEST_SIZE) for image in test_images]
    modalities = np.array([image.modality for image in train_images])
    if fill:
        rng = np.random.default_rng([run.seed, 3])
        fill_stale_losses(sampler, network, loss, train_images, rng)

    for n_done in range(run.iterations):
        for group in optimiser.param_groups:
            group["lr"] = run.optimiser["lr"] * (1 - n_done / run.iterations) ** 0.9
        draws = sampler.draw(to_draw)
        batch = draw_patches(train_images, draws, to_augment)
        sampler.step(optimiser, loss, network, batch, draws)
        if n_done + 1 in run.moments:
            result.dice += _dice_rows(network, tests, n_done + 1)
            result.share += _share_rows(sampler, modalities, n_done + 1)

    result.clipped_share = sampler.n_clipped / (run.iterations * BATCH)
    result.seconds = time.process_time() - start
    return result


def _dice_rows(
    network: UNet, images: Sequence[Image], iteration: int
) -> list[tuple[int, str, str, float]]:
    return [(iteration, image.modality, image.case, dice_of(network, image)) for image in images]


def _share_rows(
    sampler: Sampler, modalities: NDArray[np.str_], iteration: int
) -> list[tuple[int, str, float]]:
    n_drawn = pd.Series(sampler.draws).groupby(modalities, sort=False).sum()
    shares = n_drawn / sampler.draws.sum()
    return [(iteration, str(modality), share) for modality, share in shares.items()]


def groups_of(run: Run, images: Sequence[Image], loss: DiceCELoss) -> list[str]:
    """What the trainer's column has of each image.

    That is its modality, that of another one, or a weight by its Dice when it is held out.
    """
    _, options = parse_trainer_name(run.trainer)
    column = getattr(options, "column", "")
    modalities = [image.modality for image in images]
    if column == SHUFFLED:
        return shuffled(modalities, run.seed)
    if column != HELD_OUT:
        return modalities

    length = max(1, round(HELD_OUT_LENGTH * run.iterations))
    plain = Run("nnUNetTrainerDRO_beta0", run.seed, length)
    dice = np.zeros(len(images))
    for fold in range(FOLDS):
        network = new_network(run.seed).to(device_name())
        inside = [image for n, image in enumerate(images) if n % FOLDS != fold]
        train(plain, inside, (), network=network, loss=loss)
        for n in range(fold, len(images), FOLDS):
            dice[n] = dice_of(network, images[n].centre(TEST_SIZE))
    return [repr(float(weight)) for weight in held_out_weights(dice)]


def fill_stale_losses(
    sampler: Sampler,
    network: UNet,
    loss: DiceCELoss,
    images: Sequence[Image],
    rng: np.random.Generator,
) -> None:
    """Give every image its stale loss in one pass without gradient.

    A finetuning does so before its first batch.
    """
    if not sampler.table.rule.needs_losses:
        return
    with torch.no_grad():
        while sampler.table.n_unseen:
            draws = sampler.table.draw(BATCH, rng=rng)
            intensities, labels = draw_patches(images, draws, rng)
            sampler.weighted_loss(loss, network(intensities), labels, draws)


def dice_of(network: UNet, image: Image) -> float:
    """Dice of the predicted nuclei of an image; 1 if there are none in prediction and reference."""
    intensities = torch.from_numpy(image.intensities).to(device_name())
    predicted = network.predict(intensities).cpu().numpy()
    reference = image.labels > 0
    total = int(predicted.sum()) + int(reference.sum())
    if total == 0:
        return 1.0
    return 2 * int((predicted & reference).sum()) / total
