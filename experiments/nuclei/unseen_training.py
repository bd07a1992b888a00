"""One training on a few images of one domain, or on their worst or restyled neighbours, too."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from experiments.datasets.nuclei import Image
from experiments.nuclei.network import UNet
from experiments.nuclei.patches import Batch
from experiments.nuclei.training import Run, Sampler, train
from experiments.nuclei.unseen_styles import random_styles, restyled, worst_styles
from nnunet_dro.losses import DiceCELoss, VoxelLoss, cross_entropies
from nnunet_dro.sampling import Draws
from nnunet_dro.trainers.gils.perturbation import Ascent, ascend

#: Where the generated images come from: the ascent of GI-LS, or the space of styles; "" generates
#: none.
Kind = Literal["", "GI-LS", "random styles", "worst styles"]
#: The ascent of GI-LS. With such long steps it reaches its bound.
GILS_STEPS = 2
GILS_STEP_SIZE = 1.0
GILS_PENALTY = 1e-3


@dataclass(frozen=True)
class Method:
    """What is done in a training."""

    smoothing: float = 0.0  # alpha of the label smoothing, in [0, 0.5]; 0 is none.
    length: int = 1  # How many times as long as the others it is.
    generated: Kind = ""  # Where the generated images come from.
    #: Bound of GI-LS on the root mean square change of an image, in standard deviations of its
    #: patch.
    largest_change: float = 0.0
    #: Share of the iterations at the start in which no images are generated, in [0, 1].
    warmup: float = 0.0


@dataclass(frozen=True)
class UnseenRun(Run):
    """A training with a method of its own."""

    method: Method  # What is done.

    @property
    def moments(self) -> list[int]:
        """Iterations after which the network is tested: each quarter."""
        return sorted({max(1, self.iterations * part // 4) for part in (1, 2, 3, 4)})


class GeneratingSampler(Sampler):
    """Draws uniformly, and makes a step on generated images before that on the original ones.

    GI-LS does so.
    """

    def __init__(self, run: UnseenRun, images: Sequence[Image]) -> None:
        super().__init__(run.trainer, images)
        self.method = run.method
        self.n_left = math.ceil(run.method.warmup * run.iterations)  # Iterations of the warm-up.
        self.changes: list[float] = []
        self.seconds = 0.0
        self.start = 0.0
        self._rng = np.random.default_rng([run.seed, 4])

    def draw(self, rng: np.random.Generator) -> Draws:
        """Draw the images of a batch, with which an iteration begins."""
        self.start = time.process_time()
        return super().draw(rng)

    def step(
        self, optimiser: Optimizer, loss: DiceCELoss, network: UNet, batch: Batch, draws: Draws
    ) -> None:
        """Make the steps of an iteration, two of them after the warm-up."""
        if self.method.generated and self.n_left <= 0:
            images, labels = batch
            generated = generate(self.method, network, loss, images, labels, rng=self._rng)
            self.changes.append(change_of(generated, images))
            super().step(optimiser, loss, network, (generated, labels), draws)
        super().step(optimiser, loss, network, batch, draws)
        self.n_left -= 1
        self.seconds += time.process_time() - self.start

    def backward(
        self, loss: DiceCELoss, network: UNet, images: Tensor, labels: Tensor, draws: Draws
    ) -> None:
        """Give the parameters the gradient of the mean loss."""
        weights = torch.ones(len(images), device=images.device)
        torch.autograd.backward(loss(network(images), labels).weighted(weights))


def train_unseen(
    run: UnseenRun, train_images: Sequence[Image], test_images: Sequence[Image]
) -> dict[str, Any]:
    """Train one network, and test it after each quarter.

    Returns:
        Rows ``dice`` and ``share`` as in `Result`, the mean ``change`` of the generated images, the
        processor time of an iteration without the tests, ``milliseconds``, and ``seconds``, that of
        the run.
    """
    sampler = GeneratingSampler(run, train_images)
    voxel_loss = VoxelLoss(regions=False, smoothing=run.method.smoothing)
    loss = DiceCELoss(
        batch_dice=True,
        do_bg=False,
        voxel_loss=voxel_loss,
        hardness="pooled",
    )
    result = train(run, train_images, test_images, sampler=sampler, loss=loss)

    seen = {image.modality for image in train_images}
    shares = dict.fromkeys(
        (iteration, domain, float(domain in seen)) for iteration, domain, _, _ in result.dice
    )
    return {
        "dice": result.dice,
        "share": list(shares),
        "change": float(np.mean(sampler.changes)) if sampler.changes else 0.0,
        "milliseconds": 1000 * sampler.seconds / run.iterations,
        "seconds": result.seconds,
    }


def generate(
    method: Method,
    network: UNet,
    loss: DiceCELoss,
    images: Tensor,
    labels: Tensor,
    *,
    rng: np.random.Generator,
) -> Tensor:
    """The generated images of a batch, shape (b, 3, height, width), without gradient.

    Those that climb, climb the cross-entropy.
    """

    def losses_of(logits: Tensor) -> Tensor:
        return cross_entropies(loss, logits, labels)

    if method.generated == "GI-LS":
        ascent = Ascent(
            steps=GILS_STEPS,
            eta=GILS_STEP_SIZE,
            gamma=GILS_PENALTY,
            largest_change=method.largest_change,
        )
        return ascend(network, network.head, images, losses_of, ascent).data
    # Worst styles start from the random ones, so that the two differ by the ascent alone.
    styles = random_styles(images, rng=rng)
    if method.generated == "worst styles":
        styles = worst_styles(network, images, losses_of, start=styles)
    return restyled(images, styles)


def change_of(generated: Tensor, images: Tensor) -> float:
    """Mean over the batch of the root mean square change of an image.

    The unit is the standard deviation of its patch.
    """
    squares = (generated - images).flatten(1).square().mean(1)
    variances = images.flatten(2).var(2, correction=0).mean(1)
    return float((squares / variances).sqrt().mean())
