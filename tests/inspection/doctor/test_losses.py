"""Measurements: the losses, their spread, the draws that follow from them and those of
hardness.csv."""

import math

import numpy as np
import pytest

from nnunet_dro.inspection.doctor.answer import default_draws, loss_spread, stale_losses
from nnunet_dro.sampling import HardnessTable


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


@pytest.mark.parametrize("of_rare", [2.0, 7.7])
def test_draws_are_those_of_the_default_trainer(of_rare):
    """As nnUNetTrainerDRO would draw, once every case has its stale hardness."""
    from nnunet_dro.trainers.options import DROOptions

    hardness = np.random.default_rng(0).normal(-0.8, 0.1, 50)
    options = DROOptions()
    images = np.where(np.arange(50) < 5, of_rare, (50 - 5 * of_rare) / 45)
    rule = options.rule(rarity=images)
    table = HardnessTable([str(n) for n in range(50)], rule=rule, exploration=options.exploration)
    table.update(np.arange(50), hardness)

    draws = default_draws(hardness, images, batch_size=2)

    np.testing.assert_allclose(draws.probabilities, table.probabilities(), rtol=1e-6)
    assert draws.part == pytest.approx(0.2)


def test_draws_of_equal_or_unknown_hardness_are_uniform():
    by_chance = np.ones(3)
    unknown = default_draws(np.array([0.5, 0.5, math.nan]), by_chance, batch_size=1)
    nothing_found = default_draws(np.array([0.1, -0.9, -0.8]), by_chance, batch_size=1)
    harder = default_draws(np.array([-0.8, -0.4, math.nan]), by_chance, batch_size=1).probabilities

    assert unknown.probabilities == pytest.approx(1 / 3)
    assert nothing_found.probabilities == pytest.approx(1 / 3)
    assert nothing_found.part == 0
    assert harder[0] == pytest.approx(harder[2])
    assert harder[0] < harder[1]


def test_hardness_log_gives_the_fresh_losses_of_its_last_third(tmp_path):
    path = tmp_path / "hardness.csv"
    rows = [(n, "a", 10 + n, 1) for n in range(6)] + [(n, "b", 5, int(n == 0)) for n in range(6)]
    text = "".join(f"{epoch},{case},{loss},0.5,{draws}\n" for epoch, case, loss, draws in rows)

    path.write_text("epoch,case,loss,probability,draws\n" + text)

    assert stale_losses(path, ["a", "b", "never"])[:2] == [[14.0, 15.0], [5.0]]
    assert math.isnan(stale_losses(path, ["a", "b", "never"])[2][0])
    with pytest.raises(ValueError, match="got none in"):
        stale_losses(path, ["other"])

    path.write_text("epoch,case\n0,a\n")
    with pytest.raises(ValueError, match=r"`hardness.csv` must be a table .* got .*hardness.csv"):
        stale_losses(path, ["a"])
