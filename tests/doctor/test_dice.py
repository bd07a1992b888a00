import math

import numpy as np
import pytest

from nnunet_dro.doctor.dice import dice_by_label
from nnunet_dro.evaluation.scoring.labels import Labels

REFERENCE = np.array([[0, 1, 1, 2], [-1, -1, 2, 3]])
PREDICTION = np.array([[0, 1, 2, 2], [1, 0, 2, 2]])


def test_labels_by_hand():
    # Label 1: 1 common of 2 and 2; label 2: 2 common of 2 and 4.
    dice = dice_by_label(REFERENCE, PREDICTION, Labels({"one": (1,), "two": (2,)}))
    assert dice == {"one": pytest.approx(0.5), "two": pytest.approx(4 / 6)}


def test_voxels_to_ignore_do_not_count():
    dice = dice_by_label(REFERENCE, PREDICTION, Labels({"two": (2,)}, ignore=3))
    assert dice == {"two": pytest.approx(4 / 5)}


def test_regions_overlap():
    dice = dice_by_label(REFERENCE, PREDICTION, Labels({"whole": (1, 2), "core": (2,)}, ignore=3))
    assert dice["whole"] == pytest.approx(8 / 9)


def test_a_label_in_neither_has_no_dice_and_one_in_the_prediction_alone_has_none_right():
    dice = dice_by_label(np.zeros(4, int), np.array([0, 0, 1, 0]), Labels({"one": (1,), "two": (2,)}))
    assert dice["one"] == 0
    assert math.isnan(dice["two"])


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match=r"the prediction must have the shape of the reference, \(2, 4\)"):
        dice_by_label(REFERENCE, PREDICTION[:1], Labels({"one": (1,)}))
