from itertools import product

import numpy as np
import pandas as pd
import pytest

from experiments.__main__ import main
from experiments.convergence import factorial
from experiments.convergence.questions import phantoms


def made_run(work, data, name, run, *, at):
    """As from `make_run`: a beta helps the rare cerebellum, weights take half of that."""
    gained = 0.0 if "_beta0" in run.trainer else 0.2 if "noIS" in run.trainer else 0.1
    dice = [
        (
            at[-1],
            stratum,
            label,
            f"{stratum}{case}",
            (0.3 + gained if stratum == "rare" else 0.9) + 0.01 * case,
        )
        for stratum, label, case in product(
            (*data.rare, *data.common), ("cerebellum", "grey_matter"), range(3)
        )
    ]
    share = [(at[-1], "rare", 0.1), (at[-1], "common", 0.2), (at[-1], "control", 0.7)]
    return {"dice": dice, "share": share, "seconds": 1.0}


def test_the_experiment_makes_a_page_of_all_its_trainings(tmp_path, monkeypatch):
    monkeypatch.setattr(factorial, "make_run", made_run)
    words = [
        "phantoms-factorial",
        "--quick",
        "--jobs",
        "1",
        "--seeds",
        "0",
        "1",
        "--work",
        str(tmp_path),
    ]

    assert main([*words, "--out", str(tmp_path)]) == 0

    page = (tmp_path / "factorial.md").read_text()
    assert "| weights in place of none | 12 | -10.0 " in page
    assert "With uniform draws the rare pathology has 4 %" in " ".join(page.split())

    table = pd.read_csv(tmp_path / "phantoms-factorial-all.csv")
    assert len(table) == 28 * 2 * 3 * 2
    np.testing.assert_allclose(table.loc[table["stratum"] == "control", "share"], 70)
    assert table["label"].unique().tolist() == ["cerebellum", "grey_matter"]
    assert (tmp_path / "phantoms-factorial.png").stat().st_size > 10_000

    effects = pd.read_csv(tmp_path / "phantoms-factorial-effects.csv")
    assert set(effects["stratum"]) == {"rare", "others"}


def test_the_page_is_about_the_rare_pathology():
    data = phantoms(quick=False).data
    strata = factorial.WORDS.strata

    assert (strata.rare, strata.common) == (data.rare, data.common)
    assert factorial.WORDS.values["uniform"] == pytest.approx(24 / 600)
