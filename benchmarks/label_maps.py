"""Label maps for benchmarks.

A tumour of three nested labels, an abdomen of twenty organs, and predictions of both.
"""

from dataclasses import dataclass
from pathlib import Path

import nibabel
import numpy as np
from scipy import ndimage


@dataclass(frozen=True)
class Kind:
    """A kind of label map."""

    name: str
    shape: tuple[int, int, int]  # Voxels (x, y, z).
    spacing: tuple[float, float, float]  # Millimetres (x, y, z).
    n_labels: int  # Labels 1 to n.
    n_cases: int  # Number of cases to make.


KINDS = (
    Kind("tumour", (240, 240, 155), (1.0, 1.0, 1.0), 3, 12),
    Kind("organs", (512, 512, 400), (0.8, 0.8, 1.0), 20, 3),
)


def make_label_maps(kind: Kind, folder: Path, *, rng: np.random.Generator) -> None:
    """Write the folders ``reference`` and ``prediction``."""
    folders = (folder / "reference", folder / "prediction")
    for path in folders:
        path.mkdir(parents=True)
    affine = np.diag([*kind.spacing, 1.0])
    for number in range(kind.n_cases):
        for path, label_map in zip(folders, _pair(kind, rng), strict=True):
            nibabel.save(nibabel.Nifti1Image(label_map, affine), path / f"case_{number:03d}.nii.gz")


def _pair(kind: Kind, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A reference, and a prediction whose borders are about a voxel off, now and then more."""
    reference, prediction = (np.zeros(kind.shape, np.uint8) for _ in range(2))
    shape = np.array(kind.shape)
    nested = kind.n_labels <= 3
    centre = shape * rng.uniform(0.4, 0.6, 3)
    size = 0.17 * shape.min() * rng.uniform(0.7, 1.3, 3)
    for label in range(1, kind.n_labels + 1):
        if nested:
            size = size * (0.7 if label > 1 else 1)
        else:
            centre = shape * rng.uniform(0.2, 0.8, 3)
            size = shape.min() * rng.uniform(0.03, 0.13) * rng.uniform(0.7, 1.4, 3)
        _draw(reference, prediction, label, centre, size, rng)
    return reference, prediction


def _draw(
    reference: np.ndarray,
    prediction: np.ndarray,
    label: int,
    centre: np.ndarray,
    size: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """A bumpy ellipsoid in both maps, the prediction's bumps a little different."""
    low = np.maximum(0, (centre - 1.6 * size).astype(int))
    high = np.minimum(reference.shape, (centre + 1.6 * size).astype(int) + 1)
    box = tuple(slice(a, b) for a, b in zip(low, high, strict=True))
    grids = np.ogrid[box]
    radius = np.sqrt(sum(((g - c) / s) ** 2 for g, c, s in zip(grids, centre, size, strict=True)))
    bumps = _smooth(radius.shape, 12, rng) * 0.18
    error = _smooth(radius.shape, 6, rng) * (1.2 / size.mean())
    reference[box][radius + bumps < 1] = label
    prediction[box][radius + bumps + error < 1] = label


def _smooth(shape: tuple[int, ...], scale: int, rng: np.random.Generator) -> np.ndarray:
    """Smooth noise of unit variance that varies over ``scale`` voxels."""
    coarse = ndimage.gaussian_filter(rng.standard_normal([n // scale + 4 for n in shape]), 1)
    fine = ndimage.zoom(coarse / coarse.std(), scale, order=1)
    return fine[tuple(slice(0, n) for n in shape)]
