import math

import numpy as np
import pytest

from nnunet_dro.doctor.model import scores
from nnunet_dro.evaluation.scoring.label_maps import Labels

REFERENCE = np.array([[0, 1, 1, 2], [-1, -1, 2, 3]])
PREDICTION = np.array([[0, 1, 2, 2], [1, 0, 2, 2]])


def test_dice_of_labels_regions_and_what_to_ignore_by_hand():
    """What preprocessing puts outside of the image is background."""

    def dice(values, **options):
        return {row["label"]: row["dice"] for row in scores(REFERENCE, PREDICTION, Labels(values, **options))}

    # Label 1: 1 common of 2 and 2; label 2: 2 common of 2 and 4, or of 2 and 3 where 3 is ignored.
    assert dice({"one": (1,), "two": (2,)}) == {"one": pytest.approx(0.5), "two": pytest.approx(4 / 6)}
    ignored = dice({"whole": (1, 2), "core": (2,), "none": (7,)}, ignore=3)
    assert ignored["whole"] == pytest.approx(8 / 9)
    assert ignored["core"] == pytest.approx(4 / 5)
    assert math.isnan(ignored["none"])
    with pytest.raises(ValueError, match=r"the prediction must have the shape of the reference, \(2, 4\)"):
        scores(REFERENCE, PREDICTION[:1], Labels({"one": (1,)}))
