"""The two kinds of intervals: which method each statistic has to be read, and what a verdict can
rest on."""

import numpy as np
import pytest
from scipy import stats

from nnunet_dro.evaluation.statistics.columns import PERCENTILES, STATISTICS
from nnunet_dro.evaluation.statistics.intervals import (
    FEWEST,
    TAIL,
    difference_intervals,
    guaranteed_means,
    intervals,
    not_inside,
    one_sided_bound,
)
from nnunet_dro.evaluation.statistics.sample_bounds import (
    mean_by_skewed_t,
    percentile_bounds,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

NAN = float("nan")
MEAN = list(STATISTICS).index("mean")


def interval(values, statistic, *, bounded=True):
    (found,) = intervals([np.asarray(values, dtype=float)], bounded=[bounded])
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


def test_the_lower_bound_of_p5_holds():
    rng = np.random.default_rng(0)
    true = stats.beta.ppf(0.05, 8, 2)
    for n in (72, 100, 200):
        low, high = percentile_bounds(
            np.sort(rng.beta(8, 2, size=(4000, n)), axis=1), 5, tail=TAIL
        ).T
        assert (low <= true).mean() >= 0.97
        assert (high >= true).mean() >= 0.97


def test_bounds_and_intervals_lie_around_the_estimate():
    # So a requirement with confidence is never met where the estimate itself misses it.
    for n in (*range(1, 60), 99, 100, 101, 400, 1001):
        sample = np.arange(n) / n
        estimates = describe(sample)
        for name, percent in PERCENTILES.items():
            for confidence in (50, 60, 80, 95, 97.5, 99.9):
                low, high = (
                    one_sided_bound(sample, percent, end=e, confidence=confidence)
                    for e in ("low", "high")
                )
                assert not low > estimates[name], (n, name, confidence)
                assert not high < estimates[name], (n, name, confidence)


def test_fewer_than_six_values_have_no_interval_to_read():
    values = np.random.default_rng(0).random(FEWEST)
    assert np.isnan(intervals([values[1:]], bounded=[True])).all()
    assert np.isnan(difference_intervals([(values[1:], values[1:] / 2)], bounded=[True])).all()
    assert np.isfinite(interval(values, "mean")).all()
    assert np.isfinite(interval(values, "median")).all()

    many = np.random.default_rng(0).random(100)
    assert np.isnan([interval(many, name) for name in ("min", "max", "std")]).all(), (
        "extremes never have one"
    )


@pytest.mark.parametrize(
    "find",
    [
        lambda x: intervals([x], bounded=[True])[0, MEAN],
        lambda x: intervals([x], bounded=[False])[0, MEAN],
        lambda x: difference_intervals([(x, x**2)], bounded=[True])[0, MEAN],
        lambda x: guaranteed_means([x], bounded=[True])[0],
        lambda x: guaranteed_means([x**2 - x], bounded=[True], low=-1)[0],
    ],
)
def test_no_interval_of_a_mean_changes_its_width_in_a_step(find):
    sizes = [*range(6, 70), *range(495, 505)]
    widths = np.array([np.ptp(find(stats.beta.ppf((np.arange(n) + 0.5) / n, 8, 2))) for n in sizes])

    ratios = (widths[1:] / widths[:-1])[np.diff(sizes) == 1]

    assert ratios.min() > 0.8
    assert ratios.max() < 1.06


def test_the_mean_to_read_is_students_t_but_for_skewness_and_bounds():
    quantiles = stats.norm.ppf((np.arange(200) + 0.5) / 200)
    low, high = interval(quantiles, "mean", bounded=False)

    expected = stats.ttest_1samp(quantiles, 0).confidence_interval(0.95)

    assert (low, high) == pytest.approx((expected.low, expected.high), rel=0.01)

    x = np.random.default_rng(0).lognormal(size=80)
    (low, high), mean = interval(x, "mean", bounded=False), x.mean()

    assert high - mean > 1.2 * (mean - low) > 0
    assert interval(np.full(60, 0.3), "mean") == pytest.approx((0.3, 0.3), abs=1e-15)
    assert interval([0.0] + [1.0] * 9, "mean")[1] <= 1

    distances = np.array([3.0, 3.2, 4.1, 5.0, 4.0, 7.1, 6.0, 245.6])
    low, high = interval(distances, "mean", bounded=False)

    assert low == 0
    assert high > distances.mean()
    assert interval(distances - 5, "mean", bounded=False)[0] < 0


def test_the_skewed_t_is_the_limit_of_bootstrap_t():
    rng = np.random.default_rng(5)
    for x in (
        rng.lognormal(1, 0.8, 600),
        np.where(rng.random(600) < 0.1, 200, 2.0),
        rng.beta(8, 2, 600),
    ):
        weights = rng.multinomial(600, np.full(600, 1 / 600), size=5000) / 600
        first = weights @ (x - x.mean())
        second = weights @ (x - x.mean()) ** 2
        ratios = first / np.sqrt((second - first**2) / 599)
        drawn = x.mean() - np.quantile(ratios, [1 - TAIL, TAIL]) * x.std(ddof=1) / np.sqrt(600)

        (found,) = mean_by_skewed_t(x[None], tail=TAIL)

        assert np.abs(found - drawn).max() < 0.04 * np.ptp(drawn)


def test_differences_have_students_t_or_reach_from_bound_to_bound():
    rng = np.random.default_rng(0)
    for n in (6, 49, 50, 60):
        before, after = rng.random((2, n)) / 2
        (found,) = difference_intervals([(before, after)], bounded=[True])
        expected = stats.ttest_rel(after, before).confidence_interval(0.95)
        np.testing.assert_allclose(found[MEAN], [expected.low, expected.high])

    assert difference_intervals([(np.zeros(7), np.zeros(7))], bounded=[True])[0, MEAN].tolist() == [
        0,
        0,
    ]

    before = rng.random(100)
    after = rng.random(100)
    (found,) = difference_intervals([(before, after)], bounded=[True])

    for name in PERCENTILES:
        (low, high), (later_low, later_high) = (interval(v, name) for v in (before, after))
        assert tuple(found[list(STATISTICS).index(name)]) == (later_low - high, later_high - low)


def test_bounds_of_differences_reach_twice_as_far():
    x = np.random.default_rng(0).random(30)

    twice = guaranteed_means([2 * x - 1], bounded=[True], low=-1)

    np.testing.assert_allclose(twice, 2 * guaranteed_means([x], bounded=[True]) - 1)
    of_two = guaranteed_means([x, x], bounded=[False, True])
    assert np.isnan(of_two[:, 0]).tolist() == [True, False]
    assert np.isfinite(guaranteed_means([x[:1]], bounded=[True])).all()
    assert np.isnan(guaranteed_means([x[:0]], bounded=[True])).all()


def test_no_bound_for_verdicts_is_inside_the_interval_to_read():
    bounds = np.array([[0.4, 0.9], [0.1, 0.6], [NAN, NAN], [0.2, 0.8]])
    to_read = np.array([[0.3, 0.7], [0.2, 0.7], [0.2, 0.7], [NAN, NAN]])

    found = not_inside(bounds, to_read)

    np.testing.assert_array_equal(found, [[0.3, 0.9], [0.1, 0.7], [NAN, NAN], [0.2, 0.8]])


def test_intervals_do_not_depend_on_order_company_or_undefined_values():
    rng = np.random.default_rng(0)
    values = rng.random(30)
    others = [rng.random(30), rng.random(7)]
    for find in (intervals, guaranteed_means):
        (alone,) = find([values], bounded=[True])
        together = find([others[0], np.append(values[::-1], NAN), others[1]], bounded=[True] * 3)
        np.testing.assert_allclose(together[1], alone, rtol=1e-12)


@pytest.mark.parametrize(("value", "message"), [(np.inf, "finite"), (70.0, "between 0 and 1")])
@pytest.mark.parametrize("find", [intervals, guaranteed_means])
def test_values_out_of_range_are_refused(find, value, message):
    with pytest.raises(ValueError, match=message):
        find([np.array([0.5, value])], bounded=[True])
