"""The losses: their spread, the draws that follow from them, and those of hardness.csv."""

import math

import numpy as np
import pytest

from nnunet_dro.doctor.history import stale_losses
from nnunet_dro.doctor.sampling_ahead import expected_draws, loss_spread, trainer_name


def test_spread_of_losses_with_known_parts():
    rng = np.random.default_rng(0)
    losses = rng.normal(0, 0.3, size=(2000, 1)) + rng.normal(0, 0.2, size=(2000, 4))
    spread = loss_spread(losses.tolist())
    assert spread.between == pytest.approx(0.3, rel=0.05)
    assert spread.within == pytest.approx(0.2, rel=0.05)
    assert spread.share_between == pytest.approx(0.09 / 0.13, rel=0.1)
    assert spread.beta == pytest.approx(1 / 0.3, rel=0.1)


def test_single_losses_say_nothing_of_the_noise():
    spread = loss_spread([[0.0], [2.0]])
    assert spread.between == 1
    assert math.isnan(spread.within)


def test_equal_losses_have_no_beta():
    assert loss_spread([[0.5, 0.5]] * 4).beta is None


def test_losses_that_are_not_finite_are_left_out():
    assert loss_spread([[0.0, math.nan], [1.0, 1.0], [math.inf, 0.5]]).within == 0


def test_draws_by_hand():
    losses = np.log(np.array([[1.0], [2.0], [5.0]]))
    draws = expected_draws(losses, beta=1.0)
    # 5 % of the draws are uniform.
    assert draws.probabilities == pytest.approx(0.95 * np.array([1, 2, 5]) / 8 + 0.05 / 3)
    assert draws.share_of(np.array([True, False, True])) == pytest.approx(0.95 * 6 / 8 + 0.1 / 3)
    assert expected_draws(losses, beta=0.0).effective == pytest.approx(3)


def test_a_single_bad_patch_lasts_until_its_case_is_drawn_again():
    """As a constant loss, it would get nearly all of the draws."""
    losses = np.zeros((100, 4))
    losses[:5] = 0.1
    losses[7, 2] = 3.0
    assert expected_draws(losses[:, 2:3], beta=20.0).probabilities[7] > 0.9
    draws = expected_draws(losses, beta=20.0)
    assert draws.probabilities[7] < 0.5
    assert draws.probabilities[:5].min() > 1.5 * draws.probabilities[8:].max()
    assert draws.probabilities.sum() == pytest.approx(1)


def test_noise_spreads_the_draws_over_like_cases():
    losses = np.array([[0.0, 1.0], [1.0, 0.0]] * 50)
    draws = expected_draws(losses, beta=3.0)
    assert draws.share_of(np.arange(100) % 2 == 0) == pytest.approx(0.5, abs=0.1)
    assert draws.probabilities.max() < 0.04
    assert 30 < draws.effective < 100
    with_gap = expected_draws(np.array([[0.0, 1.0], [1.0, math.nan]]), beta=1.0)
    assert with_gap.probabilities.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("length", "name"),
    [((1000, 250), "nnUNetTrainerHWS_beta3.4_noIS"), ((20, 60), "nnUNetTrainerHWS_beta3.4_noIS_20epochs_60iters")],
)
def test_name_is_that_of_a_trainer_of_the_same_length(length, name):
    from nnunet_dro.trainers.registry import trainer_class

    assert trainer_name(3.4, epochs=length[0], iterations=length[1]) == name
    options = trainer_class(name).options
    assert (options.beta, options.importance_sampling) == (3.4, False)
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
