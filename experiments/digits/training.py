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
    stale_loss: float  # Mean over all training images of the loss when they were last drawn, in training mode.
    stale_sd: float  # Their standard deviation.


@dataclass(frozen=True)
class Result:
    """What came out of a run."""

    epochs: list[list[Epoch]]  # For each beta, what was measured, in the order of the epochs.
    seconds: float  # Processor time of the run.


def train(run: Run, split: Split) -> Result:
    """Train a network for each beta and measure after some epochs."""
    start = time.process_time()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        # Channels last is the faster order of memory for few channels on a CPU.
        networks = side_by_side(wide_resnet(), len(run.betas)).to(memory_format=torch.channels_last)
    labels = split.train_labels.numpy(), split.test_labels.numpy()
    networks = networks.to(device_name())
    split = Split(*(part.to(device_name()) for part in split))
    optimiser = torch.optim.SGD(networks.parameters(), lr=run.learning_rate)
    n = len(split.train_labels)
    names = [str(i) for i in range(n)]
    tables = [HardnessTable(names, beta=beta, exploration=1e-4, replace=True) for beta in run.betas]
    rngs = [np.random.default_rng([run.seed, 1]) for _ in run.betas]
    measured: list[list[Epoch]] = []
    for epoch in range(1, run.epochs + 1):
        networks.train()
        batches = []
        for _ in range(-(-n // run.batch)):
            cases = np.stack(
                [
                    table.draw(run.batch, rng=rng).indices
                    for table, rng in zip(tables, rngs, strict=True)
                ]
            )
            images = (
                split.train_images[cases]
                .transpose(0, 1)
                .contiguous(memory_format=torch.channels_last)
            )
            losses = _losses(networks(images), split.train_labels[cases])
            optimiser.zero_grad()
            # The sum over the networks: each has the gradient of its own mean.
            torch.autograd.backward(losses.mean(1).sum())
            optimiser.step()
            for table, drawn, of_table in zip(
                tables, cases, losses.detach().cpu().numpy(), strict=True
            ):
                table.update(drawn, of_table)
            batches.append(cases)
        if run.measures(epoch):
            stale = np.stack([table.losses for table in tables])
            measured.append(
                _measured(networks, split, labels, epoch, np.stack(batches, axis=1), stale)
            )
    return Result(
        [list(of_beta) for of_beta in zip(*measured, strict=True)], time.process_time() - start
    )


def _measured(
    networks: nn.Module,
    split: Split,
    labels: tuple[NDArray[np.int64], NDArray[np.int64]],
    epoch: int,
    batches: NDArray[np.int64],
    stale: NDArray[np.float64],
) -> list[Epoch]:
    """What is measured of each network, from its batches, shape (networks, batches, b), and stale losses."""
    networks.eval()
    n_networks, n_train = stale.shape
    is_rare = labels[0] == RARE
    digits = labels[1]
    of_training = _logits(networks, split.train_images, n_networks)
    losses = (
        _losses(of_training, split.train_labels.expand(n_networks, n_train)).double().cpu().numpy()
    )
    predicted = _by_network(_logits(networks, split.test_images, n_networks), n_networks).argmax(2)
    right = predicted.cpu().numpy() == digits
    accuracies = {
        digit: 100 * right[:, digits == digit].mean(axis=1) for digit in np.unique(digits)
    }
    return [
        Epoch(
            epoch=epoch,
            rare=float(accuracies[RARE][i]),
            overall=float(np.mean([of_digit[i] for of_digit in accuracies.values()])),
            drawn=100 * float(is_rare[drawn].mean()),
            distinct=100
            * float(np.mean([len(np.unique(cases)) for cases in drawn]))
            / drawn.shape[1],
            loss=float(losses[i].mean()),
            loss_sd=float(losses[i].std()),
            rare_loss=float(losses[i, is_rare].mean()),
            stale_loss=float(stale[i].mean()),
            stale_sd=float(stale[i].std()),
        )
        for i, drawn in enumerate(batches)
    ]


def _by_network(logits: Tensor, n_networks: int) -> Tensor:
    """Logits of each network, shape (n_networks, b, 10), of those of all, shape (b, 10 n_networks)."""
    return logits.reshape(len(logits), n_networks, 10).transpose(0, 1)


def _losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy of each image, shape (n_networks, b), of logits (b, 10 n_networks) and labels (n_networks, b)."""
    return cross_entropy(_by_network(logits, len(labels)).transpose(1, 2), labels, reduction="none")


@torch.no_grad()
def _logits(networks: nn.Module, images: Tensor, n_networks: int) -> Tensor:
    """Logits of the same images, shape (n, h, w), from all networks: shape (n, 10 n_networks)."""
    logits = []
    for start in range(0, len(images), _CHUNK):
        chunk = images[start : start + _CHUNK, None].expand(-1, n_networks, -1, -1)
        logits.append(networks(chunk.contiguous(memory_format=torch.channels_last)))
    return torch.cat(logits)
