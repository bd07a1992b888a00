"""The best of a search, trained again."""

import json
import re

import optuna
import pytest

from nnunet_dro.tuning import study as study_module
from nnunet_dro.tuning.space import parse_space
from nnunet_dro.tuning.trials import chosen_trial, queue_next, repeated_trainers
from tests.commands import done, run
from tests.tuning.conftest import BETA, NAME


def best_three(trials):
    search = trials[trials["repeat_of"] == ""]
    return search.sort_values("value", ascending=False).head(3)


def test_best_three_are_trained_again_elsewhere_and_the_best_mean_decides(fake, tune, monkeypatch):
    tune(*BETA, "--trials", "5")
    first, second, _ = best_three(fake.trials())["trainer"]
    # The best of the search was lucky.
    monkeypatch.setenv("FAKE", json.dumps({"again": {first: 30}}))

    result = tune(*BETA, "--trials", "5", "--repeat", "2")

    trials = fake.trials()

    best = best_three(trials)

    assert len(fake.calls) == 5, "nothing is trained again where its trainer is trained already"

    folder = fake.results / "tuning" / NAME / "repeats"
    for n in ("1", "2"):
        calls = (folder / n / fake.results.name / "calls.txt").read_text().splitlines()
        assert sorted(calls) == sorted(best["trainer"])
        for trainer in best["trainer"]:
            fold = folder / n / fake.results.name / f"{trainer}__nnUNetPlans__2d" / "fold_0"
            assert (fold / "validation" / "summary.json").exists()
    again = trials[trials["repeat_of"] != ""]

    assert sorted(again["repeat_of"].astype(int)) == sorted([*best["number"]] * 2)
    assert result.stdout.splitlines()[-1] == second
    assert "The best, trained again" in result.stdout

    value = best["value"].iloc[0]
    mean = again[again["trainer"] == first]["value"].mean()

    assert mean < value - 0.1

    row = next(
        line
        for line in result.stdout.splitlines()
        if f"{value:.4f}" in line and f"{mean:.4f}" in line
    )
    assert "0.0000" in row, "two equal trainings have no spread"

    page = fake.page()
    assert page.count("<h2>The best, trained again</h2>") == 1
    assert f" in 2 further trainings: {second}</p>" in page
    assert "Trials: 5 complete, and 6 repetitions." in page
    assert f"trial 5: {again['value'].iloc[0]:.4f} {first}, again (1)" in result.stderr
    assert tune(*BETA, "--trials", "5", "--repeat", "2").stdout == result.stdout, (
        "nothing is repeated twice"
    )
    assert len(fake.trials()) == 11


def test_repetition_is_on_by_default_and_can_be_turned_off(fake, tune):
    words = fake.arguments("--option", "chi2", "--trials", "2")
    done(run(*words))

    assert len(fake.trials()) == 2

    at = words.index("--repeat")
    done(run(*words[:at], *words[at + 2 :]))

    assert len(fake.trials()) == 2 + 2 * 2, "there are only two trainers"


def test_interrupted_repetition_goes_on_with_the_same(fake, tune, monkeypatch):
    tune("--option", "chi2", "--trials", "2")
    train = study_module.train
    seen = []

    def interrupted(*arguments, **options):
        seen.append(options["environment"]["nnUNet_results"])
        raise KeyboardInterrupt

    monkeypatch.setattr(study_module, "train", interrupted)

    tune("--option", "chi2", "--trials", "2", "--repeat", "1", code=130)

    assert fake.trials()["state"].tolist() == ["complete", "complete", "failed", "waiting"]
    assert len(seen) == 1

    monkeypatch.setattr(study_module, "train", train)
    tune("--option", "chi2", "--trials", "2", "--repeat", "1")
    trials = fake.trials()

    assert trials["state"].tolist() == ["complete", "complete", "failed", "complete", "complete"]
    assert trials["trainer"][2] == trials["trainer"][3]
    assert trials["repeat_of"].tolist()[2:4] == [trials["repeat_of"][2]] * 2


def test_defaults_outside_of_the_ranges_can_be_repeated(fake, tune):
    tune("--option", "beta:10:20", "--trials", "2", "--repeat", "1")
    assert fake.trials()["trainer"].tolist().count("nnUNetTrainerHWS_4epochs") == 2


