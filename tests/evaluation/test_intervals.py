"""The methods behind the intervals, and which of them each statistic has."""

import numpy as np
import pytest
from scipy import stats

from nnunet_dro.evaluation.intervals import N_FOR_T, TAIL, difference_intervals, intervals
from nnunet_dro.evaluation.mean_bounds import bounded_mean_and_std, mean_by_bootstrap_t, mean_by_students_t
from nnunet_dro.evaluation.order_statistics import bound_ranks, percentile_bounds
from nnunet_dro.evaluation.statistics import PERCENTILES, STATISTICS

NAN = float("nan")


def interval(values, statistic, *, bounded=True, **options):
    (found,) = intervals([np.asarray(values, dtype=float)], bounded=[bounded], **options)
    return tuple(found[list(STATISTICS).index(statistic)])


@pytest.mark.parametrize("n", [1, 2, 5, 12, 58, 59, 100, 1000])
@pytest.mark.parametrize("percent", [5, 10, 25, 50, 75])
@pytest.mark.parametrize("tail", [0.025, 0.05])
def test_bounds_of_percentiles_are_those_of_scipy(n, percent, tail):
    sample = np.arange(n, dtype=float)
    expected = []
    for alternative, end in (("greater", "low"), ("less", "high")):
        test = stats.quantile_test(sample, q=0, p=percent / 100, alternative=alternative)
        expected.append(getattr(test.confidence_interval(1 - tail), end))

    (found,) = percentile_bounds(sample[None], percent, tail=tail)

    # scipy writes -inf and inf, or NaN, where there is no bound.
    expected = [value if np.isfinite(value) else NAN for value in expected]
    np.testing.assert_array_equal(found, expected)


def test_p5_has_a_one_sided_bound_from_59_cases_on():
    assert [bound_ranks(n, 5, tail=0.05)[0] for n in (58, 59, 93, 124, 153)] == [0, 1, 2, 3, 4]
    assert [bound_ranks(n, 10, tail=0.05)[0] for n in (28, 29, 46, 61)] == [0, 1, 2, 3]


def test_the_lower_bound_of_p5_holds():
    rng = np.random.default_rng(0)
    true = stats.beta.ppf(0.05, 8, 2)
    for n in (72, 100, 200):
        low, high = percentile_bounds(np.sort(rng.beta(8, 2, size=(4000, n)), axis=1), 5, tail=TAIL).T
        assert (low <= true).mean() >= 0.97
        assert (high >= true).mean() >= 0.97


def test_a_bound_that_the_sample_is_too_small_for_is_missing():
    low, high = interval(np.linspace(0.5, 1, 12), "p5")

    assert np.isnan(low)
    assert high == np.linspace(0.5, 1, 12)[2]


def test_the_interval_of_the_mean_counts_one_more_case_at_each_limit():
    # With one value x the bounds are the quantiles of D x and D + (1 - D) x, D uniform between 0 and 1.
    mean, _ = bounded_mean_and_std(np.array([[0.6]]), low=0, high=1, tail=0.05, n_resamples=200_000, seed=0)

    assert mean[0] == pytest.approx([0.05 * 0.6, 0.6 + 0.95 * 0.4], abs=2e-3)


def test_the_mean_of_perfect_scores_is_not_certain():
    low, high = interval([1.0] * 20, "mean")

    # A failure in one case of seven would be missed in 20 cases with a probability of 0.05.
    assert 0.8 < low < 0.9
    assert high == 1


def test_the_interval_of_a_mean_scales_with_the_limits():
    x = np.sort(np.random.default_rng(0).random((3, 30)), axis=1)
    options = {"tail": TAIL, "n_resamples": 500, "seed": 1}
    mean, std = bounded_mean_and_std(x, low=0, high=1, **options)
    wide_mean, wide_std = bounded_mean_and_std(2 * x - 1, low=-1, high=1, **options)

    np.testing.assert_allclose(wide_mean, 2 * mean - 1)
    np.testing.assert_allclose(wide_std, 2 * std)


def test_students_t_is_scipys():
    x = np.random.default_rng(0).normal(size=(1, 60))
    expected = stats.ttest_1samp(x[0], 0).confidence_interval(0.95)

    np.testing.assert_allclose(mean_by_students_t(x, tail=0.025)[0], [expected.low, expected.high])


def test_bootstrap_t_reaches_farther_on_the_side_of_the_long_tail():
    x = np.sort(np.random.default_rng(0).lognormal(size=(1, 80)), axis=1)
    (low, high), mean = mean_by_bootstrap_t(x, tail=TAIL, n_resamples=2000, seed=0)[0], x.mean()

    assert high - mean > 1.2 * (mean - low) > 0
    assert mean_by_bootstrap_t(np.full((1, 60), 3.0), tail=TAIL, n_resamples=50, seed=0).tolist() == [[3, 3]]


def test_distances_have_intervals_of_the_mean_from_50_cases_on():
    values = np.random.default_rng(0).lognormal(size=N_FOR_T)

    assert np.isfinite(interval(values, "mean", bounded=False)).all()
    assert np.isnan(interval(values[1:], "mean", bounded=False)).all()
    assert np.isnan(interval(values, "std", bounded=False)).all()
    assert np.isfinite(interval(values, "median", bounded=False)).all()


def test_extremes_have_no_interval():
    for statistic in ("min", "max"):
        assert np.isnan(interval(np.random.default_rng(0).random(100), statistic)).all()


def test_differences_of_percentiles_reach_from_bound_to_bound():
    rng = np.random.default_rng(0)
    before, after = rng.random(100), rng.random(100)
    (found,) = difference_intervals([(before, after)], bounded=[True], n_resamples=100)

    for name in PERCENTILES:
        (low, high), (later_low, later_high) = (interval(v, name, n_resamples=100) for v in (before, after))
        assert tuple(found[list(STATISTICS).index(name)]) == (later_low - high, later_high - low)


def test_intervals_do_not_depend_on_order_company_or_undefined_values():
    rng = np.random.default_rng(0)
    values, others = rng.random(30), [rng.random(30), rng.random(7)]
    (alone,) = intervals([values], bounded=[True], n_resamples=200)
    together = intervals([others[0], np.append(values[::-1], NAN), others[1]], bounded=[True] * 3, n_resamples=200)

    np.testing.assert_allclose(together[1], alone, rtol=1e-12)
    assert np.isnan(intervals([values], bounded=[True], n_resamples=0)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_resamples": -1}, "n_resamples"), ({"seed": -1}, "seed")],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        intervals([np.array([0.5, 0.6])], bounded=[True], **options)


@pytest.mark.parametrize(("value", "message"), [(np.inf, "finite"), (70.0, "between 0 and 1")])
def test_values_out_of_range_are_refused(value, message):
    with pytest.raises(ValueError, match=message):
        intervals([np.array([0.5, value])], bounded=[True])
