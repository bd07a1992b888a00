"""clDice and Betti numbers: by hand, by boundary matrices, and where a map lacks the label."""

from itertools import product

import numpy as np
import pytest
from scipy import ndimage

from nnunet_dro.evaluation import METRICS, Labels, Scoring, score_case
from nnunet_dro.evaluation.scoring.metrics import BETTI_ERRORS
from nnunet_dro.evaluation.scoring.topology import (
    betti_numbers,
    centreline,
    centreline_dice,
)
from tests.evaluation import made_folders as made

TOPOLOGY = tuple(name for name, metric in METRICS.items() if metric.on_topology)
VESSEL = Labels({"vessel": (1,)})


def from_centre(n):
    return (axis - n // 2 for axis in np.ogrid[:n, :n, :n])


def ball(radius, *, n=25):
    z, y, x = from_centre(n)
    return z**2 + y**2 + x**2 <= radius**2


def torus(*, n=25):
    z, y, x = from_centre(n)
    return (np.hypot(y, x) - 8) ** 2 + z**2 <= 9


def vessel():
    mask = np.zeros((9, 9, 40), bool)
    mask[3:6, 3:6, 2:38] = True
    return mask


def touching_corners():
    mask = np.zeros((1, 8, 8), bool)
    mask[0, 1:4, 1:4] = True
    mask[0, 4:7, 4:7] = True
    return mask


def two_rings():
    mask = np.zeros((1, 9, 17), bool)
    mask[0, 1:8, 1:16] = True
    mask[0, 3:6, 3:6] = False
    mask[0, 3:6, 10:13] = False
    return mask


def scores(reference, prediction, **options):
    scoring = Scoring(TOPOLOGY, **options)
    (row,) = score_case(reference.astype(int), prediction.astype(int), VESSEL, scoring)
    return [row[name] for name in TOPOLOGY]


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (ball(9), (1, 0, 0)),
        (torus(), (1, 1, 0)),
        (ball(9) & ~ball(6), (1, 0, 1)),
        (ball(9) & ~ball(6) | ball(3), (2, 0, 1)),
        (vessel(), (1, 0, 0)),
        (touching_corners(), (1, 0, 0)),
        (two_rings(), (1, 2, 0)),
        (np.zeros((3, 4, 5), bool), (0, 0, 0)),
        # A cavity that meets the edge of the image is none.
        (~np.pad(np.ones((1, 3, 3), bool), ((0, 2), (1, 1), (1, 1))), (1, 0, 0)),
    ],
)
def test_betti_numbers_of_known_shapes(mask, expected):
    assert betti_numbers(mask) == expected


def betti_by_definition(mask):
    """The dimensions of the homology of the closed cubes, over the field of two elements.

    b_k = dim ker d_k - dim im d_(k + 1), with the boundary matrices d.
    """
    cells = [set() for _ in range(4)]
    for voxel in np.argwhere(mask):
        for offset in product((-1, 0, 1), repeat=3):
            # The middle of a cell has an odd place along each axis that it extends along.
            place = tuple((2 * voxel + 1 + offset).tolist())
            cells[sum(coordinate % 2 for coordinate in place)].add(place)
    numbered = [{place: n for n, place in enumerate(sorted(group))} for group in cells]

    ranks = [0]
    for dimension in (1, 2, 3):
        columns = [_boundary(place, numbered[dimension - 1]) for place in numbered[dimension]]
        ranks.append(_rank(columns))
    ranks.append(0)
    return tuple(len(cells[k]) - ranks[k] - ranks[k + 1] for k in range(3))


def _boundary(place, faces):
    """The faces of a cell, a bit each."""
    bits = 0
    for axis in range(3):
        if place[axis] % 2:
            for step in (-1, 1):
                face = tuple(p + step * (n == axis) for n, p in enumerate(place))
                bits ^= 1 << faces[face]
    return bits


def _rank(columns):
    pivots = {}
    for column in columns:
        while column and column.bit_length() in pivots:
            column ^= pivots[column.bit_length()]
        if column:
            pivots[column.bit_length()] = column
    return len(pivots)


def test_betti_numbers_are_those_of_boundary_matrices():
    rng = np.random.default_rng(0)
    seen = set()

    for _ in range(150):
        shape = rng.integers(1, 6, size=3)
        mask = rng.random(shape) < rng.uniform(0.2, 0.95)
        numbers = betti_numbers(mask)
        assert numbers == betti_by_definition(mask)
        seen.add(numbers)

    assert max(loops for _, loops, _ in seen) > 2
    assert max(cavities for _, _, cavities in seen) > 0


def test_in_one_slice_they_are_components_and_holes_of_the_plane():
    rng = np.random.default_rng(2)
    for _ in range(100):
        plane = rng.random(rng.integers(1, 12, size=2)) < 0.6
        _, n_components = ndimage.label(plane, np.ones((3, 3)))
        _, n_outside = ndimage.label(~np.pad(plane, 1))

        for axis in range(3):
            mask = np.expand_dims(plane, axis)
            assert betti_numbers(mask) == (n_components, n_outside - 1, 0)


