import json
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.__main__ import main
from experiments.convergence import training
from experiments.convergence.experiment import EXPERIMENTS, QUESTIONS, REAL
from experiments.convergence.page import methods_by_statistic, page_text, percentiles_table, verdict
from experiments.convergence.questions import ALL_LABELS, nuclei, phantoms
from experiments.convergence.training import moments
from experiments.curves.results import (
    Roles,
    ScoredRun,
    decision,
    differences,
    mean_of_rare,
    scores_of,
)
from experiments.record import Options
from tests.nnunet_project import with_forked_commands


def test_the_network_is_tested_after_a_tenth_and_at_the_end():
    assert moments(8000, 0.5) == [500, 800, 1000, 2000, 4000, 8000]
    assert moments(16000, 0.25) == [1000, 1600, 2000, 4000, 8000, 12000, 16000]
    assert moments(4, 0.5) == [1, 2, 4]


@pytest.mark.parametrize(
    ("differences", "intervals", "converged", "says"),
    [
        ([10.0, 40.0, 0.2], [(5, 15), (30, 50), (-0.5, 0.9)], True, "a gain of speed"),
        ([0.0, 2.0, 1.0], [(0, 2), (0, 2), (0.1, 3.9)], True, "something is left"),
        (
            [0.0, 2.0, 1.0],
            [(0, 2), (0, 2), (0.1, 3.9)],
            False,
            "a gain at the end, where plain training has not conv",
        ),
        ([0.0, 2.0, 1.0], [(np.nan, np.nan)] * 3, True, "no gain is shown"),
        ([0.0, 1.4, -0.6], [(-1, 1), (0.2, 2.6), (-2.7, 1.5)], True, "no gain is shown"),
        ([0.0, 1.0, -4.0], [(-1, 1), (0.5, 1.5), (-6.0, -2.0)], True, "harm"),
        ([0.0, 0.0, 0.0], [(0, 0)] * 3, True, "the same training as plain"),
    ],
)
def test_the_verdict_is_of_the_largest_gain_and_of_the_end(differences, intervals, converged, says):
    low, high = zip(*intervals, strict=True)
    columns = {"iteration": [500, 1000, 2000], "difference": differences, "low": low, "high": high}

    found = verdict(pd.DataFrame(columns).assign(method="DRO"), last=2000, converged=converged)

    assert (found["largest"], found["end"]) == (differences[1], differences[2])
    assert found["moment"] == 1000 or not any(differences)
    assert found["says"].startswith(says)


def test_what_trained_elsewhere_is_compared_with_plain_there():
    roles = Roles(
        "plain", "IW", common=("a",), rare=("b",), plain_elsewhere={"held_out": "plain_GPU"}
    )
    dice = {"plain": 0.5, "IW": 0.7, "plain_GPU": 0.55, "held_out": 0.6}
    rows = []
    for (method, mean), seed, at, stratum in product(dice.items(), (0, 1), (10, 100), "ab"):
        if method != "plain_GPU" or at == 100:
            row = {"method": method, "trainer": method, "seed": seed, "iteration": at}
            rows.append(
                {**row, "stratum": stratum, "label": "x", "mean": mean, "p10": mean, "share": 0.5}
            )
    scores = pd.DataFrame(rows)

    changes = differences(scores, roles).set_index(["method", "iteration", "stratum"])["difference"]
    rule = decision(scores, roles).set_index("method")

    assert changes["held_out", 100, "b"] == pytest.approx(5)
    assert np.isnan(changes["held_out", 10, "b"])
    assert rule.loc["held_out", "rare - plain"] == "+5.0 [+5.0, +5.0]"
    # Nothing is known of the way, and gains on two machines have no ratio.
    assert rule.loc["held_out", "passes"] is None
    assert rule.loc[["held_out", "plain_GPU"], "gain"].isna().all()
    assert rule.loc["IW", "passes"]


