import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from nnunetv2.run.run_training import maybe_load_checkpoint
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.trainers.checkpoint import (
    Source,
    check_resumed,
    recorded_options,
    state_in,
    trained_cases,
)
from nnunet_dro.trainers.options import DROOptions, GILSOptions, HWSOptions
from nnunet_dro.trainers.registry import parse_trainer_name, trained_with
from tests.trainers.draws import largest_file, log_of
from tests.trainers.earlier import options_of_0_3

NAME = "nnUNetTrainerHWS_beta10"


@pytest.fixture
def trained(start):
    """A trainer that has made a step, and the path of its checkpoint."""
    trainer, loader = start(NAME)
    trainer.train_step(next(loader))
    return trainer, os.path.join(trainer.output_folder, "checkpoint_latest.pth")


@pytest.fixture
def plain(make_trainer):
    """nnU-Net's own trainer, and the path of its checkpoint."""
    trainer = make_trainer(nnUNetTrainer)
    trainer.initialize()
    path = os.path.join(trainer.output_folder, "checkpoint_final.pth")
    trainer.save_checkpoint(path)
    return trainer, path


def test_checkpoints_are_nnunets_and_keep_the_table(trained, plain, make_trainer):
    trainer, path = trained
    trainer.save_checkpoint(path)

    mine, theirs = (torch.load(p, weights_only=False) for p in (path, plain[1]))

    assert mine.keys() == theirs.keys()
    assert mine["trainer_name"] == NAME
    assert set(mine["logging"]) - set(theirs["logging"]) == {"nnunet_dro"}

    resumed = make_trainer(NAME)
    resumed.load_checkpoint(plain[1])
    resumed.get_dataloaders()

    assert resumed.hardness_log.table.n_unseen == 8

    # `--val` never makes data loaders; saving again must not lose what was loaded.
    resumed = make_trainer(NAME)
    resumed.load_checkpoint(path)
    resumed.save_checkpoint(path)
    state = torch.load(path, weights_only=False)["logging"]["nnunet_dro"]

    np.testing.assert_array_equal(state["table"]["losses"], trainer.hardness_log.table.losses)


def test_validation_cases_that_were_trained_on_are_named(trained, make_trainer, monkeypatch):
    trainer, path = trained
    trainer.save_checkpoint(path)
    cases = trainer.hardness_log.table.cases
    # A fold may validate on a case that it trains on; nnU-Net warns of those.
    splits = [{"train": list(cases[2:]), "val": [*cases[:3], "case_00"]}]
    monkeypatch.setattr("nnunet_dro.nnunet.splits_file.read_json", lambda path: splits)
    monkeypatch.setattr(nnUNetTrainer, "perform_actual_validation", lambda *_: None)

    resumed = make_trainer(NAME)
    resumed.perform_actual_validation()
    assert "WARNING" not in log_of(resumed)

    resumed.load_checkpoint(path)
    resumed.perform_actual_validation()

    named = f"2 of the 3 cases that fold 0 validates on now ({cases[0]}, {cases[1]})"
    assert f"trained on {named}. Its validation scores will be too good." in log_of(resumed)


def test_cases_of_all_earlier_folds_are_remembered(trained, make_trainer, monkeypatch):
    trainer, path = trained
    trainer.save_checkpoint(path)
    cases = list(trainer.hardness_log.table.cases)

    for n in (2, 4):
        monkeypatch.setattr(nnUNetTrainer, "do_split", lambda _, n=n: (cases[n:], cases[:n]))
        trainer = make_trainer(NAME)
        trainer.load_checkpoint(path)
        trainer.get_dataloaders()
        trainer.save_checkpoint(path)

    assert list(trainer.hardness_log.table.cases) == cases[4:]
    assert trained_cases(state_in(torch.load(path, weights_only=False))) == set(cases)


@pytest.mark.parametrize("limit", [0, 20_000])
def test_full_disk_keeps_the_checkpoint_before_and_says_so(trained, limit):
    trainer, path = trained
    trainer.save_checkpoint(path)
    before = Path(path).read_bytes()

    with (
        largest_file(limit),
        pytest.raises(OSError, match=f"checkpoint {re.escape(path)}: .* continue with --c"),
    ):
        trainer.save_checkpoint(path)
    assert Path(path).read_bytes() == before
    assert set(os.listdir(trainer.output_folder)) == {
        "checkpoint_latest.pth",
        os.path.basename(trainer.log_file),
    }


