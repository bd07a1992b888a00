"""Joint counts, boxes and masks against looking voxel by voxel, and the memory they take."""

import tracemalloc

import nibabel
import numpy as np
import pytest

from nnunet_dro.evaluation.scoring.foreground import Foreground, Runs
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles, score_pair
from nnunet_dro.evaluation.scoring.scoring import Scoring

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

    foreground = foreground_of(reference, prediction)

    counts = foreground.counts

    pairs, n_voxels = np.unique(values.reshape(2, -1), axis=1, return_counts=True)

    for (a, b), n in zip(pairs.T, n_voxels, strict=True):
        if a or b:
            assert counts.n_voxels[(counts.reference == a) & (counts.prediction == b)].sum() == n

    n_foreground = np.count_nonzero((reference != 0) | (prediction != 0))
    assert counts.n_voxels[(counts.reference != 0) | (counts.prediction != 0)].sum() == n_foreground

    check_boxes(foreground, reference, prediction)


def foreground_of(reference, prediction):
    return Foreground.of(Runs.of(reference), Runs.of(prediction))


def check_boxes(foreground, reference, prediction):
    values = {int(v) for v in np.unique([reference, prediction]) if v}
    assert values == foreground.boxes.keys()
    for value in values:
        outside = np.ones(reference.shape, bool)
        outside[foreground.boxes[value]] = False
        assert not ((reference == value) | (prediction == value))[outside].any()
        check_masks(foreground, reference, prediction, value)


def check_masks(foreground, reference, prediction, value):
    box = foreground.boxes[value]
    wider = tuple(
        slice(max(0, side.start - 3), min(length, side.stop + 1))
        for side, length in zip(box, reference.shape, strict=True)
    )
    everywhere = tuple(slice(0, length) for length in reference.shape)
    for around in (box, wider, everywhere):
        masks = foreground.masks((value,), around)

        for mask, label_map in zip(masks, (reference, prediction), strict=True):
            assert (mask == (label_map[around] == value)).all()

    masks = foreground.masks((value, 2), everywhere, ignore=1)

    is_ignored = reference == 1
    assert (masks[0] == np.isin(reference, (value, 2))).all()
    assert (masks[1] == np.isin(prediction, (value, 2)) & ~is_ignored).all()


def test_boxes_are_small_types_may_differ_and_background_has_none():
    reference, prediction = np.zeros((2, 50, 60, 80), np.uint8)
    reference[20:24, 30:36, 40:48] = 3
    prediction[20:24, 31:36, 40:50] = 3
    prediction[2, 3, 4] = 1

    boxes = foreground_of(reference, prediction).boxes

    assert boxes == {
        1: (slice(2, 3), slice(3, 4), slice(0, 8)),
        3: (slice(20, 24), slice(30, 36), slice(40, 56)),
    }

    reference = np.zeros((1, 2, 8), np.uint8)
    prediction = np.zeros((1, 2, 8), np.int16)
    reference[0, 0, 0] = 200
    prediction[0, 0, 0] = 300

    counts = foreground_of(reference, prediction).counts

    assert (200, 300) in zip(counts.reference.tolist(), counts.prediction.tolist(), strict=True)

    foreground = foreground_of(np.zeros((2, 3, 8), np.uint8), np.zeros((2, 3, 8), np.uint8))

    assert foreground.boxes == {}
    assert not foreground.counts.n_voxels.sum()


@pytest.mark.parametrize("offset", [-5, 300, 70_000])
def test_values_that_are_no_indices(offset):
    rng = np.random.default_rng(1)
    reference, prediction = (
        rng.integers(0, 3, (2, 4, 5, 6)) * (rng.random((2, 4, 5, 6)) < 0.5) * offset
    )
    foreground = foreground_of(reference, prediction)
    both = (reference == offset) & (prediction == offset)

    counts = foreground.counts

    assert (
        counts.n_voxels[(counts.reference == offset) & (counts.prediction == offset)].sum()
        == both.sum()
    )

    check_boxes(foreground, reference, prediction)


def test_a_whole_map_is_in_memory_only_while_it_is_read(tmp_path):
    label_map = np.zeros((160, 160, 160), np.uint8)
    label_map[40:80, 40:80, 40:80] = 1
    files = []
    for name in ("reference", "prediction"):
        files.append(tmp_path / f"{name}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(label_map, np.eye(4)), files[-1])
    pair = PairOfFiles("a", *files)
    scoring = Scoring(metrics=("dice", "hd95", "nsd"))
    score_pair(pair, None, scoring)  # imports what is needed

    tracemalloc.start()
    scored = score_pair(pair, None, scoring)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [row["hd95"] for row in scored.rows] == [0]
    assert label_map.nbytes < peak < 1.6 * label_map.nbytes
