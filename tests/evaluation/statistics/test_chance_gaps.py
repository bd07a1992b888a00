"""Gaps of random strata, by hand, at both limits and against scipy's permutation test."""

import numpy as np
import pytest
from scipy.stats import permutation_test

from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.chance_gaps import (
    FEWEST_DRAWS,
    MOST_DRAWS,
    ChanceGap,
    chance_gaps,
    told_statistic,
)
from nnunet_dro.evaluation.statistics.samples import Sample

DICE = METRICS["dice"]


def samples(*strata, attribute="centre"):
    made = []
    for n, values in enumerate(strata):
        key = {"attribute": attribute, "stratum": "ABCDEF"[n], "label": "one", "metric": "dice"}
        made.append(Sample(key, np.asarray(values, dtype=float), {}))
    return made


def gap_of(*strata, metric=DICE, **options):
    return chance_gaps(samples(*strata), metric, **options)["centre", "one"]


def test_two_cases_in_two_strata_always_have_the_same_gap():
    gap = gap_of([0.2], [0.9])
    assert (gap.statistic, gap.gap, gap.typical, gap.share) == pytest.approx(("mean", 0.7, 0.7, 1))


def test_share_is_that_of_a_permutation_test():
    rng = np.random.default_rng(3)
    first, second = rng.normal(0.8, 0.05, 12), rng.normal(0.84, 0.05, 9)

    expected = permutation_test(
        (first, second), lambda a, b: a.mean() - b.mean(), n_resamples=20_000, rng=0
    ).pvalue

    assert gap_of(first, second).share == pytest.approx(expected, abs=0.03)


def test_clear_gap_has_no_match_and_equal_strata_always_have_one():
    clear = gap_of([0.1 + n / 1000 for n in range(30)], [0.9 + n / 1000 for n in range(30)])
    assert clear.statistic == "p5"
    assert clear.is_unmatched
    assert not clear.is_chance(n_tests=100)

    level = gap_of([1.0] * 30, [1.0] * 25, [1.0] * 20)
    assert (level.gap, level.typical, level.share) == (0, 0, 1)


def test_random_letters_have_a_gap_by_chance():
    rng = np.random.default_rng(0)
    shares = [gap_of(*np.split(rng.random(30), 3)).share for _ in range(60)]
    # Under chance the share is uniform.
    assert 0.35 < np.mean(shares) < 0.65
    assert np.mean(np.array(shares) <= 0.2) == pytest.approx(0.2, abs=0.15)


def test_reference_is_compared_with_the_worst_of_the_others():
    gap = gap_of([0.5, 0.5], [0.9, 0.9], [0.7, 0.7], reference="C")
    assert gap.gap == pytest.approx(0.2)


def test_errors_with_a_sign_and_distances_are_compared_by_how_bad_they_are():
    assert gap_of([-4.0], [1.0], metric=METRICS["volume_error"]).gap == 3
    assert gap_of([4.0], [1.0], metric=METRICS["hd95"]).gap == 3


def test_undefined_values_all_cases_and_single_strata_are_left_out():
    assert gap_of([0.2, np.nan], [0.9]).gap == pytest.approx(0.7)
    assert chance_gaps(samples([0.2], [0.9], attribute="all"), DICE) == {}
    assert chance_gaps(samples([0.2], [np.nan]), DICE) == {}


def test_many_values_are_drawn_less_often():
    values = np.random.default_rng(0).random(60_000)
    assert gap_of(values[:30_000], values[30_000:]).n_draws == FEWEST_DRAWS
    assert gap_of(values[:50], values[50:100]).n_draws == MOST_DRAWS


def test_tail_is_compared_only_where_every_stratum_has_enough_cases():
    assert told_statistic(DICE, [20, 30]) == "p5"
    assert told_statistic(DICE, [19, 30]) == "mean"
    assert told_statistic(METRICS["hd95"], [4, 5]) == "p75"


def test_chance_is_judged_over_all_gaps_that_are_told():
    gap = ChanceGap("mean", gap=0.1, typical=0.05, share=0.02, n_draws=999)
    assert not gap.is_chance(n_tests=1)
    assert gap.is_chance(n_tests=3)
