import numpy as np
import pytest

from nnunet_dro.evaluation import Labels, score_case

LABELS = Labels({"one": (1,), "two": (2,)})


def dice(reference, prediction, labels=LABELS):
    return {
        row["label"]: row["dice"]
        for row in score_case(np.array(reference), np.array(prediction), labels)
    }


def test_dice_of_two_squares_one_pixel_apart():
    reference = np.zeros((6, 6), np.uint8)
    prediction = np.zeros((6, 6), np.uint8)
    reference[1:3, 1:3] = prediction[1:3, 2:4] = 1

    row = score_case(reference, prediction, LABELS)[0]

    assert row == {
        "label": "one",
        "dice": 0.5,
        "n_reference": 4,
        "n_prediction": 4,
        "n_intersection": 2,
    }

    labels = Labels({"whole": (1, 2), "core": (2,)})

    assert dice([[1, 2, 0, 0]], [[2, 1, 1, 0]], labels) == {"whole": 0.8, "core": 0.0}

    row = score_case(
        np.array([[1, 3, 3]]), np.array([[1, 1, 2]]), Labels({"one": (1,), "two": (2,)}, ignore=3)
    )

    assert row[0]["dice"] == 1.0
    assert np.isnan(row[1]["dice"])

    reference = np.array([[0, 1]], np.uint8)
    prediction = np.array([[1, 1]], np.uint8)
    score_case(reference, prediction, LABELS)

    assert reference.tolist() == [[0, 1]]
    assert prediction.tolist() == [[1, 1]]

    labels = Labels.from_dataset_json(
        {"labels": {"background": 0, "whole": [1, 2], "core": 2, "ignore": 3}}
    )

    assert labels == Labels({"whole": (1, 2), "core": (2,)}, ignore=3)


@pytest.mark.parametrize(
    ("reference", "prediction", "two"),
    [([[1, 2]], [[1, 0]], 0), ([[1, 0]], [[1, 2]], 0), ([[1, 0]], [[1, 0]], np.nan)],
)
def test_dice_of_a_label_in_one_is_zero_and_in_neither_undefined(reference, prediction, two):
    assert dice(reference, prediction) == pytest.approx({"one": 1.0, "two": two}, nan_ok=True)
    assert np.isnan(dice(np.zeros((0, 4), int), np.zeros((0, 4), int))["one"])
