"""The command with trainings that take no time: what becomes of a study."""

import errno
import json
import os
import re
import shutil
import signal
import sqlite3
import time
from pathlib import Path

import optuna
import pandas as pd
import pytest

from nnunet_dro import progress_bar
from nnunet_dro.tuning import study as study_module
from nnunet_dro.tuning.storage import closing, open_storage
from tests.commands import done, refused, run
from tests.kept.folders import VERSION_0_2
from tests.nnunet_project import server
from tests.processes import gone
from tests.trainers.draws import largest_file
from tests.trainers.earlier import write_checkpoint, write_training_of_0_3
from tests.tuning.conftest import BETA, NAME


def test_study_ends_with_the_best_trainer_on_a_line(fake, tune):
    result = tune(*BETA, "--trials", "6", "--objective", "mean by centre worst")
    trials = fake.trials()

    assert trials["state"].tolist() == ["complete"] * 6

    best = trials.loc[trials["value"].idxmax()]
    assert result.stdout.splitlines()[-1] == best["trainer"]
    assert fake.calls == trials["trainer"].tolist()

    # In centre b half of the k voxels are found: Dice 2 (k/2) / (100 + k/2), the worst.
    for row in trials.to_dict("records"):
        n_found = round(100 - abs(row["beta"] - 50)) // 2
        assert row["value"] == pytest.approx(2 * n_found / (100 + n_found))
        # The first trial has the default, which names leave out.
        option = f"_beta{row['beta']:g}" if row["number"] else ""
        assert row["trainer"] == f"nnUNetTrainerHWS{option}_4epochs"
        assert row["epochs"] == 4
    assert len(result.stderr.splitlines()) == 6, "one line per trial where there is no terminal"


def test_progress_of_a_trial_is_shown_where_there_is_no_terminal(fake, tune, monkeypatch):
    monkeypatch.setattr(progress_bar, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setenv("FAKE", json.dumps({"seconds": 0.3}))
    result = tune(*BETA, "--trials", "1")
    shown = [line for line in result.stderr.splitlines() if " left" in line]

    title = r"trial 0 nnUNetTrainerHWS_4epochs( \(pseudo Dice 0\.500\))?"
    of_epochs = re.compile(rf"{title}, epochs: [123] of 4, about \d+ min left")
    # Validation is over in a moment, and only a slow machine sees it half done.
    of_validation = re.compile(rf"{title}, validation cases: \d of \d, about \d+ min left")

    assert any(of_epochs.fullmatch(line) for line in shown), shown
    assert all(of_epochs.fullmatch(line) or of_validation.fullmatch(line) for line in shown), shown


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_sampler_finds_better_options_than_chance(fake, tune, sampler):
    tune(*BETA, "--trials", "14", "--sampler", sampler, "--no-pruning")
    # Dice falls on both sides of beta 50; 14 draws at random are on average 3 away.
    best = fake.trials().sort_values("value")["beta"].iloc[-1]

    assert abs(best - 50) < 2.5


def test_constant_objective_and_words_alone_work(fake, tune):
    result = tune("--option", "chi2", "--option", "hardCE", "--trials", "14")
    trials = fake.trials()

    assert trials["value"].nunique() == 1
    assert len(fake.calls) == len(set(fake.calls)) == 4, (
        "every combination is trained once, and then the study ends"
    )
    assert fake.calls == trials["trainer"].tolist(), "no trial is spent on a name that has a result"
    assert "No other combination was found in 500 draws; the search ends." in result.stderr


def test_same_command_goes_on_to_more_trials(fake, tune):
    tune(*BETA, "--trials", "2")
    before = fake.trials()
    result = tune(*BETA, "--trials", "5")

    trials = fake.trials()

    assert len(trials) == 5
    assert trials.head(2).equals(before)
    assert trials["beta"].nunique() == 5, "the second start does not draw what the first has drawn"

    again = tune(*BETA, "--trials", "5")
    assert len(fake.calls) == 5
    assert again.stdout == result.stdout


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--option", "beta:10:90"), "options"),
        ((*BETA, "--objective", "p10"), "objective"),
        ((*BETA, "-p", "nnUNetPlansOther"), "plans"),
    ],
)
def test_study_about_something_else_is_refused(fake, tune, options, what):
    (fake.preprocessed / "nnUNetPlansOther.json").write_text(
        (fake.preprocessed / "nnUNetPlans.json").read_text()
    )
    storage = ("--storage", f"sqlite:///{fake.root / 'shared.db'}", "--study", "mine")
    tune(*BETA, *storage, "--trials", "1")
    refused(
        tune(*options, *storage, "--trials", "2", code=2),
        f"`--study` must be about the same {what}",
        "for 'mine'",
    )
    tune(*options, "--trials", "1", "--study", "another")


