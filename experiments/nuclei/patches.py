"""The patches of nuclei that a network is trained on: where they lie, and how they are changed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.datasets.nuclei import Image
from experiments.device import device_name
from nnunet_dro.sampling import Draws

#: Side of a patch, and patches of a batch, of which the last third contains foreground, as in
#: nnU-Net.
PATCH = 64
BATCH = 8
N_FOREGROUND = 3
#: Intensities (b, 3, PATCH, PATCH) and labels (b, 1, PATCH, PATCH).
Batch = tuple[Tensor, Tensor]


def draw_patches(images: Sequence[Image], draws: Draws, rng: np.random.Generator) -> Batch:
    """A patch of each image that was drawn."""
    n_free = BATCH - N_FOREGROUND
    all_intensities = []
    all_labels = []
    for place, i in enumerate(draws.indices):
        intensities, labels = draw_patch(images[i], foreground=place >= n_free, rng=rng)
        all_intensities.append(intensities)
        all_labels.append(labels[None])
    return (
        torch.from_numpy(np.stack(all_intensities)).to(device_name()),
        torch.from_numpy(np.stack(all_labels)).to(device_name()),
    )


def draw_patch(
    image: Image, *, foreground: bool, rng: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """A patch (3, PATCH, PATCH), and its labels (PATCH, PATCH).

    It is turned and mirrored, with nnU-Net's changes of noise, brightness, contrast and gamma. With
    ``foreground`` it is centred at a nucleus, if there is one.
    """
    corner = [int(rng.integers(length - PATCH + 1)) for length in image.labels.shape]
    if foreground and image.labels.any():
        pixels = np.argwhere(image.labels)
        centre = pixels[rng.integers(len(pixels))]
        corner = np.clip(centre - PATCH // 2, 0, np.array(image.labels.shape) - PATCH).tolist()
    top, left = corner
    window = np.s_[..., top : top + PATCH, left : left + PATCH]
    n_turns = int(rng.integers(4))
    is_mirrored = rng.random() < 0.5

    def turned(array: NDArray[Any]) -> NDArray[Any]:
        patch = np.rot90(array[window], n_turns, (-2, -1))
        if is_mirrored:
            patch = patch[..., ::-1]
        return patch.copy()

    values = _augmented(turned(image.intensities), rng)
    return values.astype(np.float32), turned(image.labels).astype(np.int64)


def _augmented(values: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    if rng.random() < 0.15:
        values = values + rng.normal(0, rng.uniform(0, 0.3), values.shape)
    if rng.random() < 0.15:
        values = values * rng.uniform(0.75, 1.25)
    if rng.random() < 0.15:
        lowest = values.min()
        highest = values.max()
        mean = values.mean()
        values = np.clip((values - mean) * rng.uniform(0.75, 1.25) + mean, lowest, highest)
    if rng.random() < 0.3:
        mean = values.mean()
        deviation = values.std()
        lowest = values.min()
        span = np.ptp(values) + 1e-6
        values = ((values - lowest) / span) ** rng.uniform(0.7, 1.5) * span + lowest
        values = (values - values.mean()) / (values.std() + 1e-6) * deviation + mean
    return values
