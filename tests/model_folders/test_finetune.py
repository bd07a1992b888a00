"""Finetuning: what it starts from, how it goes on, and what it refuses."""

import json
import shutil
from dataclasses import replace
from inspect import signature
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from batchgenerators.utilities.file_and_folder_operations import load_json
from nnunetv2.run.run_training import get_trainer_from_args, maybe_load_checkpoint

from nnunet_dro.model_folders.finetuning import (
    finetuning_trainer,
    is_started,
    write_first_checkpoint,
)
from nnunet_dro.model_folders.source_model import find_source, read_source
from nnunet_dro.nnunet.folders import first_checkpoint
from nnunet_dro.nnunet.splits_file import cases_of_source
from nnunet_dro.nnunet.training import Target, find_target
from nnunet_dro.trainers.checkpoint import Source, digest_of, state_in
from tests.commands import done, refused, run
from tests.kept.folders import VERSION_0_2

#: A finished training of the project in 2d_small, whose network is nnU-Net's.
KEPT = VERSION_0_2 / "trainings" / "nnUNetTrainerGILS_T1_2epochs_4iters"
TRAINER = "nnUNetTrainerDRO_beta10_lr0.002_3epochs_3iters"


class StopError(Exception):
    pass


@pytest.fixture
def target(project):
    here = project("labels")
    yield find_target(str(here.dataset_id), "2d_small", "0", plans="nnUNetPlans")
    for folder in here.fold_folder("*", "*").parents[2].glob(f"{here.dataset}/*"):
        shutil.rmtree(folder)


@pytest.fixture
def source(target):
    """The kept training, where nnU-Net would have put it."""
    folder = target.fold_folder(KEPT.name)
    # Another file's tests may have put it there.
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(KEPT, folder)
    return folder / "checkpoint_final.pth"


def continued(target, trainer):
    """The trainer as ``nnUNetv2_train --c`` has it before it trains."""
    # nnU-Net 2.6 does not tell the trainer.
    told = (
        {"continue_training": True}
        if "continue_training" in signature(get_trainer_from_args).parameters
        else {}
    )
    words = (target.dataset, target.configuration, int(target.fold), trainer, target.plans)
    made = get_trainer_from_args(*words, **told, device=torch.device("cpu"))
    maybe_load_checkpoint(made, True, False)
    return made


def log_of(trainer):
    return Path(trainer.log_file).read_text()


def finetune(target, source, *words):
    return run(
        "finetune",
        target.dataset,
        "2d_small",
        target.fold,
        "--from",
        source,
        "--trainer",
        TRAINER,
        *words,
    )


def edit(checkpoint, change):
    content = torch.load(checkpoint, weights_only=False)
    change(content)
    torch.save(content, checkpoint)


def test_it_starts_with_all_weights_and_the_schedule_of_its_name(
    target, source, tmp_path, monkeypatch
):
    (tmp_path / KEPT.name).mkdir()
    monkeypatch.chdir(tmp_path)  # a folder of predictions may have the trainer's name
    model = read_source(find_source(KEPT.name, target))

    path = write_first_checkpoint(target, TRAINER, model, device="cpu")

    assert [file.name for file in path.parent.iterdir()] == ["checkpoint_best.pth"], (
        "and no log of a training"
    )

    trainer = continued(target, TRAINER)
    weights = torch.load(source, weights_only=False)["network_weights"]

    assert any("seg_layers" in name for name in weights)
    for name, values in trainer.network.state_dict().items():
        assert torch.equal(values, weights[name]), name
    assert (trainer.current_epoch, trainer.num_epochs, trainer._best_ema) == (0, 3, None)
    assert not trainer.optimizer.state_dict()["state"], "no momentum of another training"
    assert trainer.my_init_kwargs["configuration"] == "2d_small"