#: A trainer whose name stood for another rule before this version.
DRO = ("--trainer", "DRO", "--option", "warmup:0:3")


def test_study_of_another_version_s_rule_is_refused(fake, tune, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr("nnunet_dro.tuning.session.default_rule", lambda options: None)
        tune(*DRO, "--trials", "1")
    refused(
        tune(*DRO, "--trials", "2", code=2),
        "`--study` must be about the same rule, got 'hardest0.2_rare8'",
        "which was made with 'that of another version'. Name another study with --study.",
    )
    tune(*DRO, "--trials", "2", "--study", "new")
    tune(*DRO, "--trials", "3", "--study", "new")


def test_training_by_another_version_s_rule_is_no_trial(fake, tune):
    trainer = "nnUNetTrainerDRO_4epochs"
    fold = fake.results / f"{trainer}__nnUNetPlans__2d" / "fold_0"
    write_training_of_0_3(fold)
    (fold / "validation").mkdir()
    (fold / "validation" / "summary.json").write_text("{}")

    result = tune(*DRO, "--trials", "1")

    assert "begun with what the name nnUNetTrainerDRO_earned0.5 stands for" in result.stderr
    assert trainer not in fake.calls
    assert fake.trials("DRO_4epochs__nnUNetPlans__2d__fold_0")["state"].tolist() == [
        "failed",
        "complete",
    ]


def test_study_of_other_validation_cases_is_refused(fake, tune):
    splits = fake.preprocessed / "splits_final.json"
    before = splits.rename(splits.with_suffix(".before"))
    tune(*BETA, "--trials", "1", code=2)  # the fake training does not divide cases
    before.rename(splits)
    tune(*BETA, "--trials", "1")

    splits.write_text(json.dumps([{"train": ["a2", "b1", "b2", "b3"], "val": ["a1", "a3"]}]))

    refused(
        tune(*BETA, "--trials", "2", code=2),
        f"`--study` must be about the same validation cases, got 'a1 a3' for '{NAME}'",
        "which was made with 'a1 a2 b1 b2'. Name another study with --study.",
    )


def test_study_of_other_strata_is_refused(fake, tune):
    table = fake.root / "raw" / fake.preprocessed.name / "cases.csv"
    by_centre = (*BETA, "--objective", "mean by centre worst")
    tune(*by_centre, "--trials", "1")
    table.write_text(table.read_text().replace("b1,b", "b1,a"))

    refused(
        tune(*by_centre, "--trials", "2", code=2),
        "`--study` must be about the same strata, got 'a1=a a2=a b1=a b2=b'",
        "which was made with 'a1=a a2=a b1=b b2=b'. Name another study with --study.",
    )
    tune(*BETA, "--trials", "1", "--study", "of all cases together")


def test_study_of_other_strata_is_refused_on_all_cases(fake):
    table = fake.root / "raw" / fake.preprocessed.name / "cases.csv"
    options = (*BETA, "--objective", "mean by centre worst", "--trials", "1")
    words = fake.arguments(*options)
    words[3] = "all"
    done(run(*words))
    table.write_text(table.read_text().replace("b1,b", "b1,a"))

    refused(run(*words), "`--study` must be about the same strata, got 'a1=a a2=a a3=a b1=a")


def test_training_with_cases_that_are_validated_now_is_no_trial(fake, tune):
    fold = fake.results / "nnUNetTrainerHWS_4epochs__nnUNetPlans__2d" / "fold_0"
    (fold / "validation").mkdir(parents=True)
    (fold / "validation" / "summary.json").write_text("{}")
    write_checkpoint(fold, {"table": {"cases": ["a1@0,1,0", "a3", "b1@1,0,0", "b3"]}})

    result = tune(*BETA, "--trials", "1")

    assert f"that the training in '{fold}' was given, got a1, b1: it was begun" in result.stderr
    assert fake.trials()["state"].tolist() == ["failed", "complete"]


def test_study_that_is_not_ours_is_refused(fake, tune, tmp_path):
    url = f"sqlite:///{tmp_path / 'other.db'}"
    with closing(optuna.storages.RDBStorage(url)) as storage:
        other = optuna.create_study(storage=storage, study_name="mine", direction="maximize")
        other.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    result = tune(*BETA, "--storage", url, "--study", "mine", code=2)

    refused(result, "must have been made by `nnunet-dro tune`, got 'mine'")

    assert not fake.calls


def test_file_or_url_that_is_no_study_is_refused_without_its_password(fake, tune):
    folder = fake.results / "tuning" / NAME
    folder.mkdir(parents=True)
    (folder / "study.db").write_text("This is a diary, and no database of anything at all.")
    refused(tune(*BETA, code=2), "file is not a database", "name another with --study")
    result = tune(*BETA, "--storage", "nodatabase://me:secret@host/db", code=2)

    refused(result, "nodatabase")

    assert "secret" not in result.stderr


def test_a_full_disk_is_no_reason_to_remove_a_study(tmp_path):
    with largest_file(0), pytest.raises(ValueError, match="See that its disk has room"):
        open_storage(None, tmp_path)


def test_failed_trials_have_their_reason_and_the_study_goes_on(fake, tune, monkeypatch):
    # Every second name or so.
    monkeypatch.setenv("FAKE", json.dumps({"crash": [f"beta{n}" for n in range(10, 100, 2)]}))
    monkeypatch.setattr(study_module, "_FIRST_FAILURES", 50)
    result = tune(*BETA, "--trials", "4")
    trials = fake.trials()

    failed = trials[trials["state"] == "failed"]

    assert len(trials[trials["state"] == "complete"]) == 4
    assert len(failed) > 0
    assert failed["reason"].str.contains("CUDA out of memory").all()

    number = failed["number"].iloc[0]
    assert f"trial {number}: failed nnUNetTrainerHWS_beta" in result.stderr
    assert f"logs/trial_{number:04d}.txt" in failed["reason"].iloc[0]


def test_three_failures_at_the_start_stop_with_one_line(fake, tune, monkeypatch):
    monkeypatch.setenv("FAKE", json.dumps({"crash": ["HWS"]}))
    result = tune(*BETA, code=2)

    assert len(fake.calls) == 3

    last = result.stderr.splitlines()[-1]
    assert "none of the first 3 trials: nnUNetv2_train ended with exit code 1" in last
    assert last.endswith("trial_0002.txt.")
    assert fake.trials()["state"].tolist() == ["failed"] * 3


def test_predictions_that_cannot_be_evaluated_fail_their_trial(fake, tune):
    (fake.preprocessed / "gt_segmentations" / "a1.nii").write_bytes(b"damaged")
    tune(*BETA, code=2)

    assert fake.trials()["reason"].str.contains("a1.nii").all()


def test_refused_names_are_no_failures_of_the_machine(fake, tune):
    tune("--option", "chi2", "--option", "noIS", "--option", "exactIS", "--trials", "8")
    trials = fake.trials()

    failed = trials[trials["state"] == "failed"]

    assert len(failed) > 0
    assert failed["reason"].str.contains("has no effect with").all()
    assert (failed["trainer"] == "").all()
    assert not (failed["epochs"] > 0).any()


@pytest.mark.parametrize("objective", ["mean", "mean of hd95"])
def test_training_below_the_median_is_stopped(fake, tune, monkeypatch, objective):
    monkeypatch.setenv("FAKE", json.dumps({"usual": 5}))
    tune(
        *BETA,
        "--trials",
        "9",
        "--sampler",
        "tpe",
        "--seed",
        "1",
        "--objective",
        objective,
        "--pruning",
    )
    trials = fake.trials()

    pruned, complete = (trials[trials["state"] == state] for state in ("pruned", "complete"))

    assert len(pruned) + len(complete) == 9
    assert len(pruned) > 0
    assert (pruned["number"] >= 5).all(), "the first five show what is usual"
    assert (pruned["epochs"] < 4).all()
    assert pruned["pseudo_dice"].max() < complete["pseudo_dice"].median()

    for trainer in pruned["trainer"]:
        folder = fake.results / f"{trainer}__nnUNetPlans__2d" / "fold_0"
        assert not (folder / "checkpoint_final.pth").exists()


def start(fake, *options, **behaviour):
    """Start the command in a process of its own; what it prints is in two files of the root."""
    return server(fake.root).start(
        *("python", "-m", "tests.tuning.driver", str(fake.program), *fake.arguments(*options)),
        environment={**os.environ, **fake.environment(**behaviour)},
        folder=Path(__file__).parents[2],
        files=(fake.root / "stdout", fake.root / "stderr"),
    )


def hanging(fake, process):
    """The numbers of the training that hangs, and of its worker."""
    for _ in range(6000):
        for path in fake.results.glob("*/fold_0/pids.txt"):
            if len(pids := path.read_text().split()) == 2:
                return pids
        assert process.poll() is None, (fake.root / "stderr").read_text()
        time.sleep(0.05)
    raise AssertionError("nothing was trained")


def kill_a_hanging(fake, *options):
    process = start(fake, *BETA, *options, hang=["HWS"])
    pids = hanging(fake, process)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert gone(pids), "the training and its worker end with the command"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads /proc")
def test_interrupt_ends_the_training_and_queues_its_trial(fake, tune, number):
    process = start(fake, *BETA, "--trials", "2", hang=["HWS"])
    pids = hanging(fake, process)
    os.kill(process.pid, number)
    code = process.wait()

    stdout, stderr = ((fake.root / name).read_text() for name in ("stdout", "stderr"))

    assert code == 130, stderr
    assert stderr.splitlines()[-1] == "nnunet-dro: interrupted"
    assert gone(pids)

    trials = fake.trials()
    assert trials["state"].tolist() == ["failed", "waiting"]
    assert trials["reason"].tolist() == ["interrupted", ""]
    assert "trials.csv" in stdout
    assert (fake.results / "tuning" / NAME / "study.html").exists()

    tune(*BETA, "--trials", "1")
    trials = fake.trials()

    assert trials["state"].tolist() == ["failed", "complete"]

    name = trials["trainer"].iloc[0]
    assert fake.calls == [name, f"{name} --c"], "the same training goes on"


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads /proc")
def test_trial_of_a_killed_start_is_failed_and_goes_on(fake, tune):
    kill_a_hanging(fake, "--trials", "2")
    result = tune(*BETA, "--trials", "1")

    trials = fake.trials()

    assert trials["state"].tolist() == ["failed", "complete"]
    assert trials["reason"].tolist() == ["killed", ""]
    assert trials["minutes"].eq("").all(), "nobody knows when it was killed"
    assert trials["trainer"].nunique() == 1
    assert "trial 0: was killed; it continues where it stopped." in result.stderr


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads /proc")
def test_two_starts_at_once_need_a_shared_database(fake, tune):
    process = start(fake, *BETA, "--trials", "2", hang=["HWS"])
    hanging(fake, process)
    result = tune(*BETA, "--trials", "2", code=2)
    os.kill(process.pid, signal.SIGINT)

    assert process.wait() == 130
    assert "must be tuned by one process at a time" in result.stderr
    assert fake.trials()["state"].tolist() == ["failed", "waiting"], (
        "the one that was running is not disturbed"
    )


def test_file_system_without_locks_does_not_stop_a_study(fake, tune, monkeypatch):
    def refuse(self, **options):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("nnunet_dro.tuning.storage.FileLock.acquire", refuse)
    tune(*BETA, "--trials", "1")


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads /proc")
def test_dead_machine_s_trial_is_begun_again_by_another(fake, tune, tmp_path):
    database = tmp_path / "shared.db"
    storage = ("--storage", f"sqlite:///{database}", "--study", "shared")
    kill_a_hanging(fake, *storage, "--trials", "1")
    too_early = tune(*BETA, *storage, "--trials", "1")
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE trial_heartbeats SET heartbeat = datetime('now', '-1 hour')")
    connection.close()

    tune(*BETA, *storage, "--trials", "1")

    assert "1 running elsewhere" in too_early.stderr

    trials = fake.trials("shared")
    assert trials["state"].tolist() == ["failed", "complete"]
    assert trials["reason"].tolist() == ["no sign of life", ""]

    name = trials["trainer"].iloc[0]
    assert fake.calls == [name, f"{name} --c"]


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="reads /proc")
def test_same_name_is_not_trained_on_two_machines_at_once(fake, tune, tmp_path):
    storage = ("--storage", f"sqlite:///{tmp_path / 'shared.db'}", "--study", "shared")
    word = ("--option", "chi2", "--trials", "4", *storage)
    process = start(fake, *word, seconds=0.5)
    tune(*word)

    assert process.wait() == 0
    assert len(fake.calls) == len(set(fake.calls)) <= 2

    trials = fake.trials("shared")
    assert sorted(trials.query("state == 'complete'")["trainer"]) == sorted(fake.calls)
    assert set(trials.query("state == 'failed'")["reason"]) <= {"an earlier trial trains the same"}


KEPT = VERSION_0_2 / "study"


def test_a_study_of_version_0_2_goes_on_to_more_trials(fake, tune):
    shutil.copytree(KEPT, fake.results / "tuning" / NAME)
    tune("--option", "beta:10:100", "--trials", "4", "--objective", "mean by centre worst")
    kept = pd.read_csv(KEPT / "trials.csv", keep_default_na=False)

    trials = fake.trials()

    assert trials["state"].tolist() == ["complete"] * 7, (
        "three of the search, three repetitions, and a new one"
    )

    columns = ["value", "beta", "trainer", "repeat_of", "pseudo_dice"]
    pd.testing.assert_frame_equal(trials.head(6)[columns], kept[columns])
    assert fake.calls == trials["trainer"].tolist()[6:], "what is finished is not trained again"
