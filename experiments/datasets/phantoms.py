"""Three-dimensional phantoms with a known hidden stratum, as a raw nnU-Net dataset.

A phantom is a simplified head: a brain with a shell of grey matter around white matter, ventricles,
a cerebellum below and behind, and neck tissue under it. Anatomy, contrast, noise and bias field are
drawn anew for each case. Its pathology decides the anatomy:

- ``control``: small ventricles, the cerebellum in its place and the brightest of all;
- ``common``: wide ventricles, all else as in a control;
- ``rare``: wide ventricles, and the cerebellum is small, displaced into the neck, and only a little
  brighter than the tissue around it (a caricature of spina bifida, the hidden stratum of Fidon et
  al. 2022).

The images say nothing else of the pathology, and the training does not see it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.ndimage import gaussian_filter, zoom

from experiments.datasets.division import begin_dataset, finish_dataset

FloatArray = npt.NDArray[np.float64]
PATHOLOGIES = ("control", "common", "rare")
LABELS = {"background": 0, "grey_matter": 1, "white_matter": 2, "cerebellum": 3}
#: Side of a phantom in voxels of 1 mm.
SIZE = 24
#: How much brighter than the neck the displaced cerebellum is (the usual one: by about 0.6); the
#: noise of a voxel has a standard deviation of 0.04 to 0.07.
DISPLACED_CONTRAST = (0.08, 0.18)
#: The same of the bright ones among displaced cerebella with a tail, of which every tenth is not
#: bright.
BRIGHT_CONTRAST = (0.3, 0.5)
FAINT_EVERY = 10
#: Control points of a smooth random field along each axis.
_CONTROL_POINTS = 5


@dataclass(frozen=True)
class Phantom:
    """One phantom."""

    #: Intensities, shape (SIZE, SIZE, SIZE), axes from below, from behind, from the left.
    image: npt.NDArray[np.float32]
    labels: npt.NDArray[np.uint8]  # Values of the labels, same shape.
    #: Columns of the case tables, and what they have of it.
    entries: Mapping[str, object] = field(default_factory=dict)


@cache
def _grid() -> FloatArray:
    """Positions of the voxels, shape (3, SIZE, SIZE, SIZE), from -1 to 1 along each axis."""
    line = np.linspace(-1, 1, SIZE)
    return np.stack(np.meshgrid(line, line, line, indexing="ij"))


@cache
def _interpolation() -> FloatArray:
    """Cubic interpolation from the control points to the voxels of an axis.

    Its shape is (SIZE, _CONTROL_POINTS).
    """
    points = np.eye(_CONTROL_POINTS)
    columns = [zoom(point, SIZE / _CONTROL_POINTS, order=3) for point in points]
    return np.stack(columns, axis=1)


def smooth_field(rng: np.random.Generator) -> FloatArray:
    """A smooth random field with values of the order of 1, shape (SIZE, SIZE, SIZE)."""
    field: FloatArray = rng.standard_normal((_CONTROL_POINTS,) * 3)
    for _ in range(3):
        # Each pass moves the axis it interpolates to the end.
        field = np.tensordot(field, _interpolation(), axes=(0, 1))
    return field


def deformed_positions(rng: np.random.Generator) -> FloatArray:
    """Where each voxel lies in the undeformed head.

    The head is turned, scaled, shifted and smoothly displaced.
    """
    positions = _grid().reshape(3, -1)
    for axis, other in ((0, 1), (0, 2), (1, 2)):
        angle = np.deg2rad(rng.uniform(-12, 12))
        turn = np.eye(3)
        turn[[axis, other], [axis, other]] = np.cos(angle)
        turn[axis, other] = -np.sin(angle)
        turn[other, axis] = np.sin(angle)
        positions = turn @ positions
    positions = positions * rng.uniform(0.9, 1.12, size=(3, 1))
    positions = positions + rng.uniform(-0.08, 0.08, size=(3, 1))
    displacement = np.stack([smooth_field(rng) for _ in range(3)])
    return positions.reshape(3, SIZE, SIZE, SIZE) + 0.05 * displacement


def ellipsoid(positions: FloatArray, centre: npt.ArrayLike, radii: npt.ArrayLike) -> FloatArray:
    """Distance from the centre in units of the radii: below 1 inside. Shape (SIZE, SIZE, SIZE)."""
    scaled = (positions - np.reshape(centre, (3, 1, 1, 1))) / np.reshape(radii, (3, 1, 1, 1))
    return np.sqrt((scaled**2).sum(axis=0))


def make_phantom(
    pathology: str, *, rng: np.random.Generator, displaced: tuple[float, float] = DISPLACED_CONTRAST
) -> Phantom:
    """Draw one of `PATHOLOGIES`, every label in it.

    A ``displaced`` cerebellum is brighter than the neck by so much.
    """
    positions = deformed_positions(rng)
    grey = rng.uniform(0.48, 0.58)
    white = rng.uniform(0.74, 0.86)
    neck = rng.uniform(0.36, 0.46)
    fluid = rng.uniform(0.1, 0.2)
    outside = rng.uniform(0.0, 0.08)
    head = _Head(
        intensity=np.full(positions.shape[1:], outside),
        labels=np.zeros(positions.shape[1:], dtype=np.uint8),
    )

    head.fill(_neck(positions, rng), "background", neck)
    brain = ellipsoid(positions, (0.22, 0, 0), rng.uniform((0.58, 0.7, 0.62), (0.66, 0.8, 0.72)))
    inner = brain + 0.06 * smooth_field(rng) < rng.uniform(0.66, 0.76)
    head.fill(brain < 1, "grey_matter", grey)
    head.fill(inner, "white_matter", white)
    width = rng.uniform(0.07, 0.11) if pathology == "control" else rng.uniform(0.17, 0.26)
    for side in (-1, 1):
        place = (0.24, 0.02, side * (0.08 + width))
        ventricle = ellipsoid(positions, place, (1.3 * width, 2 * width, width)) < 1
        head.fill(ventricle, "background", fluid)

    if pathology == "rare":
        hindbrain = _displaced(positions, rng)
        head.fill(hindbrain, "cerebellum", neck + rng.uniform(*displaced))
    else:
        hindbrain = _in_place(positions, rng)
        head.fill(hindbrain, "cerebellum", rng.uniform(0.95, 1.1))
    return Phantom(acquire(head.intensity, rng), head.labels)


@dataclass(frozen=True)
class _Head:
    """A head that is filled with one tissue after the other."""

    intensity: FloatArray
    labels: npt.NDArray[np.uint8]

    def fill(self, where: npt.NDArray[np.bool_], label: str, intensity: float) -> None:
        self.intensity[where] = intensity
        self.labels[where] = LABELS[label]


def _neck(positions: FloatArray, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Where the neck is, below the brain."""
    centre = (-0.78, rng.uniform(-0.35, -0.15), 0)
    return ellipsoid(positions, centre, (0.5, rng.uniform(0.36, 0.46), 0.42)) < 1