def made_page(dice, *, times=1):
    """The page of three seeds with this Dice of the rare cerebellum by method, and 0.9 in the
    others, or 0 as there."""
    asked = phantoms(quick=False, times=times)
    rows = [
        (
            method,
            method,
            seed,
            at,
            stratum,
            "cerebellum",
            of[seed] if stratum == "rare" else 0.9 * (of[seed] > 0),
        )
        for method, of in dice.items()
        for seed in range(3)
        for at in moments(asked.iterations, asked.settling)
        for stratum in asked.roles.strata
    ]
    columns = ["method", "trainer", "seed", "iteration", "stratum", "label", "mean"]
    return page_text(pd.DataFrame(rows, columns=columns).assign(n=40, p10=0.2, share=0.3), asked)


def test_the_page_says_what_is_left_and_leaves_out_what_has_collapsed():
    page = made_page({"plain": (0.5, 0.0, 0.5), "DRO": (0.6, 0.6, 0.6), "IW": (0.7, 0.7, 0.7)})
    first, second = page.split("plain 1 of 3, DRO 0 of 3, IW 0 of 3. Without them")

    assert "(+26.7)" in first
    assert "(+10.0 [" in second

    page = made_page({"plain": (0.5, 0.4, 0.5), "IW": (0.7, 0.6, 0.7)})
    assert page.startswith(
        "**In short**, this is how the rare cerebellum changes in 8000 iterations, in points of Dice "
        "against plain training ([what the verdicts mean](reading.md#numbers)). Something is left: "
        "`IW` (+20"
    )
    assert "Without them" not in page


def test_trainings_that_have_all_collapsed_leave_nothing_to_judge():
    page = made_page(dict.fromkeys(("plain", "DRO"), (0.0, 0.0, 0.0)))

    assert "plain 3 of 3, DRO 3 of 3" in page


def test_a_training_of_twice_the_length_is_judged_by_its_last_quarter():
    assert phantoms(quick=False, times=2).iterations == 16000

    page = made_page({"plain": (0.5, 0.4, 0.5), "DRO": (0.6, 0.6, 0.6)}, times=2)
    assert (
        "In the last quarter, the Dice of plain training for the cerebellum rose by 0.0 (" in page
    )


def test_twice_the_batch_has_a_configuration_of_its_own(tmp_path, monkeypatch):
    tasks = []

    def keep_task(words, **_):
        tasks.append(json.loads(words[-1]))
        Path(tasks[-1]["to"]).write_text("{}")

    monkeypatch.setattr(training, "run_command", keep_task)
    monkeypatch.setattr(training.SeedRuns, "prepare", lambda runs: None)
    monkeypatch.setattr(training, "_add_to_cases", lambda *_: None)
    experiment = EXPERIMENTS["convergence"]
    options = Options(True, (0,), ("plain_batch2",), data=tmp_path, work=tmp_path)
    (runs,) = experiment.runs(options)
    for name, run in runs.items():
        experiment.make(options, name, run)

    assert [task["configuration"] for task in tasks] == [
        "3d_fullres_small",
        "3d_fullres_small_double_batch",
    ]


@pytest.mark.slow
def test_the_experiment_runs_two_trainings_at_a_time_and_goes_on(tmp_path, monkeypatch):
    experiment = EXPERIMENTS["convergence-slices"]
    make = partial(with_forked_commands, experiment.make)
    monkeypatch.setitem(EXPERIMENTS, experiment.name, replace(experiment, make=make))
    words = ["convergence-slices", "--quick", "--jobs", "2", "--methods", "held_out"]
    words += ["--work", str(tmp_path / "work"), "--out", str(tmp_path)]
    main(words)

    page = (tmp_path / "convergence-slices.md").read_text()

    assert "Smoke run" in page

    table = pd.read_csv(tmp_path / "convergence-slices-all.csv")
    # Two methods, four moments, three pathologies and three labels.
    assert len(table) == 2 * 4 * 3 * 3
    assert table["mean"].between(0, 1).all()
    np.testing.assert_allclose(
        table.groupby(["method", "iteration", "label"])["share"].sum(), 1, atol=2e-4
    )
    assert pd.read_csv(tmp_path / "convergence-slices-rule.csv")["method"].tolist() == [
        "plain",
        "held_out",
    ]

    cases = pd.read_csv(
        next((tmp_path / "work").glob("quick/slices/seed0/nnUNet_preprocessed/*/cases.csv"))
    )
    train = cases[cases["split"] == "train"]

    assert sorted(train["shuffled"]) == sorted(train["pathology"])
    assert (train["shuffled"] != train["pathology"]).any()
    # Probabilities of every training case, a tenth of them uniform.
    assert train["heldout"].sum() == pytest.approx(1)
    assert train["heldout"].min() >= 0.1 / len(train) - 1e-12

    (runs,) = (tmp_path / "work").glob("quick/slices/finished")
    finished = {path: path.stat().st_mtime_ns for path in runs.iterdir()}

    assert len(finished) == 2

    main(words)
    assert finished == {path: path.stat().st_mtime_ns for path in finished}