def test_a_broken_vessel_counts_as_a_second_component():
    broken = vessel()
    broken[:, :, 20:22] = False

    cldice, *errors = scores(vessel(), broken)

    # All of the broken centreline is inside; of the whole one, two voxels are in the gap.
    n_line = centreline(vessel()).sum()
    sensitivity = (n_line - 2) / n_line
    assert cldice == pytest.approx(2 * sensitivity / (1 + sensitivity))
    assert errors == [1, 0, 0]


def test_errors_have_no_sign_and_count_loops_and_cavities():
    shell = ball(9) & ~ball(6)
    assert scores(torus(), shell)[1:] == scores(shell, torus())[1:] == [0, 1, 1]


def test_cldice_of_equal_and_of_separate_masks():
    beside = np.roll(vessel(), 3, axis=1)
    assert scores(vessel(), vessel()) == [1, 0, 0, 0]
    assert scores(vessel(), beside) == [0, 0, 0, 0]


def test_cldice_does_not_depend_on_the_box_around_the_label():
    thick = ndimage.binary_dilation(vessel())
    alone = scores(vessel(), thick)
    inside = scores(np.pad(vessel(), 7), np.pad(thick, 7))
    assert alone == inside


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cldice_of_one_slice_is_that_of_the_plane(axis):
    from skimage.morphology import skeletonize

    reference = two_rings()[0]
    prediction = ndimage.binary_dilation(reference)
    precision = reference[skeletonize(prediction)].mean()
    sensitivity = prediction[skeletonize(reference)].mean()
    expected = 2 * precision * sensitivity / (precision + sensitivity)

    cldice, *_ = scores(np.expand_dims(reference, axis), np.expand_dims(prediction, axis))

    assert cldice == pytest.approx(expected)
    assert scores(reference, prediction)[0] == cldice


@pytest.mark.parametrize("width", [2, 3, 4])
def test_a_vessel_of_any_width_is_missed_beside_another(width):
    """Of straight vessels of an even width, thinning leaves nothing."""
    found = np.zeros((24, 20, 8), bool)
    found[2:22, 4:7, 4:7] = True
    both = found.copy()
    both[2:22, 12 : 12 + width, 3 : 3 + width] = True

    missed = centreline_dice(both, found)

    assert missed < 0.8
    assert centreline_dice(found, both) == missed
    assert centreline_dice(both, both) == 1


def test_what_thinning_erases_weighs_no_more_than_two_voxels_a_side():
    wide = np.zeros((24, 12, 12), bool)
    wide[2:22, 3:9, 3:9] = True

    expected = np.zeros_like(wide)
    expected[4:20, 5:7, 5:7] = True

    np.testing.assert_array_equal(centreline(wide), expected)


def test_a_mask_that_thinning_erases_is_its_own_centreline():
    cube = np.zeros((6, 6, 6), bool)
    cube[2:4, 2:4, 2:4] = True
    assert centreline(cube).sum() == 8

    beside = np.roll(cube, 1, axis=0)
    assert centreline_dice(cube, cube) == 1
    assert centreline_dice(cube, beside) == 0.5


@pytest.mark.parametrize(
    ("empty", "in_neither"),
    [("undefined", np.nan), ("diagonal", np.nan), ("one", 1.0), ("brats", 1.0)],
)
def test_labels_that_a_map_lacks(empty, in_neither):
    shell = ball(9) & ~ball(6)
    nothing = np.zeros_like(shell)

    for pair in ((shell, nothing), (nothing, shell)):
        assert scores(*pair, empty=empty) == [0, 1, 0, 1]

    errors = [0 * in_neither] * 3
    np.testing.assert_array_equal(scores(nothing, nothing, empty=empty), [in_neither, *errors])


def test_ignored_voxels_are_not_predicted():
    reference = vessel().astype(int)
    prediction = reference.copy()
    reference[:, :, 30:] *= 2
    labels = Labels({"vessel": (1,)}, ignore=2)

    (row,) = score_case(reference, prediction, labels, Scoring(TOPOLOGY))

    assert [row[name] for name in TOPOLOGY] == [1, 0, 0, 0]


def test_the_command_shows_and_judges_topology(tmp_path):
    made.write_study(tmp_path, shifts=(0, 1, 2))

    result = made.run_evaluate(
        tmp_path,
        "--metrics",
        ",".join(TOPOLOGY),
        "--require",
        "metric=betti0_error label=tumour max<=5",
    )

    assert result.exit_code == 0
    assert "Betti error 0 (components)" in result.stdout
    columns = made.scores_of(tmp_path / "out")
    assert (columns["betti1_error"] == 0).all()
    outcomes = made.summary_of(tmp_path / "out")["requirements"]
    assert "components" in str(outcomes)


@pytest.mark.parametrize("name", BETTI_ERRORS)
def test_missing_predictions_have_no_worst_betti_number(tmp_path, name):
    made.write_study(tmp_path, shifts=(0, 1))

    result = made.run_evaluate(tmp_path, "--metrics", name, "--missing", "worst")

    assert result.exit_code == 2
    assert name in result.stderr
    assert not (tmp_path / "out").exists()


def test_bounds_of_betti_numbers_have_no_unit(tmp_path):
    made.write_study(tmp_path, shifts=(0,))

    result = made.run_evaluate(
        tmp_path, "--metrics", "betti1_error", "--require", "metric=betti1_error mean<=5mm"
    )

    assert result.exit_code == 2
    assert "a number of loops" in result.stderr
    assert "Write 5." in result.stderr
