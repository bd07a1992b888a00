import numpy as np
import pytest
import scipy.stats

from nnunet_dro.evaluation import bootstrap
from nnunet_dro.evaluation.bootstrap import difference_intervals, intervals
from nnunet_dro.evaluation.statistics import STATISTICS
from nnunet_dro.evaluation.stratum_statistics import describe

NAN = float("nan")


def skewed(n, seed=1):
    return np.random.default_rng(seed).beta(5, 1, size=n)


def naive(values, *, n_resamples, seed, partner=None):
    """Statistics of resamples drawn case by case, shape (n_statistics, n_resamples)."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_resamples):
        cases = rng.integers(0, len(values), len(values))
        of_first = describe(values[cases])
        of_second = describe(partner[cases]) if partner is not None else dict.fromkeys(STATISTICS, 0.0)
        sign = -1 if partner is not None else 1
        rows.append([sign * of_first[s] + of_second[s] for s in STATISTICS])
    return np.array(rows).T


def shares_below(distribution, bounds):
    """Share of a bootstrap distribution at or below, and strictly below, each bound: equal steps have both."""
    at_most = (distribution[:, :, None] <= bounds[:, None, :] + 1e-12).mean(axis=1)
    below = (distribution[:, :, None] < bounds[:, None, :] - 1e-12).mean(axis=1)
    return below, at_most


@pytest.mark.parametrize("n", [2, 3, 11, 40])
def test_intervals_are_quantiles_of_a_naive_resampler(n):
    values = skewed(n)
    below, at_most = shares_below(naive(values, n_resamples=3000, seed=5), intervals([values], n_resamples=20_000)[0])

    # Three standard errors of a share of 2.5 per cent among 3,000, and the error of ours.
    tolerance = 4 * np.sqrt(0.025 * 0.975 / 3000)
    for column, share in enumerate((0.025, 0.975)):
        assert (below[:, column] <= share + tolerance).all()
        assert (at_most[:, column] >= share - tolerance).all()


def test_difference_intervals_are_quantiles_of_a_naive_paired_resampler():
    first = skewed(25)
    second = np.clip(first + np.random.default_rng(2).normal(0.02, 0.05, 25), 0, 1)
    distribution = naive(first, n_resamples=3000, seed=6, partner=second)
    below, at_most = shares_below(distribution, difference_intervals([(first, second)], n_resamples=20_000)[0])

    tolerance = 4 * np.sqrt(0.025 * 0.975 / 3000)
    for column, share in enumerate((0.025, 0.975)):
        assert (below[:, column] <= share + tolerance).all()
        assert (at_most[:, column] >= share - tolerance).all()


@pytest.mark.parametrize(
    ("name", "statistic"),
    [
        ("mean", np.mean),
        ("std", lambda v, axis: np.std(v, axis=axis, ddof=1)),
        ("median", np.median),
        ("p10", lambda v, axis: np.percentile(v, 10, axis=axis)),
    ],
)
def test_intervals_agree_with_scipy(name, statistic):
    values = skewed(200)
    expected = scipy.stats.bootstrap(
        (values,), statistic, n_resamples=9999, method="percentile", vectorized=True, rng=np.random.default_rng(3)
    )
    found = intervals([values], n_resamples=9999)[0, list(STATISTICS).index(name)]

    width = expected.confidence_interval.high - expected.confidence_interval.low
    assert found == pytest.approx(tuple(expected.confidence_interval), abs=0.05 * width)


def test_resampled_statistics_are_those_of_the_resampled_values():
    values, n = np.sort(skewed(37)), 37
    found = bootstrap._distributions(values[None, None], n_resamples=50, seed=4)[0, 0]
    drawn = np.random.default_rng([4, n]).integers(0, n, size=(50, n), dtype=np.uint32)

    expected = [[describe(values[ranks])[s] for s in STATISTICS] for ranks in drawn]
    np.testing.assert_allclose(found.T, expected, rtol=1e-12, atol=1e-15)


def test_median_interval_covers_the_truth_about_95_times_in_100():
    rng = np.random.default_rng(8)
    samples = list(rng.normal(size=(400, 101)))
    low, high = intervals(samples, n_resamples=1000)[:, list(STATISTICS).index("median")].T

    covered = int(((low <= 0) & (high >= 0)).sum())
    assert scipy.stats.binom.ppf(1e-3, 400, 0.94) <= covered <= scipy.stats.binom.ppf(1 - 1e-3, 400, 0.97)


def test_mean_interval_is_the_normal_one_for_many_cases():
    values = skewed(5000)
    low, high = intervals([values], n_resamples=5000)[0, 0]

    error = values.std(ddof=1) / np.sqrt(5000)
    assert (low - values.mean(), high - values.mean()) == pytest.approx((-1.96 * error, 1.96 * error), rel=0.06)


def test_wider_level_is_a_wider_interval():
    narrow, wide = (intervals([skewed(50)], level=level)[0] for level in (0.5, 0.99))

    assert (wide[:, 0] <= narrow[:, 0]).all()
    assert (wide[:, 1] >= narrow[:, 1]).all()
    assert wide[0, 1] > narrow[0, 1]


def test_intervals_are_reproducible_and_depend_on_the_seed():
    first, again, other = (intervals([skewed(30)], seed=seed) for seed in (1, 1, 2))

    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_interval_does_not_depend_on_other_samples_or_the_order_of_cases():
    samples = [skewed(n, seed=n + k) for n in (5, 30, 80) for k in range(40)]
    together = intervals(samples)
    alone = np.concatenate([intervals([sample[::-1]]) for sample in samples])

    np.testing.assert_allclose(together, alone, rtol=1e-11, atol=1e-14)
    percentiles = [list(STATISTICS).index(s) for s in ("median", "p25", "p10", "p5", "min", "max")]
    assert np.array_equal(together[:, percentiles], alone[:, percentiles])


def test_difference_does_not_depend_on_other_pairs_or_the_order_of_cases():
    values = np.round([skewed(60, seed) for seed in range(6)], 1)
    shuffled = np.random.default_rng(0).permutation(60)
    together = difference_intervals([(values[0], values[k]) for k in range(1, 6)])
    alone = difference_intervals([(values[0][shuffled], values[3][shuffled])])

    np.testing.assert_allclose(together[2], alone[0], rtol=1e-11, atol=1e-14)


def test_chunks_do_not_change_the_interval(monkeypatch):
    values, other = skewed(50), skewed(50, seed=2)
    whole = intervals([values], n_resamples=501), difference_intervals([(values, other)], n_resamples=501)
    monkeypatch.setattr(bootstrap, "_CHUNK", 350)
    monkeypatch.setattr(bootstrap, "_MOST_NUMBERS", 100)

    np.testing.assert_allclose(intervals([values], n_resamples=501), whole[0], rtol=1e-11)
    np.testing.assert_allclose(difference_intervals([(values, other)], n_resamples=501), whole[1], atol=1e-13)


def test_undefined_values_are_left_out():
    values = skewed(20)

    assert np.array_equal(intervals([np.concatenate([[NAN], values, [NAN, NAN]])]), intervals([values]))
    pair = np.append(values, [0.3, NAN]), np.append(values[::-1], [NAN, 0.2])
    assert np.array_equal(difference_intervals([pair]), difference_intervals([(values, values[::-1])]))


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 123.456])
def test_equal_values_have_an_interval_without_width(value):
    found = dict(zip(STATISTICS, intervals([np.full(7, value)])[0].tolist(), strict=True))

    zero = {"std", "iqr"}
    assert found == {s: [0.0, 0.0] if s in zero else [value, value] for s in STATISTICS}


def test_equal_methods_do_not_differ():
    assert (difference_intervals([(skewed(9), skewed(9))]) == 0).all()


def test_constant_gain_is_certain():
    bounds = difference_intervals([(skewed(50), skewed(50) + 0.25)])[0]

    expected = [0.0 if s in ("std", "iqr") else 0.25 for s in STATISTICS]
    assert bounds[:, 0] == pytest.approx(expected, abs=1e-12)
    assert bounds[:, 1] == pytest.approx(expected, abs=1e-12)


def test_fewer_than_two_values_and_no_resamples_give_no_interval():
    assert np.isnan(intervals([np.array([]), np.array([NAN, NAN]), np.array([0.5, NAN])])).all()
    assert np.isnan(intervals([skewed(9)], n_resamples=0)).all()
    assert np.isnan(difference_intervals([(np.array([0.5, NAN]), np.array([0.5, 0.6]))])).all()
    assert intervals([]).shape == (0, len(STATISTICS), 2)


def test_two_values_bound_every_statistic():
    low, high = intervals([np.array([0.2, 0.6])])[0].T
    values = dict(zip(STATISTICS, zip(low, high, strict=True), strict=True))

    assert values["mean"] == values["min"] == values["max"] == (0.2, 0.6)
    assert values["std"] == pytest.approx((0, np.sqrt(0.08)))
    assert values["iqr"] == pytest.approx((0, 0.2))


def test_values_are_not_changed():
    values, other = skewed(20), skewed(20, seed=2)
    before = values.copy(), other.copy()
    intervals([values])
    difference_intervals([(values, other)])

    assert np.array_equal(values, before[0])
    assert np.array_equal(other, before[1])


def test_hundred_thousand_cases_fit():
    low, high = intervals([skewed(100_000)], n_resamples=40)[0, list(STATISTICS).index("median")]

    assert low < 0.5 ** (1 / 5) < high


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_resamples": -1}, "`n_resamples` must be at least 0, got -1"),
        ({"seed": -1}, "`seed` must be at least 0, got -1"),
        ({"level": 95}, "`level` must be between 0 and 1, got 95"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        intervals([skewed(5)], **options)


def test_infinite_values_and_unequal_pairs_are_refused():
    with pytest.raises(ValueError, match="must be finite or NaN"):
        intervals([np.array([1.0, np.inf])])
    with pytest.raises(ValueError, match=r"must be of one size each, got \(2,\) and \(3,\)"):
        difference_intervals([(np.zeros(2), np.zeros(3))])