def test_neither_other_ranks_nor_disabled_checkpointing_write(trained):
    trainer, path = trained
    trainer.disable_checkpointing = True

    trainer.save_checkpoint(path)

    assert os.listdir(trainer.output_folder) == [os.path.basename(trainer.log_file)]

    partial = Path(path.replace(".pth", ".partial.pth"))
    partial.write_text("half a checkpoint")
    trainer.disable_checkpointing, trainer.local_rank = False, 1
    trainer.save_checkpoint(path)

    assert partial.exists()
    assert not os.path.exists(path)


def test_an_unfinished_training_after_a_finished_one_is_not_passed_over(trained, make_trainer):
    trainer, path = trained
    finished = path.replace("latest", "final")
    trainer.save_checkpoint(finished)
    os.utime(finished, (1, 1))  # two files of one moment may have the same time
    trainer.save_checkpoint(path)
    resumed = make_trainer(NAME)
    resumed.load_checkpoint(finished)

    # As `--c` does, which looks for checkpoint_final.pth first.
    with pytest.raises(ValueError, match=r"Remove checkpoint_final.pth to go on with the later"):
        resumed.on_train_start()

    # A training that was killed between its last two steps is finished.
    os.utime(path, (0, 0))
    resumed.beginning.check()


def test_a_later_training_with_only_a_best_checkpoint_is_not_passed_over(trained, make_trainer):
    trainer, path = trained
    finished, best = (path.replace("latest", name) for name in ("final", "best"))
    trainer.logger.log("epoch_start_timestamps", 1.0, 0)
    trainer.save_checkpoint(finished)
    trainer.save_checkpoint(best)
    resumed = make_trainer(NAME)
    resumed.load_checkpoint(finished)
    resumed.beginning.check()  # copies may be newer in any order

    trainer.logger.log("epoch_start_timestamps", 2.0, 0)
    trainer.save_checkpoint(best)
    with pytest.raises(ValueError, match=r"checkpoint_best.pth is of it.* Move checkpoint_final"):
        resumed.beginning.check()

    # A new training writes its best epoch before its last.
    os.utime(best, (0, 0))
    resumed.beginning.check()


_SAVE_FOREVER = """
import sys, torch
from nnunet_dro.files.output_folder import replacing
weights = torch.zeros(2_000_000)
for i in range(10**6):
    with replacing(sys.argv[1]) as partial:
        torch.save({"i": i, "weights": weights + i}, partial)
    print(i, flush=True)
"""


def test_a_kill_during_a_save_leaves_a_checkpoint_that_loads(tmp_path):
    path = tmp_path / "checkpoint_latest.pth"
    rng = np.random.default_rng(0)
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", _SAVE_FOREVER, str(path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0.0, 0.3))
            process.kill()
        checkpoint = torch.load(path)
        assert (checkpoint["weights"] == checkpoint["i"]).all()


def test_pretrained_weights_are_taken_but_for_the_heads(make_trainer, plain):
    """As ``nnUNetv2_train -pretrained_weights`` does it, from a plain training."""
    trainer = make_trainer("nnUNetTrainerDRO")
    maybe_load_checkpoint(
        trainer, continue_training=False, validation_only=False, pretrained_weights_file=plain[1]
    )
    theirs = plain[0].network.state_dict()

    different = {
        name
        for name, value in trainer.network.state_dict().items()
        if not torch.equal(value, theirs[name])
    }

    assert different
    assert all(".seg_layers." in name for name in different)

    trainer.on_train_start()
    table = trainer.hardness_log.table

    assert table.n_unseen == len(table)

    trainer.train_step(next(trainer.dataloader_train))
    assert table.n_unseen < len(table)


# Options


def options_of(name):
    return parse_trainer_name(f"nnUNetTrainer{name}")[1]