def test_one_pass_fills_the_stale_losses_unless_training_is_plain(target, source):
    write_first_checkpoint(target, TRAINER, read_source(source), device="cpu")
    trainer = continued(target, TRAINER)
    before = digest_of(trainer.network.state_dict())
    trainer.on_train_start()

    table = trainer.hardness_log.table

    assert table.n_unseen == 0
    assert np.isfinite(table.losses).all()
    assert trainer.hardness_log._draws.sum() == 0, "no draws of the training"
    assert digest_of(trainer.network.state_dict()) == before
    assert all(parameter.grad is None for parameter in trainer.network.parameters())
    assert table.probabilities() @ table.losses > table.losses.mean(), (
        "hard cases come first, from the first batch on"
    )
    assert f"This training was started from {KEPT.name} after 2 epochs" in log_of(trainer)
    assert "One pass without gradient gives the 8 cases their stale losses." in log_of(trainer)

    trainer = "nnUNetTrainerDRO_beta0_lr0.002_3epochs_3iters"
    write_first_checkpoint(target, trainer, read_source(source), device="cpu")
    started = continued(target, trainer)
    started.on_train_start()

    assert started.hardness_log.table.n_unseen == 8
    assert "One pass" not in log_of(started)


def test_a_stopped_finetuning_goes_on_with_its_losses_and_learning_rate(target, source):
    write_first_checkpoint(target, TRAINER, read_source(source), device="cpu")
    trainer = continued(target, TRAINER)
    start = trainer.on_epoch_start

    def stop():
        if trainer.current_epoch == 2:
            raise StopError
        start()

    trainer.on_epoch_start = stop

    with pytest.raises(StopError):
        trainer.run_training()

    resumed = continued(target, TRAINER)
    assert resumed.current_epoch == 2

    resumed.run_training()

    assert "One pass" not in log_of(resumed)
    assert f"This training was started from {KEPT.name}" in log_of(resumed)

    folder = target.fold_folder(TRAINER)
    rates = torch.load(folder / "checkpoint_final.pth", weights_only=False)["logging"]["lrs"]

    assert rates == pytest.approx([0.002 * (1 - epoch / 3) ** 0.9 for epoch in range(3)])

    hardness = pd.read_csv(folder / "hardness.csv")
    assert hardness.groupby("epoch")["draws"].sum().tolist() == [3 * 6] * 3
    assert hardness["loss"].notna().all()
    assert is_started(target, TRAINER, read_source(source)), "the last checkpoint knows the source"


@pytest.mark.parametrize(
    ("trainer", "numbers", "name"),
    [
        ("nnUNetTrainerDRO_beta10_50epochs", {}, "nnUNetTrainerDRO_beta10_50epochs"),
        ("DRO_cvar0.1", {}, "nnUNetTrainerDRO_cvar0.1_100epochs"),
        ("DRO_beta0_lr0.003", {"epochs": 20}, "nnUNetTrainerDRO_beta0_lr0.003_20epochs"),
        (
            "GroupDRO_centre",
            {"learning_rate": 0.001, "epochs": 1000},
            "nnUNetTrainerGroupDRO_centre_lr0.001",
        ),
    ],
)
def test_the_schedule_is_in_the_name(trainer, numbers, name):
    assert finetuning_trainer(trainer, **numbers) == name


@pytest.mark.parametrize(
    ("trainer", "numbers", "message"),
    [
        ("nnUNetTrainer_50epochs", {}, "nnUNetTrainerDRO_beta0 is plain training"),
        ("DRO_50epochs", {"epochs": 20}, "got 'DRO_50epochs' with 50. Give one of them"),
        ("DRO", {"learning_rate": -1.0}, "`lr` must be a number > 0"),
        ("DRO_50epochs_beta10", {}, "must be written"),
    ],
)
def test_a_name_that_does_not_do_is_refused(trainer, numbers, message):
    with pytest.raises(ValueError, match=message):
        finetuning_trainer(trainer, **numbers)


