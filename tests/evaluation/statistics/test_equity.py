"""The spread over strata and equity-scaled means: by hand, as their sources have them, and how often
the intervals hold."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from nnunet_dro.evaluation import equity, summarise
from nnunet_dro.evaluation.statistics.equity import ESTIMATES, StratumMeans
from tests.commands import done
from tests.evaluation import made_folders as made


def table(groups, *, metric="dice", n_resamples=1):
    """The equity of values by stratum."""
    names = [name for name, values in groups.items() for _ in values]
    cases = [f"case_{n:04}" for n in range(len(names))]
    values = np.concatenate(list(groups.values()))
    scores = pd.DataFrame({"case": cases, "label": "organ", metric: values})
    strata = {"centre": pd.Series(names, index=cases)}
    return equity(summarise(scores, strata, metrics=[metric], n_resamples=n_resamples))


def row(groups, **options):
    (record,) = table(groups, **options).to_dict("records")
    return record


def draws(shape, n, rng):
    """Values of a shape with a mean of 0.8."""
    if shape == "beta":
        return rng.beta(8, 2, n)
    fails = rng.random(n) < 0.1
    return np.where(fails, 0.0, rng.beta(16, 2, n))


def test_numbers_are_those_computed_by_hand():
    numbers = row({"A": [0.5, 0.75], "B": [0.75, 1.0, 1.0, 0.75]}, n_resamples=0)

    assert numbers["n_strata"] == 2
    assert numbers["mean"] == pytest.approx(0.79166667)
    assert numbers["range"] == pytest.approx(0.25)
    assert numbers["sd"] == pytest.approx(0.125)
    assert numbers["equity_scaled_mean"] == pytest.approx(0.79166667 / 1.25)
    assert numbers["sd_scaled_mean"] == pytest.approx(0.79166667 / 1.125)
    assert np.isnan([numbers[f"{name}_low"] for name in ESTIMATES]).all()


def test_equal_strata_lose_nothing():
    values = np.linspace(0.6, 0.9, 8)

    numbers = row({"A": values, "B": values, "C": values})

    assert numbers["range"] == numbers["range_low"] == numbers["sd_low"] == 0
    assert numbers["equity_scaled_mean"] == numbers["sd_scaled_mean"] == pytest.approx(0.75)
    assert numbers["equity_scaled_mean_low"] < 0.75 < numbers["equity_scaled_mean_high"]


def test_the_interval_of_two_strata_is_that_of_welchs_t_test():
    rng = np.random.default_rng(0)
    first = rng.beta(8, 2, 17) / 2
    second = rng.beta(3, 2, 30)
    welch = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)

    numbers = row({"A": first, "B": second})

    ends = sorted(np.abs(welch))
    assert [numbers["range_low"], numbers["range_high"]] == pytest.approx(ends)
    assert [numbers["sd_low"], numbers["sd_high"]] == pytest.approx(np.array(ends) / 2)


def test_no_errors_within_welchs_limit_are_farther_apart():
    rng = np.random.default_rng(1)
    for n_strata in (2, 3, 7):
        errors = rng.uniform(0.01, 0.1, n_strata)
        n = rng.integers(6, 60, n_strata).astype(float)
        strata = StratumMeans(np.zeros(n_strata), errors, n)
        most = strata.errors_at(0.95)

        largest = dict.fromkeys(most, 0.0)
        for draw in rng.standard_normal((4000, n_strata)):
            # On the border of Welch's limit.
            weights = 1 / errors**2
            apart = draw - weights @ draw / weights.sum()
            apart *= np.sqrt(strata._critical_value(0.95) / (weights @ apart**2))
            made_up = StratumMeans(apart, errors, n)
            for name in most:
                largest[name] = max(largest[name], getattr(made_up, name))

        for name, bound in most.items():
            assert largest[name] <= bound * (1 + 1e-9)
            assert largest[name] > 0.6 * bound


@pytest.mark.parametrize("shape", ["beta", "fails"])
@pytest.mark.parametrize("n_strata", [2, 5])
@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_intervals_hold_in_95_percent_whether_strata_differ(shape, n_strata, shift):
    rng = np.random.default_rng(2)
    scales = 1 - np.linspace(0, shift, n_strata)
    truth = StratumMeans(0.8 * scales, scales, np.full(n_strata, 30.0))
    expected = {
        "range": truth.range,
        "sd": truth.sd,
        "equity_scaled_mean": truth.mean / (1 + truth.deviations),
        "sd_scaled_mean": truth.mean / (1 + truth.sd),
    }

    held = dict.fromkeys(ESTIMATES, 0)
    for _ in range(120):
        groups = {str(n): scale * draws(shape, 30, rng) for n, scale in enumerate(scales)}
        numbers = row(groups)
        for name, value in expected.items():
            held[name] += numbers[f"{name}_low"] - 1e-12 <= value <= numbers[f"{name}_high"] + 1e-12

    # 114 of 120 are 95 %; fewer than 107 have a probability of 0.2 % there.
    assert min(held.values()) >= 107


def test_bounds_stay_within_the_limits_of_a_fraction():
    rng = np.random.default_rng(3)
    groups = {str(n): rng.integers(0, 2, 6).astype(float) for n in range(6)}

    numbers = row(groups)

    assert numbers["range_high"] <= 1
    assert numbers["sd_high"] <= 0.5
    assert 0 <= numbers["equity_scaled_mean_low"] <= numbers["equity_scaled_mean_high"] <= 1


def test_distances_have_a_spread_but_no_scaled_mean():
    numbers = row({"A": np.arange(1.0, 8), "B": np.arange(3.0, 12)}, metric="hd95")

    assert numbers["range"] == 3
    assert numbers["range_high"] > 3
    assert np.isnan([numbers["equity_scaled_mean"], numbers["sd_scaled_mean_low"]]).all()


def test_strata_of_equal_values_have_no_error():
    numbers = row({"A": np.full(6, 0.5), "B": np.full(6, 0.75)})
    assert [numbers["range_low"], numbers["range_high"]] == [0.25, 0.25]

    numbers = row({"A": np.full(6, 0.5), "B": np.linspace(0.7, 0.8, 6)})
    assert 0.15 < numbers["range_low"] < 0.25 < numbers["range_high"] < 0.35


def test_strata_without_a_value_are_no_strata():
    nothing = np.full(3, np.nan)
    numbers = row({"A": np.arange(8) / 10, "B": np.arange(8) / 9, "C": nothing})
    assert numbers["n_strata"] == 2

    assert table({"A": np.arange(8) / 10, "C": nothing}).empty


def test_few_cases_in_one_stratum_leave_all_without_an_interval():
    numbers = row({"A": np.arange(8) / 10, "B": [0.5, 0.6, 0.7, 0.8, 0.9]})
    assert np.isnan(
        [numbers[f"{name}_{end}"] for name in ESTIMATES for end in ("low", "high")]
    ).all()
    assert not np.isnan([numbers[name] for name in ESTIMATES]).any()


def test_the_command_writes_and_shows_them(tmp_path):
    made.write_study(tmp_path, shifts=(0, 1, 2, 0, 1, 2))
    made.write_cases(tmp_path, centre=["A", "A", "A", "B", "B", "B"])

    done(made.run_evaluate(tmp_path, "--by", "centre", "--metrics", "dice,hd95"), 0)

    rows = made.summary_of(tmp_path / "out")["equity"]
    assert {(one["attribute"], one["metric"]) for one in rows} == {
        ("centre", "dice"),
        ("centre", "hd95"),
    }
    assert rows[0]["range_low"] is None
    for name in ("report.md", "report.html"):
        page = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "how far the strata lie apart" in page
