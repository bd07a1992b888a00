"""Trainings on digits of which one is rare, side by side, and what is measured after each epoch."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.device import device_name
from experiments.digits.network import side_by_side, wide_resnet
from experiments.digits.plan import RARE, Run, Split
from nnunet_dro.sampling import HardnessTable

#: Images that go through the networks at once when nothing is trained.
_CHUNK = 64


@dataclass(frozen=True)
class Epoch:
    """What is measured after an epoch of a training. Losses are cross-entropies."""

    epoch: int  # Number of the epoch, from 1 on.
    rare: float  # Accuracy on the test images of the rare digit, in per cent.
    overall: float  # Mean over the digits of the accuracy on their test images, in per cent.
    drawn: float  # Share of the rare digit in the draws of the epoch, in per cent.
    distinct: float  # Share of distinct images in a batch, in per cent; the mean of the epoch.
    loss: float  # Mean loss of all training images after the epoch, in evaluation mode.
    loss_sd: float  # Their standard deviation.
    rare_loss: float  # Mean of those of the rare digit.
    #: Mean over all training images of the loss when they were last drawn, in training mode.
    stale_loss: float
    stale_sd: float  # Their standard deviation.


@dataclass(frozen=True)
class Result:
    """What came out of a run."""

    epochs: list[list[Epoch]]  # For each beta, what was measured, in the order of the epochs.
    seconds: float  # Processor time of the run.


class _Samplers:
    """The hardness weighted sampling of each network, which sees the losses of its own draws."""

    def __init__(self, run: Run, n_images: int) -> None:
        names = [str(i) for i in range(n_images)]
        self.tables = []
        self.rngs = []
        for beta in run.betas:
            self.tables.append(HardnessTable(names, beta=beta, exploration=1e-4, replace=True))
            self.rngs.append(np.random.default_rng([run.seed, 1]))

    def draw(self, n: int) -> NDArray[np.int64]:
        """Images of a batch of each network, shape (networks, n)."""
        pairs = zip(self.tables, self.rngs, strict=True)
        return np.stack([table.draw(n, rng=rng).indices for table, rng in pairs])

    def update(self, drawn: NDArray[np.int64], losses: NDArray[np.float32]) -> None:
        """Take notice of the losses of what was drawn, both of shape (networks, n)."""
        for table, images, values in zip(self.tables, drawn, losses, strict=True):
            table.update(images, values)

    def losses(self) -> NDArray[np.float64]:
        """The stale losses, shape (networks, images)."""
        return np.stack([table.losses for table in self.tables])


def train(run: Run, split: Split) -> Result:
    """Train a network for each beta and measure after some epochs."""
    start = time.process_time()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        # Channels last is the faster order of memory for few channels on a CPU.
        networks = side_by_side(wide_resnet(), len(run.betas)).to(memory_format=torch.channels_last)
    networks = networks.to(device_name())
    digits = (split.train_labels.numpy(), split.test_labels.numpy())
    split = Split(*(part.to(device_name()) for part in split))
    optimiser = torch.optim.SGD(networks.parameters(), lr=run.learning_rate)
    samplers = _Samplers(run, len(split.train_labels))

    epochs: list[list[Epoch]] = []
    for epoch in range(1, run.epochs + 1):
        batches = _train_epoch(networks, optimiser, samplers, split, run.batch)
        if run.measures(epoch):
            stale = samplers.losses()
            epochs.append(_measured(networks, split, digits, epoch, batches, stale))
    by_network = [list(epochs_of_network) for epochs_of_network in zip(*epochs, strict=True)]
    return Result(by_network, time.process_time() - start)


def _train_epoch(
    networks: nn.Module,
    optimiser: torch.optim.Optimizer,
    samplers: _Samplers,
    split: Split,
    batch_size: int,
) -> NDArray[np.int64]:
    """Train on as many draws as there are images; returns them, shape (networks, batches, b)."""
    networks.train()
    batches = []
    for _ in range(-(-len(split.train_labels) // batch_size)):
        drawn = samplers.draw(batch_size)
        images = split.train_images[drawn].transpose(0, 1)
        logits = networks(images.contiguous(memory_format=torch.channels_last))
        losses = _losses(logits, split.train_labels[drawn])

        optimiser.zero_grad()
        # The sum over the networks: each has the gradient of its own mean.
        torch.autograd.backward(losses.mean(1).sum())
        optimiser.step()
        samplers.update(drawn, losses.detach().cpu().numpy())
        batches.append(drawn)
    return np.stack(batches, axis=1)


def _measured(
    networks: nn.Module,
    split: Split,
    digits: tuple[NDArray[np.int64], NDArray[np.int64]],
    epoch: int,
    batches: NDArray[np.int64],
    stale: NDArray[np.float64],
) -> list[Epoch]:
    """What is measured of each network.

    Args:
        networks: All networks.
        split: The images.
        digits: What training and test images show, in the memory of the processor.
        epoch: Number of the epoch.
        batches: The images that were drawn, shape (networks, batches, b).
        stale: The stale losses, shape (networks, training images).
    """
    networks.eval()
    train_digits, test_digits = digits
    n_networks, n_train = stale.shape
    logits = _logits(networks, split.train_images, n_networks)
    all_losses = _losses(logits, split.train_labels.expand(n_networks, n_train))
    losses = all_losses.double().cpu().numpy()

    logits = _by_network(_logits(networks, split.test_images, n_networks), n_networks)
    is_right = logits.argmax(2).cpu().numpy() == test_digits
    accuracies = {}
    for digit in np.unique(test_digits):
        accuracies[digit] = 100 * is_right[:, test_digits == digit].mean(axis=1)

    is_rare = train_digits == RARE
    epochs = []
    for i, drawn in enumerate(batches):
        n_distinct = float(np.mean([len(np.unique(batch)) for batch in drawn]))
        epochs.append(
            Epoch(
                epoch=epoch,
                rare=float(accuracies[RARE][i]),
                overall=float(np.mean([accuracy[i] for accuracy in accuracies.values()])),
                drawn=100 * float(is_rare[drawn].mean()),
                distinct=100 * n_distinct / drawn.shape[1],
                loss=float(losses[i].mean()),
                loss_sd=float(losses[i].std()),
                rare_loss=float(losses[i, is_rare].mean()),
                stale_loss=float(stale[i].mean()),
                stale_sd=float(stale[i].std()),
            )
        )
    return epochs


def _by_network(logits: Tensor, n_networks: int) -> Tensor:
    """Logits of each network: shape (b, 10 n_networks) -> (n_networks, b, 10)."""
    return logits.reshape(len(logits), n_networks, 10).transpose(0, 1)


def _losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each image, shape (n_networks, b).

    The logits have the shape (b, 10 n_networks), the labels (n_networks, b).
    """
    by_network = _by_network(logits, len(labels))
    return cross_entropy(by_network.transpose(1, 2), labels, reduction="none")


@torch.no_grad()
def _logits(networks: nn.Module, images: Tensor, n_networks: int) -> Tensor:
    """Logits of the same images, shape (n, h, w), from all networks: shape (n, 10 n_networks)."""
    logits = []
    for start in range(0, len(images), _CHUNK):
        chunk = images[start : start + _CHUNK, None].expand(-1, n_networks, -1, -1)
        logits.append(networks(chunk.contiguous(memory_format=torch.channels_last)))
    return torch.cat(logits)