def test_more_trials_do_not_count_repetitions(fake, tune):
    tune(*BETA, "--trials", "3", "--repeat", "1")
    tune(*BETA, "--trials", "5", "--repeat", "0")

    trials = fake.trials()

    assert (trials["repeat_of"] == "").sum() == 5
    assert len(trials) == 8


def made(values, again):
    """A maximised study with a trial per value, and its repetitions."""
    study = optuna.create_study(direction="maximize")
    space = parse_space("HWS", ["beta:1:100"], epochs=4, iterations=None)
    for n, value in enumerate(values):
        study.enqueue_trial({"beta": 10.0 + n})
        trial = study.ask()
        space.suggest(trial)
        trial.set_user_attr("trainer", f"T{n}")
        study.tell(trial, value)
    for n, scores in again.items():
        for k, value in enumerate(scores, 1):
            study.enqueue_trial(
                {"beta": 10.0 + n}, user_attrs={"repeat": k, "repeat_of": n, "trainer": f"T{n}"}
            )
            study.tell(study.ask(), value)
    return study


def test_mean_and_spread_are_those_of_the_further_trainings():
    found = repeated_trainers(made([0.9, 0.5, 0.8, 0.7], {0: [0.6, 0.8], 2: [0.75, 0.79]}))
    assert [one.trainer for one in found] == ["T2", "T0"]
    assert found[0].mean == pytest.approx(0.77)
    assert found[0].spread == pytest.approx(0.04 / 2**0.5)

    values = [0.9, 0.5, 0.8, 0.7]
    assert chosen_trial(made(values, {0: [0.1], 2: [0.8]})).number == 0
    assert chosen_trial(made(values, {0: [0.1], 2: [0.8], 3: [0.7]})).number == 2
    assert chosen_trial(made(values, {0: [0.1, 0.1], 2: [0.8], 3: [0.7]})).number == 0
    assert chosen_trial(made([], {})) is None


def test_each_of_the_best_is_queued_once_before_any_is_queued_twice():
    study = made([0.9, 0.5, 0.8, 0.7, 0.8], {2: [0.8]})
    order = []

    while queue_next(study, 2):
        assert queue_next(study, 2), "what waits is not queued again"
        trial = study.ask()
        order.append((trial.user_attrs["repeat_of"], trial.user_attrs["repeat"]))
        study.tell(trial, 0.5)

    assert order == [(0, 1), (4, 1), (0, 2), (2, 2), (4, 2)]


@pytest.mark.parametrize(
    ("options", "values", "edges"),
    [
        (["beta:10:100"], {"beta": 100.0}, [("beta", "upper")]),
        (["beta:10:100"], {"beta": 10.5}, [("beta", "lower")]),
        (["beta:10:100"], {"beta": 12.0}, []),
        (["beta:1:100:log"], {"beta": 1.04}, [("beta", "lower")]),
        (["beta:1:100:log"], {"beta": 95.0}, []),
        (["beta:0:100"], {"beta": 0.0}, []),
        (["warmup:0:5"], {"warmup": 0}, []),
        (["warmup:0:5"], {"warmup": 5}, [("warmup", "upper")]),
        (["beta:10:90", "warmup:2:5"], {"beta": 100.0, "warmup": 2}, [("warmup", "lower")]),
    ],
)
def test_value_at_an_edge_is_told_unless_nothing_lies_beyond(options, values, edges):
    space = parse_space("HWS", options, epochs=30, iterations=None)
    assert [(one.name, edge) for one, edge in space.edges(values)] == edges


def test_edge_is_told_in_the_terminal_and_on_the_page(fake, tune):
    # Only 51 and 51.1 are in the range, and both are an end of it.
    result = tune("--option", "beta:51:51.1", "--trials", "3")
    line = next(line for line in result.stdout.splitlines() if line.startswith("Warning: "))

    edge = r"51(\.1)?, lies at the (lower|upper) edge of its range beta:51:51\.1"

    assert re.match(rf"Warning: The best beta, {edge}", line)
    assert line.removeprefix("Warning: ") in fake.page()