def test_a_training_that_is_not_finished_is_refused_with_those_that_are(target, source):
    there = f"got 'nnUNetTrainer'; {str(target.fold_folder('nnUNetTrainer'))!r} does not exist"
    line = refused(finetune(target, "nnUNetTrainer"), there)

    assert line.endswith(f"Trainers that have finished fold 0: {KEPT.name}.")

    source.rename(source.with_name("checkpoint_latest.pth"))
    refused(finetune(target, source.parent), "without checkpoint_final.pth. Finish that training")
    if not torch.cuda.is_available():
        refused(finetune(target, source, "--device", "cuda"), "finds no GPU. Use --device cpu.")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c["init_args"]["dataset_json"]["labels"].update(rim=3),
            "must have the labels of what is trained",
        ),
        (
            lambda c: c["init_args"]["dataset_json"].update(channel_names={"0": "CT"}),
            "must have the channel_names of",
        ),
        (
            lambda c: c["init_args"]["plans"]["configurations"]["2d"].update(spacing=[9.0, 9.0]),
            "the spacing of what",
        ),
        (
            lambda c: c["network_weights"].update({"decoder.seg_layers.0.bias": torch.zeros(5)}),
            "(decoder.seg_layers.0.bias has the shapes (5,) and (3,))",
        ),
        (lambda c: c.pop("init_args"), "must be a checkpoint of nnU-Net"),
    ],
)
def test_another_task_or_network_is_refused_and_nothing_is_left(target, source, change, message):
    edit(source, change)
    refused(finetune(target, source), message)

    assert not target.fold_folder(TRAINER).parent.exists()


def test_the_command_says_where_the_model_came_from_and_what_was_measured(
    target, source, monkeypatch
):
    devices = []
    monkeypatch.setattr(
        "nnunet_dro.nnunet.training.train", lambda *_, device, **__: devices.append(device)
    )
    first, second = (done(finetune(target, source)) for _ in range(2))

    begun = f"{TRAINER} from {KEPT.name} after 2 epochs ({source})"

    assert first.stdout.splitlines()[0] == f"Starting {begun}"

    log = (target.fold_folder(TRAINER) / "finetune.log").read_text()
    assert log == f"Starting {begun}\nContinuing {begun}\n"
    assert "whether rare cases gain from continuing a training is open" in first.stderr
    assert "rare cases gain" not in second.stderr, "once is enough"
    assert devices == ["cuda" if torch.cuda.is_available() else "cpu"] * 2, (
        "chosen as by the doctor"
    )


def test_damaged_splits_are_told_before_anything_is_written(target, source):
    splits = target.preprocessed / "splits_final.json"
    before = splits.read_text() if splits.exists() else None
    splits.write_text("[")

    try:
        refused(finetune(target, source), "`splits_final.json` must be a list of folds")
    finally:
        splits.unlink() if before is None else splits.write_text(before)

    assert not target.fold_folder(TRAINER).parent.exists()


def test_a_training_of_its_own_is_not_touched(target, source):
    folder = target.fold_folder(TRAINER)
    shutil.copytree(KEPT, folder)
    before = (folder / "checkpoint_final.pth").read_bytes()
    line = (
        "began with random weights. Give other --epochs or --learning-rate, or remove that folder."
    )

    refused(finetune(target, source), line)

    assert (folder / "checkpoint_final.pth").read_bytes() == before


def test_a_finetuning_from_another_model_is_not_continued(target, source):
    write_first_checkpoint(target, TRAINER, read_source(source), device="cpu")
    edit(source, lambda content: content["network_weights"]["decoder.seg_layers.0.bias"].add_(1))
    refused(finetune(target, source), f"was started from {KEPT.name} after 2 epochs")


def test_a_finetuning_with_other_options_under_its_name_is_not_continued(target, source):
    model = read_source(source)
    write_first_checkpoint(target, TRAINER, model, device="cpu")

    def other_beta(checkpoint):
        checkpoint["logging"]["nnunet_dro"]["options"]["values"]["beta"] = 20.0

    edit(first_checkpoint(target.fold_folder(TRAINER)), other_beta)
    with pytest.raises(ValueError, match="begun with what the name nnUNetTrainerDRO_beta20_"):
        is_started(target, TRAINER, model)


