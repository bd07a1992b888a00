from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest

from experiments.nuclei import factorial
from experiments.nuclei.factorial import (
    NESTEROV,
    SGD,
    Setting,
    differences_to_erm,
    main,
    main_effects,
    of_both,
    settings,
)
from experiments.nuclei.methods import ROLES
from nnunet_dro.trainers.registry import parse_trainer_name
from tests.experiments.made_nuclei import write_nuclei_dataset


def test_every_corner_is_a_trainer_of_its_own():
    corners = settings()
    assert len(corners) == 2 * (1 + 3 * 2 * 2) + 2
    assert len({corner.name for corner in corners}) == len(corners)
    for corner in corners:
        _, options = parse_trainer_name(corner.trainer)
        if corner.beta:  # otherwise all weights are 1
            assert (options.importance is not None) == corner.weights
        assert options.history.momentum == corner.momentum
        assert options.history.hardness == "loss"
        run = corner.run(seed=1, iterations=10)
        nesterov = corner.optimiser == NESTEROV
        assert run.optimiser == {"lr": corner.rate, "momentum": 0.99 if nesterov else 0, "nesterov": nesterov}


def made_table(of_setting, *, seeds=(0, 1)) -> pd.DataFrame:
    """A row per setting, seed and modality; ``of_setting`` gives a setting's mean, to which a seed adds its number."""
    rows = [
        {"setting": corner.name, **asdict(corner), "seed": seed, "stratum": stratum, "mean": of_setting(corner) + seed}
        for corner in settings()
        for seed in seeds
        for stratum in ROLES.strata
    ]
    return pd.DataFrame(rows).assign(median=0.0, iqr=0.0, p25=0.0, p10=0.0, p5=0.0)


def test_differences_are_to_erm_by_the_same_optimiser():
    table = made_table(lambda corner: 40 + 20 * (corner.optimiser == NESTEROV) + corner.beta / 10)
    table.loc[(table["setting"] == "SGD, beta 10") & (table["stratum"] == "purple"), "mean"] += 3
    found = differences_to_erm(of_both(table))
    means = found[found["label"] == "mean"].set_index(["method", "stratum"])["difference"]
    assert means["SGD, beta 10", "rare"] == pytest.approx(2), "the mean over the three rare modalities"
    assert means["SGD, beta 10", "fluorescence"] == pytest.approx(1)
    assert means["Nesterov, beta 10", "rare"] == pytest.approx(1)
    assert np.isnan(means["Nesterov, ERM", "rare"])


def test_a_main_effect_is_the_mean_of_all_pairs_that_differ_in_one_factor():
    def made(corner: Setting) -> float:
        lost = 6 * corner.weights * (corner.beta == 10)
        return 50 - lost + 2 * (corner.momentum > 0) + 4 * (corner.optimiser == SGD) - corner.beta / 100

    table = made_table(made, seeds=(0, 1, 2))
    table.loc[table["weights"] & (table["seed"] == 2), "mean"] -= 3
    found = main_effects(of_both(table))
    of_rare = found[found["stratum"] == "rare"].set_index(["factor", "level"])
    assert of_rare.loc[("momentum", 0.9), "difference"] == pytest.approx(2)
    assert of_rare.loc[("optimiser", SGD), "difference"] == pytest.approx(4)
    assert of_rare.loc[("beta", 100), "difference"] == pytest.approx(6 / 2 - 0.9), "half of the pairs have weights"
    assert of_rare.loc[("beta", 1000), "against"] == 10
    # A third of the pairs have beta 10. By seed -2, -2 and -5: a mean of -3, and t for two degrees of freedom is 4.303.
    weights = of_rare.loc[("weights", True)]
    assert weights["difference"] == pytest.approx(-3)
    assert [weights["low"], weights["high"]] == pytest.approx([-3 - 4.303, -3 + 4.303], abs=1e-3)
    assert weights["pairs"] == 12


def test_the_experiment_runs_from_images_to_page(tmp_path, monkeypatch):
    corners = [corner for corner in settings() if corner.beta in (0, 10) and not corner.momentum]
    monkeypatch.setattr(factorial, "settings", lambda: corners)
    write_nuclei_dataset(tmp_path / "data")
    words = ["--quick", "--data", str(tmp_path / "data"), "--cache", str(tmp_path / "cache"), "--out", str(tmp_path)]
    main(words)
    page = (tmp_path / "nuclei-factorial.md").read_text()
    assert "| Nesterov, beta 10, weights " in page
    assert "beside which ERM is trained with\n0.01 and 1.0" in page
    assert "| weights | 2 | " in page
    assert "| SGD in place of Nesterov | 2 | " in page
    assert "| – without weights, – with them |" in page, "beta 1000 was not trained"
    assert (tmp_path / "nuclei-factorial.png").stat().st_size > 10_000
    table = pd.read_csv(tmp_path / "nuclei-factorial-all.csv")
    assert len(table) == len(corners) * len(ROLES.strata)
    assert table[["mean", "median", "p25", "p10", "p5"]].to_numpy().min() >= 0
    effects = pd.read_csv(tmp_path / "nuclei-factorial-effects.csv").set_index(["factor", "stratum"])
    weights = table[table["weights"]].groupby("stratum")["mean"].mean()
    without = table[~table["weights"] & (table["beta"] > 0)].groupby("stratum")["mean"].mean()
    expected = weights["fluorescence"] - without["fluorescence"]
    assert effects.loc[("weights", "fluorescence"), "difference"] == pytest.approx(expected, abs=1e-3)
