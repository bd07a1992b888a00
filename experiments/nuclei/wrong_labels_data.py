"""Nuclei of two modalities, some of whose labels are wrong in training."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress
from pathlib import Path

import numpy as np

from experiments.datasets.nuclei import (
    N_TEST_OF_TWO,
    N_TRAIN_OF_TWO,
    PAIR,
    Image,
    read_nuclei,
    read_table,
    split_nuclei,
)
from experiments.spoilt_labels.spoiling import N_TRUSTED, SHARE, draw_noise, spoil

COMMON, RARE = N_TRAIN_OF_TWO
#: The kind of an image whose labels are right.
RIGHT_KIND = "clean"


@dataclass(frozen=True)
class NoisyImages:
    """The images of a seed."""

    train: tuple[Image, ...]  # The training images, with the labels that a training sees.
    #: What is wrong with the labels of each training image: one of `spoiling.KINDS`, or
    #: `RIGHT_KIND`.
    kinds: tuple[str, ...]
    trusted: tuple[bool, ...]  # Whether each training image is known to have right labels.
    test: tuple[Image, ...]  # The test images; all labels are right.

    def with_right_labels_only(self) -> "NoisyImages":
        """The same without the training images whose labels are wrong."""
        kept = [kind == RIGHT_KIND for kind in self.kinds]
        train = tuple(compress(self.train, kept))
        trusted = tuple(compress(self.trusted, kept))
        return NoisyImages(train, (RIGHT_KIND,) * len(train), trusted, self.test)

    @property
    def trusted_images(self) -> tuple[Image, ...]:
        """The training images that are known to have right labels."""
        return tuple(compress(self.train, self.trusted))


@lru_cache(maxsize=1)
def noisy_images(data: Path, seed: int, quick: bool, share: float, n_trusted: int) -> NoisyImages:
    """Draw and read the images of a seed, and spoil labels.

    A smoke run has two test images of each modality.
    """
    n_test = dict.fromkeys(N_TEST_OF_TWO, 2) if quick else N_TEST_OF_TWO
    rng = np.random.default_rng([seed, 0])
    split = split_nuclei(read_table(data), rng=rng, n_train=N_TRAIN_OF_TWO, n_test=n_test)
    return spoilt_images(
        read_nuclei(data, split["train"]),
        read_nuclei(data, split["test"]),
        rng=np.random.default_rng([seed, 6]),
        share=share,
        n_trusted=n_trusted,
    )


def spoilt_images(
    train: Sequence[Image],
    test: Sequence[Image],
    *,
    rng: np.random.Generator,
    share: float = SHARE,
    n_trusted: int = N_TRUSTED,
) -> NoisyImages:
    """Spoil the labels of training images of the common modality.

    The trusted images are chosen as well, in both modalities.
    """
    cases = [image.case for image in train]
    rare = [image.case for image in train if image.modality == RARE]
    noise = draw_noise(cases, rare, rng=rng, share=share, n_trusted=n_trusted).set_index("case")
    kinds = tuple(str(noise.loc[case, "kind"]) for case in cases)
    images = []
    for image, kind in zip(train, kinds, strict=True):
        if kind == RIGHT_KIND:
            images.append(image)
        else:
            spoilt = spoil(image.labels, kind, pair=PAIR, rng=rng)
            images.append(replace(image, labels=spoilt))
    return NoisyImages(
        train=tuple(images),
        kinds=kinds,
        trusted=tuple(noise.loc[case, "trusted"] == "yes" for case in cases),
        test=tuple(test),
    )
