import json

import pandas as pd
import pytest
from rich.console import Console

from experiments.few_data import __main__ as few_data
from experiments.few_data import tuning as few_data_tuning
from experiments.few_data.__main__ import main, run
from experiments.few_data.results import ALL_CASES
from experiments.few_data.studies import (
    QUICK_METHODS,
    FewDataRuns,
)
from experiments.nnunet_runs import runs as nnunet_runs
from experiments.nnunet_runs.plans import CONFIGURATION
from tests.experiments.few_data.made_study import few_data_study, write_tuning
from tests.experiments.made_studies import NNUNet


class WithTuning(NNUNet):
    """The stand-in for nnU-Net's commands, and for ours."""

    def __init__(self, best):
        super().__init__()
        self.best = best

    def __call__(self, arguments, *, environment, log, while_running):
        if arguments[0] == "nnunet-dro":
            self.commands.append(arguments)
            return self.tune(arguments, environment)
        if "experiments.few_data.cost" in arguments:
            self.commands.append(arguments)
            rows = [
                {"round": 0, "T": steps, "ms": 10.0 + 10 * steps, "batch_ms": 5.0} for steps in (0, 1, 2, 5, 10, 15)
            ]
            return self.times(arguments).write_text(json.dumps(rows))
        return super().__call__(arguments, environment=environment, log=log, while_running=while_running)

    @staticmethod
    def times(arguments):
        from pathlib import Path

        return Path(arguments[arguments.index("--times") + 1])

    def tune(self, arguments, environment):
        from pathlib import Path

        base = arguments[arguments.index("--trainer") + 1]
        names = [option.split(":")[0] for option in arguments if option.count(":") > 1]
        n_trials = int(arguments[arguments.index("--trials") + 1])
        rows = [
            {"number": i, "state": "complete", "value": 0.1 * (i == 1), **dict.fromkeys(names, 1.0)}
            | {"trainer": f"nnUNetTrainer{base}_{self.best[base] if i == 1 else 'alpha0'}_1epochs_2iters"}
            | {"epochs": 1, "pseudo_dice": 0.1, "minutes": 0.1, "reason": ""}
            for i in range(n_trials)
        ]
        write_tuning(Path(environment["nnUNet_results"]) / "Dataset912_Tiny" / "tuning" / base, pd.DataFrame(rows))


@pytest.fixture
def commands(monkeypatch):
    stand_in = WithTuning({"LS": "alpha0.3", "GILS": "alpha0.2_T3"})
    for module in (nnunet_runs, few_data_tuning, few_data):
        monkeypatch.setattr(module, "run_command", stand_in)
    # GI-LS misses half of a stem of the case that is in no training.
    stand_in.n_stem = {("nnUNetTrainerGILS_alpha0.2_T3", "rare0Ts", 0): 5}
    return stand_in


def trainers(commands):
    return [command[command.index("-tr") + 1] for command in commands if "--times" in command and "-tr" in command]


