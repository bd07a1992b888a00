"""Joint counts and boxes against counting voxel by voxel."""

import numpy as np
import pytest

from nnunet_dro.evaluation.scoring.foreground import Foreground

SMALL = [
    (3, 5, 7),
    (1, 4, 8),
    (2, 3, 16),
    (5, 5, 5),
    (1, 1, 3),
    (4, 3, 2),
    (6, 9, 1),
    (3, 4, 24),
    (2, 2, 9),
]
DTYPES = [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64, np.uint64]
DENSITIES = [(0.02, 3), (0.3, 120), (1, 2)]
#: Every shape with every type, and each of them with every density.
VOLUMES = [
    (shape, dtype, *DENSITIES[(i + j) % 3])
    for i, shape in enumerate([*SMALL, (40, 41, 40)])
    for j, dtype in enumerate(DTYPES)
]


@pytest.mark.parametrize(("shape", "dtype", "density", "largest"), VOLUMES)
def test_counts_and_boxes_are_those_of_the_voxels(shape, dtype, density, largest):
    rng = np.random.default_rng(0)
    values = rng.integers(0, largest, (2, *shape)) * (rng.random((2, *shape)) < density)
    reference, prediction = values.astype(dtype)

    foreground = Foreground.of(reference, prediction)

    counts = foreground.counts

    pairs, n_voxels = np.unique(values.reshape(2, -1), axis=1, return_counts=True)

    for (a, b), n in zip(pairs.T, n_voxels, strict=True):
        if a or b:
            assert counts.n_voxels[(counts.reference == a) & (counts.prediction == b)].sum() == n

    n_foreground = np.count_nonzero((reference != 0) | (prediction != 0))
    assert counts.n_voxels[(counts.reference != 0) | (counts.prediction != 0)].sum() == n_foreground

    check_boxes(foreground, reference, prediction)


def check_boxes(foreground, reference, prediction):
    values = {int(v) for v in np.unique([reference, prediction]) if v}
    assert values == foreground.boxes.keys()
    for value in values:
        outside = np.ones(reference.shape, bool)
        outside[foreground.boxes[value]] = False
        assert not ((reference == value) | (prediction == value))[outside].any()


def test_boxes_are_small_types_may_differ_and_background_has_none():
    reference, prediction = np.zeros((2, 50, 60, 80), np.uint8)
    reference[20:24, 30:36, 40:48] = 3
    prediction[20:24, 31:36, 40:50] = 3
    prediction[2, 3, 4] = 1

    boxes = Foreground.of(reference, prediction).boxes

    assert boxes == {
        1: (slice(2, 3), slice(3, 4), slice(0, 8)),
        3: (slice(20, 24), slice(30, 36), slice(40, 56)),
    }

    reference = np.zeros((1, 2, 8), np.uint8)
    prediction = np.zeros((1, 2, 8), np.int16)
    reference[0, 0, 0], prediction[0, 0, 0] = 200, 300

    counts = Foreground.of(reference, prediction).counts

    assert (200, 300) in zip(counts.reference.tolist(), counts.prediction.tolist(), strict=True)

    foreground = Foreground.of(np.zeros((2, 3, 8), np.uint8), np.zeros((2, 3, 8), np.uint8))

    assert foreground.boxes == {}
    assert not foreground.counts.n_voxels.sum()


@pytest.mark.parametrize("offset", [-5, 300, 70_000])
def test_values_that_are_no_indices(offset):
    rng = np.random.default_rng(1)
    reference, prediction = (
        rng.integers(0, 3, (2, 4, 5, 6)) * (rng.random((2, 4, 5, 6)) < 0.5) * offset
    )
    foreground = Foreground.of(reference, prediction)
    both = (reference == offset) & (prediction == offset)

    counts = foreground.counts

    assert (
        counts.n_voxels[(counts.reference == offset) & (counts.prediction == offset)].sum()
        == both.sum()
    )

    check_boxes(foreground, reference, prediction)
