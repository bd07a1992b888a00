"""Intervals for other test cases and other trainings."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from experiments.curves.other_cases import for_other_cases
from experiments.curves.results import Roles

ROLES = Roles("plain", "IW", common=("common",), rare=("rare",), label="lesion")
TWO_RARE = Roles("plain", "IW", common=("common",), rare=("a", "b"), label="lesion")


def studied(dice, roles=ROLES, *, case_columns=("case",)):
    """The table of Dice by (method, seed, stratum, case) of a label."""
    rows = [(*place, "lesion", value) for place, value in dice.items()]
    cases = pd.DataFrame(rows, columns=["method", "seed", "stratum", "case", "label", "dice"])
    keys = ["method", "seed", "stratum", "label"]
    scores = cases.groupby(keys, sort=False)["dice"].agg(["mean", "size"]).reset_index()
    scores = scores.rename(columns={"size": "n"})
    scores = scores.assign(trainer="T", iteration=10, p10=scores["mean"], share=0.5)
    table = for_other_cases(scores, cases, roles, case_columns=list(case_columns))
    return table.set_index(["stratum", "method"])


def changed(changes, *, plain):
    """The row of two cases that change by so much from plain training; seed to their changes."""
    dice = {}
    for seed, of_seed in changes.items():
        for case, change in zip("xy", of_seed, strict=True):
            dice["plain", seed, "rare", case] = plain
            dice["IW", seed, "rare", case] = plain + change
    return studied(dice).loc["rare", "IW"]


def numbers(text):
    return [float(number) for number in re.findall(r"[-+]\d+\.\d", text)]


def test_it_is_both_intervals_by_hand():
    row = changed({0: [0.02, 0.10], 1: [0.04, 0.16]}, plain=0.5)

    # By seed 6 and 10 points; by case 3 and 13.
    for_trainings = stats.t.ppf(0.975, 1) * 2
    for_cases = stats.t.ppf(0.975, 1) * 5
    half = np.hypot(for_trainings, for_cases)
    assert (row["seeds"], row["cases"]) == (2, 2)
    assert numbers(row["trainings"]) == pytest.approx(
        [8, 8 - for_trainings, 8 + for_trainings], abs=0.05
    )
    assert numbers(row["trainings and cases"]) == pytest.approx([8, 8 - half, 8 + half], abs=0.05)


def test_no_interval_is_of_more_than_100_points():
    row = changed({0: [0.9, 0.4], 1: [0.1, 0.2]}, plain=0.0)

    assert row["trainings"] == "+40.0 [-100.0, +100.0]"
    assert row["trainings and cases"] == "+40.0 [-100.0, +100.0]"


def test_a_case_in_every_seed_is_one_case():
    rng = np.random.default_rng(0)
    changes = rng.normal(0.05, 0.1, 20)

    def of(name):
        dice = {}
        for seed in range(5):
            for case, change in enumerate(changes):
                dice["plain", seed, "rare", name(seed, case)] = 0.5
                dice["IW", seed, "rare", name(seed, case)] = 0.5 + change
        row = studied(dice).loc["rare", "IW"]
        _, low, high = numbers(row["trainings and cases"])
        return row["cases"], high - low

    n_shared, shared = of(lambda _, case: f"case_{case}")
    n_own, own = of(lambda seed, case: f"case_{seed}_{case}")

    assert (n_shared, n_own) == (20, 100)
    # All trainings agree here, so that only cases differ.
    error = 100 * stats.sem(changes)
    assert shared == pytest.approx(2 * stats.t.ppf(0.975, 19) * error, abs=0.11)
    assert own == pytest.approx(shared / np.sqrt(5), rel=0.1)


def test_cases_that_share_a_name_alone_are_several():
    rng = np.random.default_rng(0)
    changes = rng.normal(0.05, 0.1, (5, 20))

    def of(name, **options):
        dice = {}
        for seed, case in np.ndindex(changes.shape):
            dice["plain", seed, "rare", name.format(seed, case)] = 0.5
            dice["IW", seed, "rare", name.format(seed, case)] = 0.5 + changes[seed, case]
        return studied(dice, **options).loc["rare", "IW"]

    same_names = of("phantom_{1}", case_columns=["seed", "case"])

    assert same_names["cases"] == 100
    assert same_names.equals(of("phantom_{0}_{1}"))


def test_several_rare_strata_count_alike():
    dice = {}
    for seed in range(2):
        for stratum, change, n_cases in (("a", 0.1, 3), ("b", 0.3, 12), ("common", 0.0, 5)):
            for case in range(n_cases):
                name = f"{stratum}_{case}"
                dice["plain", seed, stratum, name] = 0.5
                dice["IW", seed, stratum, name] = 0.5 + change

    table = studied(dice, TWO_RARE)

    assert table.loc[("all rare", "IW"), "trainings and cases"] == "+20.0 [+20.0, +20.0]"
    assert table.loc[("all rare", "IW"), "cases"] == 15
    assert table.loc[("common", "IW"), "trainings and cases"] == "+0.0 [+0.0, +0.0]"
    assert "plain" not in table.index.get_level_values("method")


def test_one_case_or_one_seed_has_no_interval():
    places = [("plain", 0, "rare", "x"), ("IW", 0, "rare", "x")]

    one_seed = studied(dict(zip(places, (0.5, 0.6), strict=True)))
    two_seeds = studied(
        {
            (method, seed, "rare", "x"): 0.5 + 0.1 * seed * (method == "IW")
            for method in ("plain", "IW")
            for seed in (0, 1)
        }
    )

    assert one_seed.loc[("rare", "IW"), "trainings and cases"] == "+10.0"
    assert numbers(two_seeds.loc[("rare", "IW"), "trainings"])[0] == 5
    assert two_seeds.loc[("rare", "IW"), "trainings and cases"] == "+5.0"


@pytest.mark.parametrize("spread_of_trainings", [0.0, 0.05])
@pytest.mark.parametrize("n_pool", [24, 400])
def test_it_holds_the_mean_in_95_of_100_studies(n_pool, spread_of_trainings):
    """Each seed tests 20 cases of a pool; most are the same in every seed if it is small."""
    rng = np.random.default_rng(0)
    truth = 5
    held = []
    for _ in range(80):
        of_case = rng.normal(truth / 100, 0.1, n_pool)
        dice = {}
        for seed in range(5):
            of_training = rng.normal(0, spread_of_trainings)
            for case in rng.choice(n_pool, 20, replace=False):
                change = of_case[case] + of_training + rng.normal(0, 0.02)
                dice["plain", seed, "rare", f"case_{case}"] = 0.5
                dice["IW", seed, "rare", f"case_{case}"] = 0.5 + change
        row = studied(dice).loc["rare", "IW"]
        intervals = [numbers(row[kind])[1:] for kind in ("trainings", "trainings and cases")]
        held.append([low <= truth <= high for low, high in intervals])

    for_trainings, for_both = np.mean(held, axis=0)
    assert for_both >= 0.93
    if n_pool == 24 and not spread_of_trainings:
        assert for_trainings < 0.6, "trainings that agree say nothing about other cases"