def scored(dice):
    rows = [
        (10, stratum, label, case, value)
        for (stratum, case), of in dice.items()
        for label, value in of.items()
    ]
    share = [(10, stratum, 0.5) for stratum in {stratum for stratum, _ in dice}]
    return ScoredRun.of("DRO-seed0", Trained, {"dice": rows, "share": share})


class Trained:
    trainer = "nnUNetTrainerDRO"
    seed = 0


DICE = {
    ("raw", "a"): {"head": 0.2, "tail": 0.4},
    ("raw", "b"): {"head": 0.4, "tail": 0.8},
    ("8bit", "c"): {"head": 1.0, "tail": 0.0},
}


def test_the_mean_over_the_labels_is_that_of_each_case():
    scores = scores_of([scored(DICE).with_mean_of_labels(ALL_LABELS)]).set_index(
        ["stratum", "label"]
    )
    assert scores.loc[("raw", ALL_LABELS), "mean"] == pytest.approx((0.3 + 0.6) / 2)
    assert scores.loc[("raw", ALL_LABELS), "p10"] == pytest.approx(0.3 + 0.1 * 0.3)
    assert scores.loc[("8bit", ALL_LABELS), "mean"] == pytest.approx(0.5)
    assert scores.loc[("raw", "head"), "n"] == scores.loc[("raw", ALL_LABELS), "n"] == 2


def test_test_cases_can_be_grouped_once_more():
    scores = scores_of(
        [
            scored(DICE).regrouped(
                pd.Series({"a": "small", "b": "large", "c": "large", "d": "large"})
            )
        ]
    )
    means = scores[scores["label"] == "head"].set_index("stratum")["mean"]

    assert means.to_dict() == pytest.approx({"small": 0.2, "large": 0.7})
    assert scores["share"].isna().all(), "no share of the draws is known of them"


def test_the_rare_strata_are_one_in_the_verdict():
    scores = scores_of([scored(DICE)])
    roles = Roles("plain", "IW", common=(), rare=("raw", "8bit"), label="head")

    found = mean_of_rare(scores, roles)

    assert found["mean"].tolist() == pytest.approx([(0.3 + 1.0) / 2])
    assert found["stratum"].tolist() == ["rare"]


@pytest.mark.parametrize("kind", REAL)
def test_real_data_have_a_page(kind):
    asked = QUESTIONS[kind](None, quick=False)
    assert set(asked.n_train) == set(asked.roles.strata)

    labels = [*asked.data.labels, ALL_LABELS] if len(asked.data.labels) > 1 else asked.data.labels
    keys = product(("plain", "DRO"), (0, 1), moments(asked.iterations, asked.settling))
    rows = [
        (m, m, s, i, g, label) for m, s, i in keys for g in asked.roles.strata for label in labels
    ]
    scores = pd.DataFrame(
        rows, columns=["method", "trainer", "seed", "iteration", "stratum", "label"]
    )
    # The same gain on both seeds at first, and nothing at the end.
    gain = (scores["method"] == "DRO") & (scores["iteration"] < asked.iterations)
    scores = scores.assign(n=3, mean=0.5 + 0.1 * gain + 0.01 * scores["seed"], p10=0.2, share=0.3)

    said = "A gain of speed: `DRO` (+0.0 at the end; its largest gain was +10.0, after "
    assert said in page_text(scores, asked)