@pytest.mark.parametrize(
    "name", ["DRO", "DRO_beta10_IS", "HWS", "IW_centre", "L2RW", "GILS_T2", "GroupDRO_site"]
)
def test_a_training_goes_on_under_its_own_name_and_another_length(name):
    recorded = recorded_options(options_of(name))
    check_resumed(options_of(name), recorded, trainer=f"nnUNetTrainer{name}")
    check_resumed(options_of(f"{name}_20epochs"), recorded, trainer=f"nnUNetTrainer{name}_20epochs")


@pytest.mark.parametrize(
    "name", ["DRO_share0.5", "DRO_earned0.3", "DRO_beta10", "DRO_cvar0.1", "DRO_IS", "DRO_sub2x2x1"]
)
def test_a_default_that_has_no_effect_may_change(name):
    recorded = recorded_options(options_of(name))
    recorded["values"]["rare"] = 6.0

    check_resumed(options_of(name), recorded, trainer="MyTrainer")
    with pytest.raises(ValueError, match=r"with -tr nnUNetTrainerDRO_\w+[\d.]* --c\."):
        check_resumed(DROOptions(), recorded, trainer="nnUNetTrainerDRO")


# Recorded options, what was other than it is by default, those of now, and what is said.
@pytest.mark.parametrize(
    ("before", "changes", "now", "trainer", "message"),
    [
        (
            HWSOptions(beta=10.0, epochs=20),
            {},
            DROOptions(beta=10.0, epochs=20),
            "HWS",
            r"nnUNetTrainerHWS_beta10_20epochs --c\.",
        ),
        # A default that has changed since.
        (
            DROOptions(),
            {"share": 0.25, "hardness": "loss"},
            DROOptions(),
            "DRO",
            r"nnUNetTrainerDRO_share0\.25_hardLoss ",
        ),
        (GILSOptions(), {"step_size": 7.0}, GILSOptions(), "GILS", r"step_size 7\.0"),
    ],
)
def test_a_training_of_other_options_stops_with_what_to_use(before, changes, now, trainer, message):
    recorded = recorded_options(before)
    recorded["values"] |= changes

    with pytest.raises(ValueError, match=message):
        check_resumed(now, recorded, trainer=f"nnUNetTrainer{trainer}")
    with pytest.raises(ValueError, match=r"other options: .*Give it these\."):
        check_resumed(now, recorded, trainer="MyTrainer")


@pytest.mark.parametrize(
    ("changes", "lacking", "now", "name"),
    [
        ({}, (), "DRO", "DRO_earned0.5"),
        ({"earned": 0.3}, (), "DRO", "DRO_earned0.3"),
        ({"importance_sampling": True}, (), "DRO", "DRO_IS"),
        ({"share": 0.5}, (), "DRO", "DRO_share0.5"),
        ({"beta": 10.0}, (), "DRO", "DRO_beta10"),
        # The default of version 0.2, which had a fixed share.
        ({"share": 0.5}, ("earned",), "DRO", "DRO_share0.5"),
    ],
)
def test_a_training_of_an_earlier_version_goes_on_by_the_name_of_the_error(
    changes, lacking, now, name
):
    recorded = options_of_0_3(**changes)
    for option in lacking:
        del recorded["values"][option]

    with pytest.raises(
        ValueError, match=rf"continue with -tr nnUNetTrainer{re.escape(name)} --c\."
    ):
        check_resumed(options_of(now), recorded, trainer=f"nnUNetTrainer{now}")

    check_resumed(options_of(name), recorded, trainer=f"nnUNetTrainer{name}")

    checkpoint = {
        "trainer_name": f"nnUNetTrainer{now}",
        "logging": {"nnunet_dro": {"options": recorded}},
    }
    assert trained_with(checkpoint) == f"nnUNetTrainer{name}"


@pytest.mark.parametrize("name", ["nnUNetTrainer", "nnUNetTrainerDRO", "nnUNetTrainerIW_site"])
def test_a_checkpoint_without_options_has_the_trainer_of_its_name(name):
    assert trained_with({"trainer_name": name}) == name


def test_a_source_says_its_epochs_where_it_knows_them():
    trained = Source("nnUNetTrainer", "a.pth", 2, "")

    assert str(trained) == "nnUNetTrainer after 2 epochs (a.pth)"
    assert str(replace(trained, epochs=None)) == "nnUNetTrainer (a.pth)", "a shared model"
