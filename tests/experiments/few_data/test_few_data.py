import json

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from experiments.few_data import __main__ as few_data
from experiments.few_data import tuning as few_data_tuning
from experiments.few_data.__main__ import main, run
from experiments.few_data.cost import cost_line, cost_table
from experiments.few_data.page import trials_table, tuning_told
from experiments.few_data.results import ALL_CASES, long_pair, summary
from experiments.few_data.studies import (
    DEFAULT,
    FACTORS,
    LONG,
    LONG_GILS,
    QUICK_METHODS,
    TUNED,
    TWICE,
    FewDataRuns,
    folds,
    hippocampus_study,
    merge_labels,
    phantom_study,
    shrunken_plans,
)
from experiments.few_data.tuning import OPTIONS, Tuning, n_finished, read_tuning
from experiments.nnunet_runs import runs as segmentation_runs
from experiments.nnunet_runs.plans import CONFIGURATION, experiment_plans
from experiments.nnunet_runs.results import ALL_LABELS, Results
from experiments.nnunet_runs.study import BASELINE, Study
from nnunet_dro.trainers.registry import trainer_class
from nnunet_dro.tuning.space import parse_space
from tests.experiments.made_studies import LABELS, PLANS, NNUNet, row_of, tiny_study, write_label_map

PLAIN = "nnUNetTrainerDRO_beta0"


def few_data_study(**changes) -> Study:
    tiny = tiny_study()
    same = {name: getattr(tiny, name) for name in tiny.__dataclass_fields__}
    trainers = {BASELINE: PLAIN, TWICE: PLAIN, LONG: PLAIN, DEFAULT: "nnUNetTrainerGILS"}
    changes = {"trainers": trainers, "labels": ("stem", "bud"), "factors": FACTORS} | changes
    return Study(**(same | changes))


def test_plain_training_of_twice_the_length_differs_in_iterations_alone():
    study = few_data_study()
    assert (study.epochs, study.iterations) == (2, 5)
    assert study.trainer(BASELINE) == "nnUNetTrainerDRO_beta0_2epochs_5iters"
    assert study.trainer(TWICE) == "nnUNetTrainerDRO_beta0_2epochs_10iters"


@pytest.mark.parametrize("method", TUNED)
def test_every_tuned_option_is_one_of_its_trainer_with_the_ranges_of_the_source(method):
    space = parse_space(TUNED[method], OPTIONS[method], epochs=4, iterations=45)
    ends = {one.name: (one.low, one.high, one.log) for one in space.ranges}
    ranges = {"alpha": (0, 0.5, False), "T": (1, 15, False), "eta": (0.1, 3, True)}
    assert ends == {name: ranges[name] for name in ends}
    assert list(ends) == (["alpha"] if method == "LS" else ["alpha", "T", "eta"])
    name = space.trainer_name({one.name: one.middle for one in space.ranges})
    assert trainer_class(name).__name__ == name
    if method == "GI-LS":
        assert trainer_class(name).options.penalty == 1e-3


def test_plans_are_those_of_the_experiments_with_a_smaller_patch_and_batch():
    plans = experiment_plans(PLANS)
    small = shrunken_plans(plans)
    assert small["configurations"][CONFIGURATION]["batch_size"] == 2
    assert small["configurations"][CONFIGURATION]["patch_size"] == [24, 24, 24]
    assert shrunken_plans(small) == small
    wide = json.loads(json.dumps(plans))
    wide["configurations"][CONFIGURATION]["patch_size"] = [32, 20, 24]
    assert shrunken_plans(wide)["configurations"][CONFIGURATION]["patch_size"] == [24, 20, 24]
    assert wide["configurations"][CONFIGURATION]["patch_size"] == [32, 20, 24], "the plans given stay as they are"