def test_percentiles_are_compared_in_pairs_of_draws():
    rows = [
        (
            method,
            seed,
            stratum,
            label,
            f"case{i}",
            0.0 if i == 0 and method == "plain" else level + 0.1 * i,
        )
        for method, level in (("plain", 0.2), ("DRO", 0.3))
        for seed, stratum, label, i in product(
            range(2), ("control", "rare"), ("cerebellum", "neck"), range(5)
        )
    ]
    cases = pd.DataFrame(rows, columns=["method", "seed", "stratum", "label", "case", "dice"])
    cases.loc[cases["seed"] == 1, "dice"] *= 0.5
    roles = Roles("plain", "IW", common=("control",), rare=("rare",), label="cerebellum")
    table = percentiles_table(cases, roles)
    shown = methods_by_statistic(table, roles)

    places = shown.set_index(["stratum", "method"]).index.tolist()

    assert places == list(product(("control", "rare"), ("plain", "DRO")))

    plain, dro = (
        shown[shown["stratum"] == "rare"]
        .set_index("method")
        .loc[["plain", "DRO"]]
        .to_dict("records")
    )
    # Draws of 0, 30, 40, 50, 60 and half of that; then of 30, 40, 50, 60, 70 and half of that.
    assert (plain["median"], plain["p25"], plain["iqr"], plain["missed"]) == (
        "30.0",
        "22.5",
        "15.0",
        "1.0",
    )
    assert dro["missed"].startswith("-1.0")

    half = 12.706 * np.std([10, 5], ddof=1) / np.sqrt(2)
    assert dro["median"] == f"+7.5 [{7.5 - half:+.1f}, {7.5 + half:+.1f}]"


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_an_ensemble_of_three_folds_is_tested_at_its_end(tmp_path):
    words = [
        "convergence-tail",
        "--quick",
        "--jobs",
        "1",
        "--methods",
        "plain",
        "--work",
        str(tmp_path),
        "--out",
        str(tmp_path),
    ]
    assert main(words) == 0

    cases = pd.read_csv(tmp_path / "convergence-tail-cases.csv")
    assert len(cases) == 9 * 3

    logs, (finished,) = (
        tmp_path / "quick" / "tail" / "logs",
        (tmp_path / "quick" / "tail" / "finished").iterdir(),
    )
    assert (logs / "plain-seed0.txt").read_text().count("10 of 10") == 3
    assert sorted(path.name for path in logs.iterdir()) == ["plain-seed0.json", "plain-seed0.txt"]

    share = pd.DataFrame(json.loads(finished.read_text())["result"]["share"])
    assert share[2].sum() == pytest.approx(1)


def test_runs_that_earlier_commands_have_finished_are_found(tmp_path, monkeypatch):
    def make_run(*_, **__):
        raise ValueError("a run is made")

    monkeypatch.setattr("experiments.record.runs.version", lambda _: "2.14.1")
    monkeypatch.setattr("experiments.convergence.experiment.make_run", make_run)
    asked = nuclei(tmp_path, quick=False)
    places = list(product(moments(8000, 0.25), asked.roles.strata))
    result = {
        "dice": [(*place, "nucleus", "a", 0.5) for place in places],
        "share": [(*place, 0.25) for place in places],
        "seconds": 1.0,
    }
    finished = tmp_path / "nuclei" / "finished"
    finished.mkdir(parents=True)
    for name in ("plain-seed0-75e29e600acc", "IW-seed0-b2599d859e9d"):
        (finished / f"{name}.json").write_text(json.dumps({"result": result}))
    (tmp_path / "cases.csv").touch()

    words = ["convergence-nuclei", "--methods", "IW", "--seeds", "0", "--jobs", "1"]
    folders = ["--data", str(tmp_path), "--work", str(tmp_path), "--out", str(tmp_path)]
    assert main([*words, *folders]) == 0

    table = pd.read_csv(tmp_path / "convergence-nuclei-all.csv")
    assert set(table["method"]) == {"plain", "IW"}