def test_run_trains_the_best_options_and_goes_on(tmp_path, commands):
    options = {"work": tmp_path / "work", "out": tmp_path / "out", "quick": False, "console": Console(quiet=True)}
    page = run(few_data_study(), seeds=(0,), **options)

    assert trainers(commands.commands) == [
        "nnUNetTrainerHWS_beta0_2epochs_5iters",
        "nnUNetTrainerHWS_beta0_2epochs_10iters",
        "nnUNetTrainerLS_alpha0.3_2epochs_5iters",
        "nnUNetTrainerGILS_alpha0.2_T3_2epochs_5iters",
        "nnUNetTrainerGILS_2epochs_5iters",
        "nnUNetTrainerHWS_beta0_2epochs_20iters",
        "nnUNetTrainerGILS_alpha0.2_T3_2epochs_20iters",
    ]
    tunings = [command for command in commands.commands if command[0] == "nnunet-dro"]
    assert [command[command.index("--trials") + 1] for command in tunings] == ["6", "20"]
    assert all(command[2:5] == ["Dataset912_Tiny", CONFIGURATION, "1"] for command in tunings)
    table = pd.read_csv(tmp_path / "out" / "few-data-tiny-all.csv").set_index(["cases", "method"])
    # One of two cases has a Dice of 2/3 for one of two labels.
    assert table.loc[("rare (in no training)", "GI-LS"), "mean_difference"] == pytest.approx(-(1 / 6) / 2)
    assert table.loc[(ALL_CASES, "GI-LS"), "mean_difference"] == pytest.approx(-(1 / 6) / 5)
    assert table.loc[(ALL_CASES, "LS"), "mean_difference"] == 0
    text = page.read_text()
    assert "`nnUNetTrainerGILS_alpha0.2_T3_2epochs_5iters`" in text
    assert "GI-LS has a mean Dice of 96.7" in text
    assert "1.0 + 1.00 T" in text
    assert "6 of `1epochs_2iters` for LS, 20 of `1epochs_2iters` for GI-LS" in text
    assert (tmp_path / "out" / "few-data-tiny.png").stat().st_size > 10_000

    before = len(commands.commands)
    run(few_data_study(), seeds=(0,), **options)
    assert len(commands.commands) == before


def test_other_best_options_are_trained_again(tmp_path, commands):
    options = {"work": tmp_path / "work", "out": tmp_path / "out", "console": Console(quiet=True)}
    run(few_data_study(), seeds=(0,), **options)
    path = next((tmp_path / "work").rglob("tuning/LS/trials.csv"))
    path.write_text(path.read_text().replace("alpha0.3", "alpha0.4"))
    commands.commands.clear()
    run(few_data_study(), seeds=(0,), **options)
    assert trainers(commands.commands) == ["nnUNetTrainerLS_alpha0.4_2epochs_5iters"]
    of_seed = FewDataRuns(tmp_path / "work" / "few-data-tiny" / "seed0", few_data_study(), 0)
    assert of_seed.record("LS")["trainer"] == "nnUNetTrainerLS_alpha0.4_2epochs_5iters"


def test_command_line_says_what_to_put_right_in_one_line(tmp_path, capsys):
    assert main(["--work", str(tmp_path / "work"), "--data", str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("few_data: `data` must be a folder")
    assert said.count("\n") == 1


@pytest.mark.usefixtures("forked")
@pytest.mark.slow
def test_quick_run_with_nnunet(tmp_path):
    work, out = tmp_path / "work", tmp_path / "out"
    assert main(["--work", str(work), "--out", str(out), "--quick"]) == 0

    seed = work / "few-data-phantoms-quick" / "seed0"
    table = pd.read_csv(out / "few-data-phantoms-all.csv").set_index(["cases", "method"])
    for method in QUICK_METHODS:
        scores = pd.read_csv(seed / "evaluation" / method / "scores.csv")
        assert table.loc[(ALL_CASES, method), "mean"] == pytest.approx(scores["dice"].mean())
    trials = pd.read_csv(out / "few-data-phantoms-trials.csv")
    assert trials["method"].value_counts().to_dict() == {"LS": 2, "GI-LS": 2}
    best = trials[trials["method"] == "GI-LS"].sort_values(["value", "number"], ascending=[False, True]).iloc[0]
    trained = json.loads((seed / "runs" / "GI-LS.json").read_text())["trainer"]
    assert trained == best["trainer"].replace("_2iters", "_4iters")
    splits = json.loads(next((seed / "nnUNet_preprocessed").rglob("splits_final.json")).read_text())
    validated = next((seed / "nnUNet_results").rglob(f"{best['trainer']}__*/fold_1/validation"))
    assert {path.name.removesuffix(".nii.gz") for path in validated.glob("*.nii.gz")} == set(splits[1]["val"])
    cost = pd.read_csv(out / "few-data-phantoms-cost.csv").set_index("T")["ratio"]
    assert cost[15] > cost[1] > 1.5
    text = (out / "few-data-phantoms.md").read_text()
    assert "Smoke run" in text
    assert "What came out" not in text
