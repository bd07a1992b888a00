"""Phantoms with one lesion each: what is hard cannot be learnt, and what is rare is not hard.

A lesion lies in the white matter. Its volume and its contrast spread over a factor of forty in
every centre, so that the faintest and smallest are lost in the noise: their loss stays high,
however often they are drawn. The centres are

- ``a``: common;
- ``b``: common, most of its lesions are faint;
- ``c`` and ``d``: rare, with lesions as in ``a``; the images of ``c`` are blurred, those of ``d``
  have other tissues.

With wrong labels, the lesion of a part of the training cases is drawn on the other side of the
head.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.datasets import phantoms
from experiments.datasets.phantoms import (
    Counts,
    FloatArray,
    Phantom,
    acquire,
    ellipsoid,
    smooth_field,
)

CENTRES = ("a", "b", "c", "d")
LABELS = {"background": 0, "lesion": 1}
#: Voxels of a lesion, about, and its contrast with the white matter (the noise: 0.04 to 0.07);
#: drawn uniformly in log.
VOLUME = (20, 800)
CONTRAST = (0.03, 1.2)
#: Share of the lesions of centre ``b`` whose contrast is in the lower half of the range, in log.
FAINT = 0.85


def make_lesion_phantom(centre: str, *, rng: np.random.Generator, wrong: bool = False) -> Phantom:
    """Draw a phantom, whose label is on the wrong side if it is ``wrong``.

    The same state gives the same phantom.
    """
    positions = phantoms.deformed_positions(rng)
    grey = rng.uniform(0.56, 0.64)
    white = rng.uniform(0.42, 0.5)
    if centre == "d":
        grey, white = white, grey
    intensity = np.full(positions.shape[1:], rng.uniform(0.0, 0.08))
    brain = ellipsoid(positions, (0, 0, 0), rng.uniform((0.72, 0.8, 0.72), (0.8, 0.9, 0.82)))
    inner = brain + 0.06 * smooth_field(rng) < rng.uniform(0.76, 0.84)
    intensity[brain < 1] = grey
    intensity[inner] = white
    width = rng.uniform(0.07, 0.11)
    fluid = np.zeros_like(inner)
    for side in (-1, 1):
        place = (0.05, 0.02, side * (0.08 + width))
        fluid |= ellipsoid(positions, place, (1.6 * width, 2.4 * width, width)) < 1
    intensity[fluid] = rng.uniform(0.1, 0.2)

    volume = _log_uniform(np.log(VOLUME[0]), np.log(VOLUME[1]), rng)
    contrast = _log_uniform(np.log(CONTRAST[0]), np.log(CONTRAST[1]), rng)
    if centre == "b" and rng.random() < FAINT:
        contrast = _log_uniform(np.log(CONTRAST[0]), np.log(CONTRAST).mean(), rng)
    lesion = _lesion(positions, inner & ~fluid, volume, rng)
    intensity[lesion] = white + contrast

    labelled = lesion[:, :, ::-1] if wrong else lesion
    blur = (0.7, 0.9) if centre == "c" else (0.35, 0.6)
    return Phantom(
        acquire(intensity, rng, blur=blur),
        np.where(labelled, LABELS["lesion"], 0).astype(np.uint8),
        entries={
            "volume": int(lesion.sum()),
            "contrast": round(contrast, 4),
            "wrong": "yes" if wrong else "no",
        },
    )


def _log_uniform(low: float, high: float, rng: np.random.Generator) -> float:
    """A number whose logarithm is uniform between two logarithms."""
    return float(np.exp(rng.uniform(low, high)))


def _lesion(
    positions: FloatArray, where: npt.NDArray[np.bool_], volume: float, rng: np.random.Generator
) -> npt.NDArray[np.bool_]:
    """The ``volume`` voxels that are nearest to a point of the white matter.

    The distance is a little uneven, so that lesions are no ellipsoids.
    """
    places = np.argwhere(where)
    x, y, z = places[rng.integers(len(places))]
    centre = positions[:, x, y, z]
    distance = ellipsoid(positions, centre, rng.uniform(0.8, 1.25, size=3))
    distance = distance * (1 + 0.15 * smooth_field(rng))
    distance[~where] = np.inf
    nearest = np.argsort(distance, axis=None)[: min(round(volume), len(places))]
    lesion = np.zeros(where.shape, dtype=bool)
    lesion.ravel()[nearest] = True
    return lesion


def write_lesions(folder: Path, counts: Counts, *, wrong: float, rng: np.random.Generator) -> Path:
    """Write phantoms with lesions in nnU-Net's raw format; see `phantoms.write_dataset`."""
    drawn = [("train", centre) for centre, n in counts.train.items() for _ in range(n)]
    common = [place for place, (_, centre) in enumerate(drawn) if centre in CENTRES[:2]]
    spoilt = set(rng.permutation(common)[: round(wrong * len(drawn))].tolist())
    drawn += [("validation", "a")] * counts.validation
    drawn += [("test", centre) for centre in CENTRES for _ in range(counts.test)]
    are_wrong = iter([place in spoilt for place in range(len(drawn))])

    def make(centre: str, *, rng: np.random.Generator) -> Phantom:
        return make_lesion_phantom(centre, rng=rng, wrong=next(are_wrong))

    return phantoms.write_drawn(
        folder,
        drawn,
        make,
        by="centre",
        labels=LABELS,
        description="Phantoms with one lesion each in four centres, drawn by "
        "experiments/datasets/lesions.py.",
        rng=rng,
    )