def test_tuning_holds_out_training_cases_and_no_others():
    rows = [(f"case{i}", "train") for i in range(8)] + [("other", "validation")]
    final, tuning = folds(pd.DataFrame(rows, columns=["case", "split"]))
    assert final == {"train": [f"case{i}" for i in range(8)], "val": ["other"]}
    assert tuning == {"train": [f"case{i}" for i in range(2, 8)], "val": ["case0", "case1"]}


def test_merged_labels_are_one(tmp_path):
    import SimpleITK

    write_label_map(tmp_path / "labelsTr" / "a.nii.gz", row_of(4))
    write_label_map(tmp_path / "labelsTs" / "b.nii.gz", row_of(10))
    (tmp_path / "dataset.json").write_text(json.dumps({"labels": LABELS, "file_ending": ".nii.gz"}))
    merge_labels(tmp_path, file_ending=".nii.gz", name="both")
    assert json.loads((tmp_path / "dataset.json").read_text())["labels"] == {"background": 0, "both": 1}
    for path, n_voxels in (("labelsTr/a.nii.gz", 14), ("labelsTs/b.nii.gz", 20)):
        merged = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(tmp_path / path)))
        assert (set(np.unique(merged)) - {0}, merged.sum()) == ({1}, n_voxels)


def write_hippocampus_like(data, counts):
    rows = [(f"{name}{i:02d}", name) for name, n in counts.items() for i in range(n)]
    for case, _ in rows:
        write_label_map(data / "labelsTr" / f"{case}.nii.gz", row_of(10))
        write_label_map(data / "imagesTr" / f"{case}_0000.nii.gz", row_of(3))
    pd.DataFrame(rows, columns=["case", "intensity_range"]).to_csv(data / "cases.csv", index=False)
    content = {"labels": LABELS, "file_ending": ".nii.gz", "channel_names": {"0": "MRI"}, "numTraining": len(rows)}
    (data / "dataset.json").write_text(json.dumps(content))


def test_hippocampus_trains_on_eight_cases_of_one_range_and_tests_on_all(tmp_path):
    data = tmp_path / "Dataset004_Hippocampus"
    write_hippocampus_like(data, {"raw": 12, "8bit": 3, "rescaled": 2})
    study = hippocampus_study(data, quick=True)
    draws = []
    for seed in (0, 1):
        folder = tmp_path / f"seed{seed}" / study.dataset
        folder.parent.mkdir()
        study.write(folder, np.random.default_rng(seed))
        train, test = (pd.read_csv(folder / name) for name in ("cases.csv", "test_cases.csv"))
        assert train["split"].value_counts().to_dict() == {"train": 8, "validation": 1}
        assert set(train["range"]) == {"raw"}
        assert test["range"].value_counts().to_dict() == {"raw": 3, "8bit": 2, "rescaled": 2}
        assert not set(train["case"]) & set(test["case"])
        assert len(list((folder / "labelsTs").iterdir())) == 7
        assert json.loads((folder / "dataset.json").read_text())["labels"] == {"background": 0, "hippocampus": 1}
        draws.append(set(train["case"]))
    assert draws[0] != draws[1]


def test_hippocampus_with_too_few_cases_is_refused(tmp_path):
    data = tmp_path / "Dataset004_Hippocampus"
    write_hippocampus_like(data, {"raw": 12, "8bit": 1, "rescaled": 2})
    with pytest.raises(ValueError, match=r"`data` must have 2 cases of range '8bit', got 1. Give the whole dataset"):
        hippocampus_study(data, quick=True)


def test_phantoms_train_on_eight_controls(tmp_path):
    study = phantom_study(quick=True)
    study.write(tmp_path / study.dataset, np.random.default_rng(0))
    train, test = (pd.read_csv(tmp_path / study.dataset / name) for name in ("cases.csv", "test_cases.csv"))
    assert train.value_counts(["pathology", "split"]).to_dict() == {
        ("control", "train"): 8,
        ("control", "validation"): 1,
    }
    assert test["pathology"].value_counts().to_dict() == {"control": 2, "common": 2, "rare": 2}


