import numpy as np
import pytest

from nnunet_dro.evaluation import Labels, score_case

LABELS = Labels({"one": (1,), "two": (2,)})


def dice(reference, prediction, labels=LABELS):
    return {row["label"]: row["dice"] for row in score_case(np.array(reference), np.array(prediction), labels)}


def test_dice_of_two_squares_one_pixel_apart():
    reference, prediction = np.zeros((6, 6), np.uint8), np.zeros((6, 6), np.uint8)
    reference[1:3, 1:3] = prediction[1:3, 2:4] = 1

    row = score_case(reference, prediction, LABELS)[0]

    assert row == {"label": "one", "dice": 0.5, "n_reference": 4, "n_prediction": 4, "n_intersection": 2}


def test_dice_of_a_label_in_neither_is_undefined():
    assert np.isnan(dice([[1, 0]], [[1, 0]])["two"])


@pytest.mark.parametrize(("reference", "prediction"), [([[1, 2]], [[1, 0]]), ([[1, 0]], [[1, 2]])])
def test_dice_of_a_label_in_one_is_zero(reference, prediction):
    assert dice(reference, prediction) == {"one": 1.0, "two": 0.0}


def test_region_joins_its_labels():
    labels = Labels({"whole": (1, 2), "core": (2,)})

    assert dice([[1, 2, 0, 0]], [[2, 1, 1, 0]], labels) == {"whole": 0.8, "core": 0.0}


def test_ignored_voxels_count_nowhere():
    row = score_case(np.array([[1, 3, 3]]), np.array([[1, 1, 2]]), Labels({"one": (1,), "two": (2,)}, ignore=3))

    assert row[0]["dice"] == 1.0
    assert np.isnan(row[1]["dice"])


@pytest.mark.parametrize("offset", [0, 300, 70_000, -5])
def test_counts_do_not_depend_on_the_label_values(offset):
    rng = np.random.default_rng(0)
    reference, prediction = rng.integers(0, 4, (2, 20, 20))
    scores = score_case(reference + offset, prediction + offset, Labels({"a": (2 + offset,)}))[0]

    both = (reference == 2) & (prediction == 2)
    assert scores["n_intersection"] == both.sum()
    assert scores["dice"] == 2 * both.sum() / ((reference == 2).sum() + (prediction == 2).sum())


def test_score_case_leaves_its_input_alone():
    reference, prediction = np.array([[0, 1]], np.uint8), np.array([[1, 1]], np.uint8)
    score_case(reference, prediction, LABELS)

    assert reference.tolist() == [[0, 1]]
    assert prediction.tolist() == [[1, 1]]


def test_empty_label_maps_are_undefined():
    assert np.isnan(dice(np.zeros((0, 4), int), np.zeros((0, 4), int))["one"])
