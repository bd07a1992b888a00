"""Every experiment on nuclei runs from images to its page, and goes on where it stopped."""

import re

import pandas as pd
import pytest

from experiments.__main__ import main
from experiments.factorial.settings import NESTEROV, settings
from experiments.nuclei import factorial, finetuning, methods, unseen, wrong_labels_training
from experiments.nuclei.methods import ROLES
from tests.experiments.made_nuclei import write_domains


def factors(folder, scores, page):
    assert "ERM by SGD was also trained with 0.01 and 1.0" in page
    assert "| weights in place of none | 2 | " in page
    assert "| SGD in place of Nesterov | 2 | " in page
    assert page.split("## Numbers")[1].count("| –") == 8, "beta 100 and 1000 were not trained"
    assert len(scores) == scores["setting"].nunique() * len(ROLES.strata)
    assert scores[["mean", "median", "p25", "p10", "p5"]].to_numpy().min() >= 0
    effects = pd.read_csv(folder / "nuclei-factorial-effects.csv").set_index(["factor", "stratum"])
    weights = scores[scores["weights"]].groupby("stratum")["mean"].mean()
    without = scores[~scores["weights"] & (scores["beta"] > 0)].groupby("stratum")["mean"].mean()
    expected = weights["fluorescence"] - without["fluorescence"]
    assert effects.loc[("weights", "fluorescence"), "difference"] == pytest.approx(
        expected, abs=1e-3
    )


def lengths(folder, scores, page):
    found = scores.groupby("method", sort=False)["iteration"].first().to_dict()
    assert list(found) == list(finetuning.METHODS_IN_ORDER)
    assert found == {
        name: 10 if name in (methods.PLAIN, "share0.5") else 1
        for name in finetuning.METHODS_IN_ORDER
    }


def domains(folder, scores, page):
    assert list(dict.fromkeys(scores["method"])) == list(unseen.METHODS)
    assert set(scores["stratum"]) == {unseen.SEEN, *unseen.UNSEEN}
    assert scores.groupby("method")["iteration"].max()[[unseen.PLAIN, unseen.TWICE]].tolist() == [
        2,
        4,
    ]


def labels(folder, scores, page):
    assert scores["mean"].between(0, 1).all()
    finetuned = wrong_labels_training.FINETUNED
    assert scores[scores["method"] == finetuned]["iteration"].unique().tolist() == [2]
    separation = pd.read_csv(folder / "nuclei-wrong-labels-separation.csv")
    without = {wrong_labels_training.RIGHT, *wrong_labels_training.SWEPT, finetuned}
    assert set(separation["method"]) == set(wrong_labels_training.METHODS) - without
    assert (folder / "nuclei-wrong-labels-cases.png").stat().st_size > 10_000


def rule(folder, scores, page):
    assert set(pd.read_csv(folder / "nuclei-rule.csv")["method"]) == set(methods.METHODS)


#: The experiment, its page, what is there, the methods of its table, the number of its runs, and
#: what else to check.
PAGES = [
    ("nuclei", "nuclei", r"\| share0.5 \| ", list(methods.METHODS), len(methods.METHODS), rule),
    (
        *("nuclei-finetuning", "finetuning", r"\| share0.5, from plain +\| +1 \|"),
        *(list(finetuning.METHODS_IN_ORDER), len(finetuning.METHODS_IN_ORDER), lengths),
    ),
    ("nuclei-factorial", "factorial", r"\| Nesterov, weights \| ", None, None, factors),
    (
        *("nuclei-unseen", "nuclei-unseen", "There is no verdict without several seeds."),
        *(list(unseen.METHODS), len(unseen.METHODS), domains),
    ),
    (
        *("nuclei-wrong-labels", "nuclei-wrong-labels"),
        rf"\| {re.escape(wrong_labels_training.FINETUNED)} ",
        *(list(wrong_labels_training.METHODS), len(wrong_labels_training.TRAININGS), labels),
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "page", "words", "methods", "n_runs", "check"), PAGES)
def test_it_runs_from_images_to_page(
    tmp_path, monkeypatch, name, page, words, methods, n_runs, check
):
    # A narrow network fills every table and picture in a third of the time, but for the effects of
    # the factorial, which need some Dice.
    if name != "nuclei-factorial":
        monkeypatch.setattr("experiments.nuclei.network.FEATURES", (2, 2, 2, 2))
    corners = [corner for corner in settings() if corner.beta in (0, 10) and not corner.momentum]
    monkeypatch.setattr(factorial, "settings", lambda: corners)
    if name != "nuclei-factorial":
        monkeypatch.setattr("experiments.nuclei.experiment.QUICK_ITERATIONS", 2)
    write_domains(tmp_path / "data")
    command = [name, "--quick", "--data", str(tmp_path / "data"), "--work", str(tmp_path / "work")]
    command += ["--out", str(tmp_path), "--jobs", "1"]
    main(command)

    text = (tmp_path / f"{page}.md").read_text()

    assert "Smoke run" in text
    assert re.search(words, text)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000

    scores = pd.read_csv(tmp_path / f"{name}-all.csv")
    found = list(dict.fromkeys(scores["method" if methods else "setting"]))

    assert sorted(found) == sorted(methods or [corner.name for corner in corners])

    check(tmp_path, scores, text)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.json")}

    assert len(stamps) == (n_runs or len(corners))

    main(command)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "work").rglob("*.json")} == stamps


def test_a_setting_of_the_factorial_has_its_optimiser_and_its_draws():
    for corner in settings():
        run = factorial.run_of(corner, seed=1, iterations=10)
        nesterov = corner.optimiser == NESTEROV
        assert run.optimiser == {
            "lr": corner.rate,
            "momentum": 0.99 if nesterov else 0,
            "nesterov": nesterov,
        }
        assert run.trainer == corner.sampling