def test_cost_ratios_are_those_of_the_same_round():
    # The second round is twice as slow for everybody, which the ratios do not show.
    rows = [
        {"round": number, "T": steps, "ms": (1 + number) * (10 if steps == 0 else 20 + 10 * steps), "batch_ms": 10}
        for number in range(2)
        for steps in (0, 1, 2, 5)
    ]
    table = cost_table(pd.DataFrame(rows))
    assert table["T"].tolist() == [0, 1, 2, 5]
    assert table["ratio"].tolist() == pytest.approx([1, 3, 4, 7])
    assert (table["ratio_p75"] - table["ratio_p25"]).tolist() == pytest.approx([0, 0, 0, 0])
    assert table["ms"].tolist() == pytest.approx([15, 45, 60, 105])
    # (30 + 10) / (10 + 10) and (60 + 10) / (20 + 10) for T = 1.
    assert table["ratio_with_batch"].iloc[1] == pytest.approx((2 + 7 / 3) / 2)
    assert cost_line(table) == pytest.approx((2, 1))


def made_dice(shift):
    """Two seeds, three cases of a usual and one of a rare stratum; GI-LS better by ``shift`` in the rare one."""
    rows = []
    for method in (BASELINE, "GI-LS"):
        for seed in (0, 1):
            for case, stratum in (("a", "usual"), ("b", "usual"), ("c", "usual"), ("r", "rare")):
                value = {"a": 0.5, "b": 0.6, "c": 0.7, "r": 0.2}[case] + 0.1 * seed
                better = shift if method == "GI-LS" and stratum == "rare" else 0
                rows.append((method, seed, case, stratum, value + better))
    return pd.DataFrame(rows, columns=["method", "seed", "case", "stratum", "dice"]).assign(label=ALL_LABELS)


def test_summary_has_all_seeds_together_and_each_and_the_cases_in_no_training():
    study = few_data_study(trainers={BASELINE: PLAIN, "GI-LS": "nnUNetTrainerGILS"})
    results = Results(study, (BASELINE, "GI-LS"), made_dice(0.4), pd.DataFrame())
    table = summary(results).set_index(["cases", "seed", "method"])
    assert table.loc[(ALL_CASES, "0, 1", "GI-LS"), "mean_difference"] == pytest.approx(0.1)
    assert table.loc[("rare (in no training)", "1", "GI-LS"), ["mean", "mean_difference"]].tolist() == pytest.approx(
        [0.7, 0.4]
    )
    seen = table.loc[("usual (as in training)", "0, 1", "GI-LS")]
    assert (seen["n_cases"], seen["mean"], seen["mean_difference"]) == (6, pytest.approx(0.65), 0)
    assert table.loc[(ALL_CASES, "0, 1", BASELINE), "n_cases"] == 8
    # p25 of 0.2, 0.5, 0.6, 0.7.
    assert table.loc[(ALL_CASES, "0", BASELINE), "p25"] == pytest.approx(0.425)
    assert set(table.index.get_level_values("seed")) == {"0, 1", "0", "1"}


def test_long_trainings_are_compared_with_each_other_on_the_seeds_both_have():
    dice = made_dice(0.4).replace({"method": {BASELINE: LONG, "GI-LS": LONG_GILS}})
    dice = dice[(dice["method"] == LONG) | (dice["seed"] == 1)]
    study = few_data_study(trainers={BASELINE: PLAIN, LONG: PLAIN, LONG_GILS: "nnUNetTrainerGILS"})
    results = Results(study, (BASELINE, LONG, LONG_GILS), dice, pd.DataFrame())
    table = long_pair(results).set_index(["cases", "seed"])
    assert table.loc[("rare (in no training)", "1"), "mean_difference"] == pytest.approx(0.4)
    assert (table.loc[(ALL_CASES, "1"), "n_cases"], table.loc[(ALL_CASES, "1"), "seeds_better"]) == (4, 1)
    assert long_pair(Results(study, (BASELINE, LONG), dice, pd.DataFrame())).empty