def test_a_finetuning_that_was_given_held_out_cases_is_not_continued(target, source, monkeypatch):
    model = read_source(source)
    write_first_checkpoint(target, TRAINER, model, device="cpu")

    def other_folds(checkpoint):
        checkpoint["logging"]["nnunet_dro"]["table"] = {"cases": ["case_00", "case_01"]}

    edit(first_checkpoint(target.fold_folder(TRAINER)), other_folds)
    monkeypatch.setattr(Target, "held_out_cases", lambda _: {"case_01", "case_02"})
    with pytest.raises(ValueError, match="was given, got case_01: it was begun with other folds"):
        is_started(target, TRAINER, model)


def test_the_source_says_which_validation_cases_it_has_seen(target, source, tmp_path):
    splits = [{"train": ["c", "d"], "val": ["a", "b"]}, {"train": ["a", "d"], "val": ["b", "c"]}]
    (tmp_path / "splits_final.json").write_text(json.dumps(splits))
    divided = replace(target, preprocessed=tmp_path)

    def seen_by(fold, *cases):
        model = replace(read_source(source), fold=fold, cases=cases)
        return model.seen_validation_cases(divided)

    assert [seen_by(fold) for fold in (0, 1, "all")] == [[], ["a"], ["a", "b"]]
    assert seen_by(0, "b", "c", "d") == ["b"], "with the folds as they were then"


def test_validation_cases_that_the_source_has_seen_are_named(target, source, monkeypatch):
    monkeypatch.setattr("nnunet_dro.nnunet.training.train", lambda *_, **__: None)
    monkeypatch.setattr(Target, "held_out_cases", lambda _: {"b", "case_02", "case_01"})
    named = "trained on 2 cases (case_01, case_02) that fold 0 validates on. Its validation"
    assert named in done(finetune(target, source)).stderr
    assert cases_of_source(target.fold_folder(TRAINER)) == {"case_01", "case_02"}


def test_a_source_has_the_same_digest_however_it_was_saved(target, source):
    plain = read_source(source)

    def wrap(content):
        weights = content["network_weights"]
        content["network_weights"] = {
            f"module._orig_mod.{name}": values for name, values in weights.items()
        }

    edit(source, wrap)

    assert read_source(source).source.digest == plain.source.digest


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["labels", "regions_ignore"])
def test_the_command_trains_validates_and_predicts(project, tmp_path, kind, request):
    """With nnU-Net's own commands: plain training, finetuning in 3d, prediction."""
    if kind == "regions_ignore":  # the other training begins with all of its imports
        request.getfixturevalue("forked")
    here = project(kind)
    plain = "nnUNetTrainerDRO_beta0_1epochs_3iters"
    finetuned = "nnUNetTrainerDRO_cvar0.3_1epochs_3iters"
    here.run("nnUNetv2_train", here.dataset_id, "3d_small", 0, "-tr", plain, "-device", "cpu")
    words = ("--from", plain, "--trainer", "DRO_cvar0.3_1epochs_3iters", "--device", "cpu")
    result = done(run("finetune", here.dataset_id, "3d_small", 0, *words))

    folder = here.fold_folder(finetuned, "3d_small")

    assert result.stdout.splitlines()[-1] == str(folder)
    assert (
        json.loads((folder / "validation" / "summary.json").read_text())["foreground_mean"]["Dice"]
        >= 0
    )
    assert (
        Source.in_state(
            state_in(torch.load(folder / "checkpoint_final.pth", weights_only=False))
        ).trainer
        == plain
    )
    assert load_json(str(folder.parent / "plans.json"))["plans_name"] == "nnUNetPlans"

    here.run(
        *(
            "nnUNetv2_predict",
            "-d",
            here.dataset_id,
            "-c",
            "3d_small",
            "-tr",
            finetuned,
            "-f",
            0,
            "-device",
            "cpu",
        ),
        *(
            "-i",
            here.raw / "imagesTs",
            "-o",
            tmp_path / "out",
            "--disable_tta",
            "-npp",
            0,
            "-nps",
            0,
        ),
    )
    assert (tmp_path / "out" / "test_00.nii.gz").is_file()
