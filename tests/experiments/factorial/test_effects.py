from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from experiments.factorial import effects
from experiments.factorial.effects import differences_to_erm, main_effects, of_both, statistics_of
from experiments.factorial.settings import NESTEROV, SGD, Setting
from tests.experiments.factorial.made_table import STRATA, made_table


def test_differences_are_to_erm_by_the_same_optimiser():
    table = made_table(lambda corner: 40 + 20 * (corner.optimiser == NESTEROV) + corner.beta / 10)
    table.loc[(table["setting"] == "SGD, beta 10") & (table["stratum"] == "old"), "mean"] += 1
    found = differences_to_erm(of_both(table, STRATA))

    means = found[found["label"] == "mean"].set_index(["method", "stratum"])["difference"]

    assert means["SGD, beta 10", "rare"] == pytest.approx(1.5), "the mean over the two rare strata"
    assert means["SGD, beta 10", "usual"] == pytest.approx(1)
    assert means["Nesterov, beta 10", "rare"] == pytest.approx(1)
    assert np.isnan(means["Nesterov, ERM", "rare"])


def test_a_main_effect_is_the_mean_of_all_pairs_that_differ_in_one_factor():
    def made(corner: Setting) -> float:
        lost = 6 * corner.weights * (corner.beta == 10)
        return (
            50
            - lost
            + 2 * (corner.momentum > 0)
            + 4 * (corner.optimiser == SGD)
            - corner.beta / 100
        )

    table = made_table(made, seeds=(0, 1, 2))
    table.loc[table["weights"] & (table["seed"] == 2), "mean"] -= 3
    found = main_effects(of_both(table, STRATA))

    of_rare = found[found["stratum"] == "rare"].set_index(["factor", "level"])

    assert of_rare.loc[("momentum", 0.9), "difference"] == pytest.approx(2)
    assert of_rare.loc[("optimiser", SGD), "difference"] == pytest.approx(4)
    assert of_rare.loc[("beta", 100), "difference"] == pytest.approx(6 / 2 - 0.9), (
        "half of the pairs have weights"
    )
    assert of_rare.loc[("beta", 1000), "against"] == 10

    # A third of the pairs have beta 10. By seed -2, -2 and -5: a mean of -3, and t for two degrees
    # of freedom is 4.303.
    weights = of_rare.loc[("weights", True)]
    assert weights["difference"] == pytest.approx(-3)
    assert [weights["low"], weights["high"]] == pytest.approx([-3 - 4.303, -3 + 4.303], abs=1e-3)
    assert weights["pairs"] == 12


def test_the_best_of_some_trials_is_the_mean_of_all_draws(monkeypatch):
    monkeypatch.setattr(effects, "TRIALS", 4)
    rng = np.random.default_rng(0)
    of = {name: rng.random(6) for name in (0, 1, 2)}  # six settings
    both = pd.DataFrame([("rare", seed, n, of[seed][n]) for seed in of for n in range(6)])
    both.columns = ["stratum", "seed", "setting", "mean"]
    seemed = []
    bought = []
    for seed, values in of.items():
        others = np.mean([of[other] - of[other].mean() for other in of if other != seed], axis=0)
        best = [max(drawn, key=lambda n: values[n]) for drawn in combinations(range(6), 4)]
        seemed.append(np.mean(values[best]) - values.mean())
        bought.append(np.mean(others[best]))
    found = effects.best_of_trials(both).set_index("level")

    expected = [np.mean(seemed), np.mean(bought), np.mean(seemed) - np.mean(bought)]

    assert found["difference"].tolist() == pytest.approx(expected)
    assert found["factor"].unique().tolist() == ["best of 4"]


def test_strata_together_are_the_mean_of_their_statistics():
    table = made_table(lambda corner: 40.0)
    table.loc[table["stratum"] == "old", ["mean", "p10"]] = [20.0, 10.0]
    both = of_both(table, STRATA)

    of_seed = both[(both["setting"] == "SGD, ERM") & (both["seed"] == 1)].set_index("stratum")

    assert of_seed["mean"].to_dict() == {"rare": 30.5, "usual": 41.0}
    assert of_seed["p10"].to_dict() == {"rare": 5.0, "usual": 0.0}


def test_statistics_are_those_of_each_group_of_test_cases():
    dice = pd.DataFrame(
        {"stratum": ["old"] * 3 + ["odd"], "label": "gland", "dice": [0.2, 0.4, 0.9, 0.5]}
    )
    table = statistics_of(Setting(NESTEROV, beta=10), 3, dice, ["stratum", "label"]).set_index(
        "stratum"
    )

    assert table.loc["old", ["mean", "median", "p25", "iqr"]].tolist() == pytest.approx(
        [50, 40, 30, 35]
    )
    assert table["label"].tolist() == ["gland", "gland"]
    assert table["setting"].tolist() == ["Nesterov, beta 10"] * 2
    assert table["seed"].tolist() == [3, 3]
