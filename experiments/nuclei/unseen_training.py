"""One training on a few images of one domain: on the images alone, or on their worst or restyled neighbours, too."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from experiments.datasets.nuclei import TEST_SIZE, Image
from experiments.device import device_name
from experiments.nuclei.network import UNet
from experiments.nuclei.training import (
    LARGEST_NORM,
    WEIGHT_DECAY,
    Run,
    Sampler,
    dice_of,
    draw_patches,
    new_network,
)
from experiments.nuclei.unseen_styles import StyleSpace, random_styles, worst_styles
from nnunet_dro.losses import DiceCELoss, VoxelLoss, cross_entropies
from nnunet_dro.trainers.gils.perturbation import ascend

#: Where the generated images come from: the ascent of GI-LS, or the space of styles; "" generates none.
Kind = Literal["", "GI-LS", "random styles", "worst styles"]

#: The ascent of GI-LS. With such long steps it reaches its bound.
GILS_STEPS, GILS_STEP_SIZE, GILS_PENALTY = 2, 1.0, 1e-3
#: The space of styles and the ascent in it.
STYLES, STYLE_STEPS, STYLE_STEP_SIZE = StyleSpace(), 2, 0.75


@dataclass(frozen=True)
class Method:
    """What is done in a training."""

    smoothing: float = 0.0  # alpha of the label smoothing, in [0, 0.5]; 0 is none.
    length: int = 1  # How many times as long as the others it is.
    generated: Kind = ""  # Where the generated images come from.
    # Bound of GI-LS on the root mean square change of an image, in standard deviations of its patch.
    largest_change: float = 0.0
    warmup: float = 0.0  # Share of the iterations at the start in which no images are generated, in [0, 1].


@dataclass(frozen=True)
class UnseenRun(Run):
    """A training with a method of its own."""

    method: Method  # What is done.

    @property
    def moments(self) -> list[int]:
        """Iterations after which the network is tested: each quarter."""
        return sorted({max(1, self.iterations * part // 4) for part in (1, 2, 3, 4)})


@dataclass
class UnseenResult:
    """What came out of a run."""

    # Rows with the iteration, the domain, the test case and its Dice in [0, 1].
    dice: list[tuple[int, str, str, float]] = field(default_factory=list)
    # Rows with the iteration, the domain and its share of the draws so far: 1 for the one in training.
    share: list[tuple[int, str, float]] = field(default_factory=list)
    # Mean root mean square change of the generated images, in standard deviations of their patches.
    change: float = 0.0
    milliseconds: float = 0.0  # Processor time of an iteration without the tests.
    seconds: float = 0.0  # Processor time of the run.


def train(
    run: UnseenRun,
    train_images: Sequence[Image],
    test_images: Sequence[Image],
) -> UnseenResult:
    """Train one network, and test it after each quarter.

    Runs of the same seed start from the same weights, and draw and augment from the same random numbers. An iteration
    with generated images makes two optimiser steps, as GI-LS does: one on the generated images, then one on the
    original ones.
    """
    start, in_tests = time.process_time(), 0.0
    network, sampler = new_network(run.seed).to(device_name()), Sampler(run.trainer, train_images)
    optimiser = torch.optim.SGD(network.parameters(), weight_decay=WEIGHT_DECAY, **run.optimiser)
    voxel_loss = VoxelLoss(regions=False, smoothing=run.method.smoothing)
    loss = DiceCELoss(batch_dice=True, do_bg=False, voxel_loss=voxel_loss).to(device_name())
    to_draw, to_augment, to_style = (np.random.default_rng([run.seed, stream]) for stream in (1, 2, 4))
    tests = [image.centre(TEST_SIZE) for image in test_images]
    result, changes = UnseenResult(), []
    for iteration in range(run.iterations):
        for group in optimiser.param_groups:
            group["lr"] = run.optimiser["lr"] * (1 - iteration / run.iterations) ** 0.9
        images, labels = draw_patches(train_images, sampler.draw(to_draw), to_augment)
        if run.method.generated and iteration >= run.method.warmup * run.iterations:
            generated = generate(run.method, network, loss, images, labels, rng=to_style)
            changes.append(change_of(generated, images))
            _step(network, optimiser, loss, generated, labels)
        _step(network, optimiser, loss, images, labels)
        if iteration + 1 in run.moments:
            before = time.process_time()
            result.dice += [(iteration + 1, image.modality, image.case, dice_of(network, image)) for image in tests]
            in_tests += time.process_time() - before
    seen = {image.modality for image in train_images}
    result.share = list(dict.fromkeys((at, domain, float(domain in seen)) for at, domain, *_ in result.dice))
    result.change = float(np.mean(changes)) if changes else 0.0
    result.seconds = time.process_time() - start
    result.milliseconds = 1000 * (result.seconds - in_tests) / run.iterations
    return result


def generate(
    method: Method, network: UNet, loss: DiceCELoss, images: Tensor, labels: Tensor, *, rng: np.random.Generator
) -> Tensor:
    """The generated images of a batch, shape (b, 3, height, width), without gradient; they climb the cross-entropy."""

    def losses_of(logits: Tensor) -> Tensor:
        return cross_entropies(loss, logits, labels)

    if method.generated == "GI-LS":
        perturbed = ascend(
            network,
            network.head,
            images,
            losses_of,
            steps=GILS_STEPS,
            eta=GILS_STEP_SIZE,
            gamma=GILS_PENALTY,
            largest_change=method.largest_change,
        )
        return perturbed.data
    # Worst styles start from the random ones, so that the two differ by the ascent alone.
    styles = random_styles(STYLES, images, rng=rng)
    if method.generated == "worst styles":
        styles = worst_styles(
            STYLES, network, images, losses_of, start=styles, steps=STYLE_STEPS, step_size=STYLE_STEP_SIZE
        )
    return STYLES.apply(images, styles)


def change_of(generated: Tensor, images: Tensor) -> float:
    """Mean over the batch of the root mean square change of an image, in standard deviations of its patch."""
    squares = (generated - images).flatten(1).square().mean(1)
    return float((squares / images.flatten(2).var(2, correction=0).mean(1)).sqrt().mean())


def _step(network: UNet, optimiser: torch.optim.Optimizer, loss: DiceCELoss, images: Tensor, labels: Tensor) -> None:
    optimiser.zero_grad()
    cases = loss(network(images), labels)
    torch.autograd.backward(cases.weighted(torch.ones(len(images), device=images.device)))
    torch.nn.utils.clip_grad_norm_(network.parameters(), LARGEST_NORM)
    optimiser.step()
