"""Few training images of one domain of the nuclei, and test images of it and of others."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import ndimage

from experiments.datasets.nuclei import Image, read_nuclei, read_table, split_nuclei, standardised

#: The domain in training, and the number of its images there.
SEEN = "fluorescence"
N_TRAIN = 8
#: Domains that are in no training: another acquisition, and changes of the test images of the seen
#: domain.
REAL = ("other acquisition",)
CHANGED = ("blurred", "noisy", "uneven light")
UNSEEN = REAL + CHANGED
#: Largest number of test images of each domain.
N_TEST = 20
#: Standard deviation of the blur in pixels; that of the noise, and the rise of the light from the
#: middle of the image to an edge, both in standard deviations of the image.
BLUR = 3.0
NOISE = 0.5
RAMP = 1.5
#: Strata of the dataset that the domains consist of.
_DOMAIN_OF = {"fluo_small": SEEN, "fluo_640x512": REAL[0]}
Intensities = NDArray[np.float32]


def read_domains(data: Path) -> pd.DataFrame:
    """The images of the domains that are not made: ``cases.csv`` with the domain as modality."""
    table = read_table(data)
    if "stratum" not in table:
        columns = ", ".join(map(str, table.columns))
        raise ValueError(
            f"`cases.csv` must have a column stratum, got {columns}. "
            "Give the whole dataset with --data."
        )
    table = table.assign(modality=table["stratum"].map(_DOMAIN_OF))
    return table[table["modality"].notna()]


def unseen_images(
    data: Path, table: pd.DataFrame, *, rng: np.random.Generator, n_test: int = N_TEST
) -> tuple[list[Image], list[Image]]:
    """Draw and read the training images of the seen domain, and the test images of all domains."""
    n_train = {SEEN: N_TRAIN, **dict.fromkeys(REAL, 0)}
    split = split_nuclei(table, rng=rng, n_train=n_train, n_test=dict.fromkeys(n_train, n_test))
    domains = table.set_index("case")["modality"]

    def read(cases: list[str]) -> list[Image]:
        images = read_nuclei(data, cases)
        return [replace(image, modality=domains[image.case]) for image in images]

    train_images = read(split["train"])
    test_images = read(split["test"])
    seen = [image for image in test_images if image.modality == SEEN]
    changes: tuple[Callable[[Intensities], Intensities], ...] = (
        blurred,
        lambda values: noisy(values, rng=rng),
        lambda values: unevenly_lit(values, angle=rng.uniform(0, 2 * np.pi)),
    )
    for domain, change in zip(CHANGED, changes, strict=True):
        for image in seen:
            changed = change(image.intensities)
            test_images.append(replace(image, modality=domain, intensities=changed))
    return train_images, test_images


def blurred(intensities: Intensities) -> Intensities:
    """An image out of focus, standardised again, of shape (3, height, width)."""
    return standardised(ndimage.gaussian_filter(intensities, (0, BLUR, BLUR)))


def noisy(intensities: Intensities, *, rng: np.random.Generator) -> Intensities:
    """An image with normal noise in every pixel and channel, standardised again."""
    return standardised(intensities + rng.normal(0, NOISE, intensities.shape))


def unevenly_lit(intensities: Intensities, *, angle: float) -> Intensities:
    """An image with a ramp of light across it, standardised again.

    The light rises in the direction of the angle, in radians.
    """
    height, width = intensities.shape[1:]
    down = np.linspace(-1, 1, height)[:, None]
    right = np.linspace(-1, 1, width)
    return standardised(intensities + RAMP * (np.sin(angle) * down + np.cos(angle) * right))
