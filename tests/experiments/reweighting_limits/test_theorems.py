import numpy as np
import pandas as pd
import pytest

from experiments.curves.results import mean_interval
from experiments.reweighting_limits.limits import widest_margin
from experiments.reweighting_limits.steps import LIMITS, STEPS, largest_step, trusted_loss
from experiments.reweighting_limits.theorems import summary


def test_widest_margin_leaves_those_out_that_are_wide_anyway():
    np.testing.assert_allclose(
        widest_margin(np.array([[2.0, 0], [0, 1]])), np.array([1, 2]) / np.sqrt(5), atol=1e-6
    )
    # Along the first example the second has the larger margin.
    np.testing.assert_allclose(widest_margin(np.array([[1.0, 0], [2, 1]])), [1, 0], atol=1e-6)


def test_largest_step_falls_with_beta_and_stale_losses_need_it():
    plain, stale, robust = (
        largest_step(beta, 0, stale=is_stale, length=400)
        for beta, is_stale in [(0.0, False), (0.0, True), (10.0, False)]
    )
    assert 2**plain in STEPS
    assert plain == stale > robust


def test_trusted_loss_rises_with_the_printed_step_alone():
    images = np.ones((9, 1))
    targets = np.tile([1.0, 1, -1], 3)

    printed, ours, half = (
        trusted_loss(images, targets, 3, 0, limit=limit, length=30) for limit in LIMITS
    )

    assert printed["rises"] > 10
    assert ours["rises"] == 0
    assert np.isnan([printed["of the bound"], ours["of the bound"]]).all()
    assert half["exponent"] < -0.5
    # (grad G)^2 is 1/36 at the start, where C^2 is 2 L n log(2) with L = 1/4, n = 9 and all images
    # in every batch.
    assert half["of the bound"] == pytest.approx(100 / 36 / np.sqrt(2 * 9 * np.log(2) / 4))


def test_summary_has_the_paired_change_from_the_setting_before():
    values = {("low", 0): 1.0, ("low", 1): 5, ("high", 0): 3, ("high", 1): 8}
    rows = [("penalty", seed, setting, "what", value) for (setting, seed), value in values.items()]

    low, high = summary(
        pd.DataFrame(rows, columns=["theorem", "seed", "setting", "what", "value"])
    ).to_dict("records")

    assert (low["mean"], high["mean"]) == (3, 5.5)
    assert np.isnan(low["change"])

    change = [high[key] for key in ("change", "change low", "change high")]
    assert change == pytest.approx(mean_interval(pd.Series([2, 3])))
