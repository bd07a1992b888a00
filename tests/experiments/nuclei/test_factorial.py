import numpy as np
import pandas as pd
import pytest

from experiments.nuclei import factorial
from experiments.nuclei.factorial import NESTEROV, SGD, Setting, differences_to_erm, main, settings
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


def test_differences_are_to_erm_by_the_same_optimiser():
    rows = [
        {"setting": name, "optimiser": name.split(",")[0], "seed": seed, "stratum": stratum, "mean": value + seed}
        for name, value in {"SGD, ERM": 40, "SGD, beta 10": 50, "Nesterov, ERM": 60, "Nesterov, beta 10": 61}.items()
        for seed in (0, 1)
        for stratum in ROLES.strata
    ]
    table = pd.DataFrame(rows).assign(median=0.0, iqr=0.0, p25=0.0, p10=0.0, p5=0.0)
    table.loc[(table["setting"] == "SGD, beta 10") & (table["stratum"] == "purple"), "mean"] += 3
    found = differences_to_erm(table)
    means = found[found["label"] == "mean"].set_index(["method", "stratum"])["difference"]
    assert means["SGD, beta 10", "rare"] == pytest.approx(11), "the mean over the three rare modalities"
    assert means["SGD, beta 10", "fluorescence"] == pytest.approx(10)
    assert means["Nesterov, beta 10", "rare"] == pytest.approx(1)
    assert np.isnan(means["Nesterov, ERM", "rare"])


def test_the_experiment_runs_from_images_to_page(tmp_path, monkeypatch):
    corners = [Setting(NESTEROV), Setting(NESTEROV, beta=10, weights=True)]
    corners += [Setting(SGD, rate=rate) for rate in factorial.RATES]
    monkeypatch.setattr(factorial, "settings", lambda: corners)
    write_nuclei_dataset(tmp_path / "data")
    words = ["--quick", "--data", str(tmp_path / "data"), "--cache", str(tmp_path / "cache"), "--out", str(tmp_path)]
    main(words)
    page = (tmp_path / "nuclei-factorial.md").read_text()
    assert "| Nesterov, beta 10, weights | " in page
    assert "beside which ERM is trained with\n0.01 and 1.0" in page
    assert (tmp_path / "nuclei-factorial.png").stat().st_size > 10_000
    table = pd.read_csv(tmp_path / "nuclei-factorial-all.csv")
    assert len(table) == len(corners) * len(ROLES.strata)
    assert table[["mean", "median", "p25", "p10", "p5"]].to_numpy().min() >= 0
