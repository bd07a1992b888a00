import pandas as pd
import pytest

from experiments.__main__ import main
from experiments.factorial.settings import NESTEROV, settings
from experiments.nuclei import factorial
from experiments.nuclei.factorial import run_of
from experiments.nuclei.methods import ROLES
from tests.experiments.made_nuclei import write_nuclei_dataset


def test_a_setting_has_its_optimiser_and_its_way_of_drawing():
    for corner in settings():
        run = run_of(corner, seed=1, iterations=10)
        nesterov = corner.optimiser == NESTEROV
        assert run.optimiser == {"lr": corner.rate, "momentum": 0.99 if nesterov else 0, "nesterov": nesterov}
        assert run.trainer == corner.sampling


def test_the_experiment_runs_from_images_to_page(tmp_path, monkeypatch):
    corners = [corner for corner in settings() if corner.beta in (0, 10) and not corner.momentum]
    monkeypatch.setattr(factorial, "settings", lambda: corners)
    write_nuclei_dataset(tmp_path / "data")
    words = ["nuclei-factorial", "--quick", "--data", str(tmp_path / "data"), "--work", str(tmp_path / "work")]
    main([*words, "--out", str(tmp_path)])
    page = (tmp_path / "factorial.md").read_text()
    assert "| Nesterov, weights | " in page
    assert "beside which ERM is trained with 0.01 and 1.0" in page
    assert "| weights | 2 | " in page
    assert "| SGD in place of Nesterov | 2 | " in page
    assert page.split("## Numbers")[1].count("| –") == 8, "beta 100 and 1000 were not trained"
    assert (tmp_path / "nuclei-factorial.png").stat().st_size > 10_000
    table = pd.read_csv(tmp_path / "nuclei-factorial-all.csv")
    assert len(table) == len(corners) * len(ROLES.strata)
    assert table[["mean", "median", "p25", "p10", "p5"]].to_numpy().min() >= 0
    effects = pd.read_csv(tmp_path / "nuclei-factorial-effects.csv").set_index(["factor", "stratum"])
    weights = table[table["weights"]].groupby("stratum")["mean"].mean()
    without = table[~table["weights"] & (table["beta"] > 0)].groupby("stratum")["mean"].mean()
    expected = weights["fluorescence"] - without["fluorescence"]
    assert effects.loc[("weights", "fluorescence"), "difference"] == pytest.approx(expected, abs=1e-3)
