"""Bounds from series of moments are the limits of those from many draws."""

import numpy as np
import pytest

from nnunet_dro.evaluation import mean_bounds
from nnunet_dro.evaluation.intervals import intervals
from nnunet_dro.evaluation.large_samples import MOST_DRAWN, bounded_mean_and_std, mean_by_students_t_series
from nnunet_dro.evaluation.statistics import STATISTICS

N = 600
RNG = np.random.default_rng(5)
SHAPES = {
    "Beta(8, 2)": RNG.beta(8, 2, (2, N)),
    "10 % at 0": np.where(RNG.random((2, N)) < 0.1, 0, RNG.beta(8, 2, (2, N))),
    "25 % at 1": np.where(RNG.random((2, N)) < 0.25, 1, RNG.beta(8, 2, (2, N))),
    "two values": np.where(RNG.random((2, N)) < 0.3, 0.2, 0.8),
}
DISTANCES = {"lognormal": RNG.lognormal(1, 0.8, (2, N)), "10 % at 200": np.where(RNG.random((2, N)) < 0.1, 200, 2.0)}


def half_widths_apart(found, expected):
    return np.abs(found - expected) / (expected[:, 1:] - expected[:, :1]) * 2


@pytest.mark.parametrize("shape", SHAPES)
def test_mean_and_std_of_fractions_are_those_of_many_draws(shape):
    samples = np.sort(SHAPES[shape], axis=1)
    options = {"low": 0.0, "high": 1.0, "tail": 0.025}

    found = bounded_mean_and_std(samples, **options)

    drawn = mean_bounds.bounded_mean_and_std(samples, **options, n_resamples=50_000, seed=0)
    for ours, theirs in zip(found, drawn, strict=True):
        assert half_widths_apart(ours, theirs)[:, 0].max() < 0.02
        # The case that is added at a limit is far from the others: the series then reaches a little farther.
        assert half_widths_apart(ours, theirs)[:, 1].max() < 0.06


@pytest.mark.parametrize("shape", DISTANCES)
def test_mean_of_distances_is_that_of_many_draws(shape):
    samples = np.sort(DISTANCES[shape], axis=1)

    found = mean_by_students_t_series(samples, tail=0.025)

    drawn = mean_bounds.mean_by_bootstrap_t(samples, tail=0.025, n_resamples=20_000, seed=0)
    assert half_widths_apart(found, drawn).max() < 0.04


def test_a_normal_sample_has_students_t():
    quantiles = np.linspace(-3, 3, N)[None]

    low, high = mean_by_students_t_series(quantiles, tail=0.025)[0]

    assert [low, high] == pytest.approx(mean_bounds.mean_by_students_t(quantiles, tail=0.025)[0], rel=2e-3)
    assert low == pytest.approx(-high)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_equal_values_have_no_spread_but_one_more_case_might(value):
    samples = np.full((1, N), value)

    (mean,), (std,) = bounded_mean_and_std(samples, low=0.0, high=1.0, tail=0.025)

    assert 0 <= mean[0] <= value <= mean[1] <= 1
    assert mean[1] - mean[0] < 0.02
    assert std[0] == 0
    assert 0 < std[1] < 0.1
    assert mean_by_students_t_series(samples, tail=0.025)[0] == pytest.approx([value, value])


def test_large_samples_need_no_draws():
    sample = np.linspace(0.2, 0.9, MOST_DRAWN + 1)
    place = list(STATISTICS).index("mean")

    few, many = (intervals([sample, sample], bounded=[True, False], n_resamples=n)[:, place] for n in (1, 2000))
    small = intervals([sample[:-1]], bounded=[True], n_resamples=2000)[0, place]

    assert few.tolist() == many.tolist()
    assert small == pytest.approx(few[0], abs=3e-3)
