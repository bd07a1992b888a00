"""Measurements: the losses, their spread, the draws that follow from them and those of hardness.csv, and the Dice."""

import math

import numpy as np
import pytest

from nnunet_dro.doctor.answer import expected_draws, loss_spread, stale_losses, trainer_name
from nnunet_dro.doctor.model import scores
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.sampling import EarnedBall, HardnessTable


def test_spread_of_losses_with_known_parts():
    rng = np.random.default_rng(0)
    losses = rng.normal(0, 0.3, size=(2000, 1)) + rng.normal(0, 0.2, size=(2000, 4))
    spread = loss_spread(losses.tolist())
    assert spread.between == pytest.approx(0.3, rel=0.05)
    assert spread.within == pytest.approx(0.2, rel=0.05)
    assert spread.share_between == pytest.approx(0.09 / 0.13, rel=0.1)
    spread = loss_spread([[0.0], [2.0]])
    assert spread.between == 1
    assert math.isnan(spread.within)
    assert loss_spread([[0.0, math.nan], [1.0, 1.0], [math.inf, 0.5]]).within == 0


def test_draws_are_those_of_the_default_trainer():
    """As nnUNetTrainerDRO would draw, once every case has its stale hardness."""
    from nnunet_dro.trainers.options import DROOptions

    hardness = np.random.default_rng(0).normal(-0.8, 0.1, 50)
    options = DROOptions()
    rule = EarnedBall(0.0, options.earned)
    table = HardnessTable([str(n) for n in range(50)], rule=rule, exploration=options.exploration)
    for _ in range(50):
        table.update(np.arange(50), hardness)
    draws = expected_draws(hardness)
    np.testing.assert_allclose(draws.probabilities, table.probabilities(), rtol=1e-6)
    assert draws.effective == pytest.approx(27, abs=2)


def test_draws_of_equal_or_unknown_hardness_are_uniform():
    assert expected_draws(np.array([0.5, 0.5, math.nan])).probabilities == pytest.approx(1 / 3)
    assert expected_draws(np.array([0.1, -0.9, -0.8])).probabilities == pytest.approx(1 / 3), "nothing is found of one"
    harder = expected_draws(np.array([-0.8, -0.4, math.nan])).probabilities
    assert harder[0] < harder[2] < harder[1]


@pytest.mark.parametrize(
    ("length", "name"), [((1000, 250), "nnUNetTrainerDRO"), ((20, 60), "nnUNetTrainerDRO_20epochs_60iters")]
)
def test_name_is_that_of_the_default_trainer_of_the_same_length(length, name):
    from nnunet_dro.trainers.registry import trainer_class

    assert trainer_name(epochs=length[0], iterations=length[1]) == name
    options = trainer_class(name).options
    assert (options.epochs, options.iterations) == length


def test_hardness_log_gives_the_fresh_losses_of_its_last_third(tmp_path):
    path = tmp_path / "hardness.csv"
    rows = [(epoch, "a", 10 + epoch, 1) for epoch in range(6)] + [
        (epoch, "b", 5, int(epoch == 0)) for epoch in range(6)
    ]
    text = "".join(f"{epoch},{case},{loss},0.5,{draws}\n" for epoch, case, loss, draws in rows)
    path.write_text("epoch,case,loss,probability,draws\n" + text)
    assert stale_losses(path, ["a", "b", "never"])[:2] == [[14.0, 15.0], [5.0]]
    assert math.isnan(stale_losses(path, ["a", "b", "never"])[2][0])
    with pytest.raises(ValueError, match="got none in"):
        stale_losses(path, ["other"])
    path.write_text("epoch,case\n0,a\n")
    with pytest.raises(ValueError, match=r"`hardness.csv` must be a table .* got .*hardness.csv"):
        stale_losses(path, ["a"])


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