TRIALS = pd.DataFrame(
    {
        "number": [0, 1, 2, 3],
        "state": ["complete", "pruned", "complete", "failed"],
        "value": [0.5, None, 0.7, None],
        "alpha": [0.1, 0.2, 0.3, 0.4],
        "trainer": [f"nnUNetTrainerLS_alpha{a}_1epochs_2iters" for a in (0.1, 0.2, 0.3, 0.4)],
        "epochs": 1,
        "pseudo_dice": [0.4, 0.1, 0.6, None],
        "minutes": 0.5,
        "image_change": [0.1, 0.2, 0.3, None],
        "reason": ["", "below the median", "", "exit code 1"],
    }
)


def test_trials_are_told_best_first():
    tuning = Tuning("LS", TRIALS, "nnUNetTrainerLS_alpha0.3", {"alpha": 0.7, "T": 0.3})
    told = tuning_told(tuning)
    assert "4 trials (4 different): 2 complete, 1 pruned, 1 failed. Their Dice ranges from 50.0 to 70.0" in told
    assert "`nnUNetTrainerLS_alpha0.3`" in told
    assert "alpha 70 %, T 30 %" in told
    assert "PED-ANOVA" not in tuning_told(Tuning("LS", TRIALS, "nnUNetTrainerLS_alpha0.3", {"alpha": 1.0}))
    shown = trials_table(tuning)
    assert shown["trial"].tolist() == [2, 0, 1, 3]
    assert shown["Dice of the held-out cases"].tolist()[:2] == [70, 50]
    assert shown["change of the images"].tolist()[:3] == [0.3, 0.1, 0.2]
    assert tuning.seconds == 120


def write_tuning(folder, trials=TRIALS):
    import optuna

    folder.mkdir(parents=True)
    trials.drop(columns="image_change", errors="ignore").to_csv(folder / "trials.csv", index=False)
    optuna.create_study(storage=f"sqlite:///{folder / 'study.db'}", study_name="LS", direction="maximize")


def test_best_trainer_is_without_the_length_of_the_trials(tmp_path):
    folder = tmp_path / "tuning" / "LS"
    write_tuning(folder)
    fold = tmp_path / f"{TRIALS['trainer'][2]}__nnUNetPlansExperiment__{CONFIGURATION}" / "fold_1"
    fold.mkdir(parents=True)
    (fold / "perturbations.csv").write_text("epoch,mean_change\n0,0.25\n1,0.75\n")
    tuning = read_tuning(folder, "LS")
    assert tuning.trials["image_change"].tolist() == pytest.approx([np.nan, np.nan, 0.5, np.nan], nan_ok=True)
    assert tuning.trainer == "nnUNetTrainerLS_alpha0.3"
    assert tuning.importance == {}, "no trials in the database, no importance"
    assert n_finished(folder) == 3
    assert n_finished(tmp_path / "none") == 0


def test_tuning_without_a_complete_trial_is_refused(tmp_path):
    write_tuning(tmp_path / "LS", TRIALS[TRIALS["state"] != "complete"])
    with pytest.raises(ValueError, match="`LS` must have a complete trial, got none in"):
        read_tuning(tmp_path / "LS", "LS")


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
    for module in (segmentation_runs, few_data_tuning, few_data):
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
        "nnUNetTrainerDRO_beta0_2epochs_5iters",
        "nnUNetTrainerDRO_beta0_2epochs_10iters",
        "nnUNetTrainerLS_alpha0.3_2epochs_5iters",
        "nnUNetTrainerGILS_alpha0.2_T3_2epochs_5iters",
        "nnUNetTrainerGILS_2epochs_5iters",
        "nnUNetTrainerDRO_beta0_2epochs_20iters",
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