def _displaced(positions: FloatArray, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Where the displaced cerebellum is.

    It is never empty, also where it would lie outside of the image.
    """
    centre = rng.uniform((-0.86, -0.42, -0.18), (-0.56, -0.08, 0.18))
    distance = ellipsoid(positions, centre, rng.uniform((0.16, 0.16, 0.18), (0.27, 0.25, 0.3)))
    return distance < max(1.0, float(distance.min()) * (1 + 1e-9))


def _in_place(positions: FloatArray, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Where the cerebellum usually is."""
    centre = rng.uniform((-0.44, -0.52, -0.06), (-0.34, -0.42, 0.06))
    return ellipsoid(positions, centre, rng.uniform((0.24, 0.24, 0.34), (0.32, 0.32, 0.46))) < 1


def acquire(
    intensity: FloatArray, rng: np.random.Generator, *, blur: tuple[float, float] = (0.35, 0.6)
) -> npt.NDArray[np.float32]:
    """The image of a head: blurred, under a bias field, with noise, in units that vary."""
    blurred = gaussian_filter(intensity, rng.uniform(*blur))
    biased = blurred * np.exp(0.07 * smooth_field(rng))
    noisy = biased + rng.uniform(0.04, 0.07) * rng.standard_normal(biased.shape)
    return (1000 * rng.uniform(0.7, 1.4) * noisy).astype(np.float32)


@dataclass(frozen=True)
class Counts:
    """How many phantoms of each pathology a dataset has."""

    train: Mapping[str, int]  # Training cases by pathology.
    #: Cases that nnU-Net validates on while it trains; controls, so that no rare case is lost to
    #: them.
    validation: int
    test: int  # Test cases of each pathology.


def write_dataset(folder: Path, counts: Counts, *, rng: np.random.Generator) -> Path:
    """Write phantoms in nnU-Net's raw format, as a whole or not at all.

    The same state of the generator gives the same dataset. Beside nnU-Net's files there are
    ``cases.csv`` (columns ``case``, ``pathology``, ``split``; a row per case of imagesTr) and
    ``test_cases.csv`` (the same for imagesTs).
    """
    drawn = [("train", pathology) for pathology, n in counts.train.items() for _ in range(n)]
    drawn += [("validation", "control")] * counts.validation
    drawn += [("test", pathology) for pathology in PATHOLOGIES for _ in range(counts.test)]
    return write_drawn(
        folder,
        drawn,
        make_phantom,
        by="pathology",
        labels=LABELS,
        description="Phantoms of a head in three pathologies, drawn by "
        "experiments/datasets/phantoms.py.",
        rng=rng,
    )


def write_tail(
    folder: Path, train: Mapping[str, int], test: Mapping[str, int], *, rng: np.random.Generator
) -> Path:
    """`write_dataset` of rare phantoms of which few are ``faint``, as the tables say.

    The common ones are ``other``.
    """

    def make(stratum: str, *, rng: np.random.Generator) -> Phantom:
        if stratum == "faint":
            made = make_phantom("rare", rng=rng, displaced=DISPLACED_CONTRAST)
            return replace(made, entries={"pathology": "rare", "faint": True})
        if stratum == "rare":
            made = make_phantom("rare", rng=rng, displaced=BRIGHT_CONTRAST)
        else:
            made = make_phantom("common" if stratum == "other" else stratum, rng=rng)
        return replace(made, entries={"pathology": stratum, "faint": False})

    drawn = [("validation", "control")] * 2
    for pathology in train:
        for split, counts in (("train", train), ("test", test)):
            for i in range(counts[pathology]):
                if pathology == "rare" and i % FAINT_EVERY == 0:
                    drawn.append((split, "faint"))
                else:
                    drawn.append((split, pathology))
    return write_drawn(
        folder,
        drawn,
        make,
        by="pathology",
        labels=LABELS,
        description="Phantoms of a head, few of them faint, drawn by "
        "experiments/datasets/phantoms.py.",
        rng=rng,
    )


def write_drawn(
    folder: Path,
    drawn: Sequence[tuple[str, str]],
    make: Callable[..., Phantom],
    *,
    by: str,
    labels: Mapping[str, int],
    description: str,
    rng: np.random.Generator,
) -> Path:
    """`write_dataset` of (split, stratum), each made by ``make(stratum, rng=rng)``.

    ``by`` is the strata's column.
    """
    import SimpleITK

    partial = begin_dataset(folder)
    # The names must not say the stratum, nor the order.
    numbers = rng.permutation(len(drawn))
    rows = []
    for number, (split, stratum) in zip(numbers, drawn, strict=True):
        case = f"phantom_{number:04d}"
        suffix = "Ts" if split == "test" else "Tr"
        phantom = make(stratum, rng=rng)
        image = SimpleITK.GetImageFromArray(phantom.image)
        label_map = SimpleITK.GetImageFromArray(phantom.labels)
        SimpleITK.WriteImage(image, str(partial / f"images{suffix}" / f"{case}_0000.nii.gz"))
        SimpleITK.WriteImage(label_map, str(partial / f"labels{suffix}" / f"{case}.nii.gz"))
        rows.append({"case": case, by: stratum, **phantom.entries, "split": split})

    dataset = {
        "channel_names": {"0": "phantom"},
        "labels": dict(labels),
        "file_ending": ".nii.gz",
        "description": description,
    }
    finish_dataset(partial, folder, pd.DataFrame(rows), dataset)
    return folder
