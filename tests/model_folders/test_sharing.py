import json
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.model_folders import sharing
from nnunet_dro.model_folders.sharing import share_model
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from tests.commands import done, refused, run
from tests.kept.folders import VERSION_0_2
from tests.nnunet_project import environment

share = partial(run, "share")

KEPT = sorted(path.name for path in (VERSION_0_2 / "trainings").iterdir())
TRAINER = KEPT[0]
CASES = [f"case_{i:02d}" for i in range(10)]
DATASET = {
    "channel_names": {"0": "MRI"},
    "labels": {"background": 0, "shell": 1},
    "numTraining": 10,
    "file_ending": ".nii.gz",
    "description": "Without case_03.",
    "licence": "CC0",
    "dataset": {case: {"images": [f"{case}.nii.gz"], "label": f"{case}.nii.gz"} for case in CASES},
}
PLANS = {
    "dataset_name": "Dataset901_labels",
    "plans_name": "nnUNetPlans",
    "configurations": {"2d_small": {}},
    "transpose_forward": [0, 1, 2],
    "made_from": CASES,
}


@pytest.fixture
def model(tmp_path):
    """Makes a model folder as nnU-Net leaves it, with the checkpoint of a real training."""

    def make(trainer=TRAINER, folds=("0",), *, kept=TRAINER, dataset="Dataset901_labels"):
        folder = tmp_path / dataset / f"{trainer}__nnUNetPlans__2d_small"
        for fold in folds:
            path = folder / f"fold_{fold}"
            shutil.copytree(VERSION_0_2 / "trainings" / kept, path)
            for name in (
                "debug.json",
                "progress.png",
                "training_log_1.txt",
                "validation/summary.json",
            ):
                (path / name).parent.mkdir(exist_ok=True)
                (path / name).write_text(" ".join(CASES))
            edit(path / "checkpoint_final.pth", trainer_name=trainer)
        crossval = folder / f"crossval_results_folds_{'_'.join(folds)}"
        crossval.mkdir()
        for name in ("postprocessing.pkl", "postprocessing.json", "summary.json"):
            (crossval / name).write_bytes(b"rule" if name.endswith("pkl") else b"case_01")
        for name, content in (
            ("plans", PLANS),
            ("dataset", DATASET),
            ("dataset_fingerprint", CASES),
        ):
            (folder / f"{name}.json").write_text(json.dumps(content))
        return folder

    return make


def edit(checkpoint, **changes):
    torch.save({**torch.load(checkpoint, weights_only=False), **changes}, checkpoint)


def contents(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("kept", KEPT)
def test_no_name_of_a_training_case_is_in_the_file(model, tmp_path, kept):
    folder = model(kept, kept=kept)
    before = torch.load(folder / "fold_0" / "checkpoint_final.pth", weights_only=False)

    assert set(before["logging"]["nnunet_dro"]["table"]["cases"]), "there are names to leave out"

    share_model(folder, tmp_path / "model.zip")

    for name, content in contents(tmp_path / "model.zip").items():
        assert not [case for case in CASES if case.encode() in content], name
        assert b"nnunet_dro" not in content
    assert b"case_" not in (tmp_path / "model.zip").read_bytes()


def test_file_has_what_prediction_needs_in_the_folders_of_nnunet(model, tmp_path):
    folder = model(folds=("0", "1", "10"))

    shared = share_model(folder, tmp_path / "model.zip")

    files = contents(tmp_path / "model.zip")

    top = "Dataset901_labels/nnUNetTrainer__nnUNetPlans__2d_small"

    assert shared.folder == top
    assert {name.removeprefix(f"{top}/") for name in files} == {
        *(f"fold_{fold}/checkpoint_final.pth" for fold in (0, 1, 10)),
        *("plans.json", "dataset.json", "crossval_results_folds_0_1_10/postprocessing.pkl"),
    }

    before = torch.load(folder / "fold_0" / "checkpoint_final.pth", weights_only=False)
    after = torch.load(BytesIO(files[f"{top}/fold_0/checkpoint_final.pth"]), weights_only=True)

    assert after.pop("network_weights").keys() == before["network_weights"].keys()
    assert after == {
        "trainer_name": "nnUNetTrainer",
        "init_args": {
            "configuration": before["init_args"]["configuration"],
            "fold": before["init_args"]["fold"],
        },
        "inference_allowed_mirroring_axes": before["inference_allowed_mirroring_axes"],
    }
    assert json.loads(files[f"{top}/plans.json"]) == {
        k: v for k, v in PLANS.items() if k != "made_from"
    }

    needed = {key: DATASET[key] for key in ("channel_names", "labels", "file_ending", "licence")}
    assert json.loads(files[f"{top}/dataset.json"]) == needed
    assert "-f 0 1 10 " in shared.predict

    moved = share_model(model(dataset="moved"), tmp_path / "moved.zip")
    assert moved.folder == top, (
        "the name of the dataset is that of the plans where the model was moved"
    )


def test_command_says_what_it_left_out_and_how_to_predict(model, tmp_path):
    lines = done(share(model(), "-o", tmp_path / "model.zip")).stdout.splitlines()
    of = {
        line.split(": ")[0]: line.split(": ")[1].split(", ")
        for line in lines
        if line.startswith("left out")
    }

    assert {"optimizer_state", "logging"} <= set(of["left out of checkpoints"])
    assert of["left out of plans.json"] == ["made_from"]
    assert of["left out of dataset.json"] == ["numTraining", "description", "dataset"]

    left_out = set(of["left out of files"])
    assert {
        "hardness.csv",
        "debug.json",
        "validation",
        "dataset_fingerprint.json",
        "summary.json",
    } <= left_out
    assert not {"plans.json", "checkpoint_final.pth", "fold_0", "postprocessing.pkl"} & left_out

    predict = (
        "nnUNetv2_predict -d Dataset901_labels -c 2d_small -p nnUNetPlans -f 0 -i INPUT -o OUTPUT"
    )
    assert lines[-2].strip() == predict


def test_the_second_stage_of_a_cascade_is_predicted_with_the_first(model, tmp_path):
    folder = model()
    plans = {**PLANS, "configurations": {"2d_small": {"previous_stage": "3d_lowres"}}}
    (folder / "plans.json").write_text(json.dumps(plans))

    lines = done(share(folder, "-o", tmp_path / "model.zip")).stdout.splitlines()

    assert " -prev_stage_predictions PREDICTIONS_OF_THE_STAGE_BEFORE " in lines[-2]


def test_folds_and_checkpoint_can_be_chosen(model, tmp_path):
    folder = model(folds=("0", "1", "all"))
    for fold in ("0", "1", "all"):
        (folder / f"fold_{fold}" / "checkpoint_final.pth").rename(
            folder / f"fold_{fold}" / "checkpoint_best.pth"
        )

    def shared_folds(*arguments):
        result = done(
            share(
                folder,
                "-o",
                tmp_path / "model.zip",
                "--checkpoint",
                "checkpoint_best.pth",
                *arguments,
            )
        )
        assert "-chk checkpoint_best.pth" in result.stdout
        return {
            Path(name).parent.name
            for name in contents(tmp_path / "model.zip")
            if name.endswith("best.pth")
        }

    assert shared_folds() == {"fold_0", "fold_1"}
    assert shared_folds("--folds", "1", "--overwrite") == {"fold_1"}

    best = folder / "crossval_results_folds_0_1" / "postprocessing.pkl"
    best.parent.mkdir()
    best.write_bytes(b"what nnU-Net has found")

    assert shared_folds("--folds", "1, 0", "--overwrite") == {"fold_0", "fold_1"}
    assert any(
        name.endswith("folds_0_1/postprocessing.pkl") for name in contents(tmp_path / "model.zip")
    )
    assert shared_folds("--folds", "all", "--overwrite") == {"fold_all"}


def test_existing_file_is_replaced_only_if_asked_for(model, tmp_path):
    folder = model()
    output = tmp_path / "model.zip"

    output.write_text("mine")

    assert "give --overwrite" in refused(share(folder, "-o", output))
    assert output.read_text() == "mine"
    assert share(folder, "-o", output, "--overwrite").exit_code == 0
    assert contents(output)
    assert "must be a new file" in refused(share(folder, "-o", folder, "--overwrite"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--folds", "3"], "must be folds of the model, got 3. Choose from: 0, 1."),
        (["--folds", "0,0"], "must be different folds, at least one, got 0, 0."),
        (["--folds", ","], "must be different folds, at least one, got none."),
        (["--checkpoint", "checkpoint_latest.pth"], "which does not exist in fold_0, fold_1"),
        (["--checkpoint", "../plans.json"], "must be the name of a file that every fold has"),
    ],
)
def test_wrong_options_are_refused_in_one_line(model, tmp_path, arguments, message):
    assert message in refused(
        share(model(folds=("0", "1")), "-o", tmp_path / "model.zip", *arguments)
    )
    assert not list(tmp_path.glob("*.zip"))


def test_folder_that_is_no_model_is_refused_in_one_line(model, tmp_path):
    folder = model(folds=("0", "1"))
    output = tmp_path / "model.zip"
    refused(share(tmp_path / "nothing", "-o", output), "which does not exist")
    refused(share(folder / "fold_0", "-o", output), "must hold folders fold_X")
    refused(
        share(folder, "-o", tmp_path / "nothing" / "model.zip"), "must be in an existing folder"
    )
    (folder / "plans.json").write_text("{")
    refused(
        share(folder, "-o", output),
        "`plans.json` must be JSON with plans_name and configurations",
    )
    (folder / "plans.json").unlink()

    refused(share(folder, "-o", output), "`plans.json` must be beside the folds")

    assert not list(tmp_path.glob("*.zip"))


@pytest.mark.parametrize("content", [b"", b"PK broken", None])
def test_damaged_checkpoint_is_refused_and_leaves_no_file(model, tmp_path, content):
    folder = model(folds=("0", "1"))
    path = folder / "fold_1" / "checkpoint_final.pth"
    if content is None:
        torch.save({"something": "else"}, path)
    else:
        path.write_bytes(content)

    refused(share(folder, "-o", tmp_path / "model.zip"), "must be a checkpoint of nnU-Net", path)

    assert [entry.name for entry in tmp_path.iterdir()] == ["Dataset901_labels"]


class Mine(HardnessWeighted, nnUNetTrainer):
    pass


class OtherNetwork(Mine):
    @staticmethod
    def build_network_architecture(*_, **__):
        raise NotImplementedError


class NotOurs(nnUNetTrainer):
    pass


def test_trainer_must_be_ours_or_a_mix_in_with_the_network_of_nnunet(model, tmp_path, monkeypatch):
    assert sharing.find_trainer("nnUNetTrainer") is nnUNetTrainer

    folder = model("nnUNetTrainerMine")
    output = tmp_path / "model.zip"
    others = "must be one of nnunet-dro, or a mix-in of HardnessWeighted"
    network = "must have the network of nnUNetTrainer"
    for trainer, message in ((OtherNetwork, network), (NotOurs, others), (None, others)):
        monkeypatch.setattr(sharing, "find_trainer", lambda _, found=trainer: found)
        assert message in refused(share(folder, "-o", output))
        assert not output.exists()
    monkeypatch.setattr(sharing, "find_trainer", lambda _: Mine)

    assert share(folder, "-o", output).exit_code == 0


#: nnU-Net's commands, one after the other, where this package is not installed.
RECIPIENT = """
import pkgutil, sys
from importlib.metadata import entry_points

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "nnunet_dro" or name.endswith("nnUNetTrainer_nnunet_dro"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Finder())
of_all = pkgutil.iter_modules
pkgutil.iter_modules = lambda *a, **k: (m for m in of_all(*a, **k) if m.name != "nnUNetTrainer_nnunet_dro")
programs = {{point.name: point for point in entry_points(group="console_scripts")}}
for sys.argv in {commands!r}:
    programs[sys.argv[0]].load()()
"""


@pytest.mark.slow
def test_recipient_predicts_the_same_without_this_package(project, tmp_path):
    here = project("labels")
    trainer = "nnUNetTrainerDRO_beta10_1epochs_1iters"
    here.run("nnUNetv2_train", here.dataset_id, "3d_small", 0, "-tr", trainer, "-device", "cpu")
    images = ("-i", here.raw / "imagesTs")
    quick = ("-device", "cpu", "-npp", 1, "-nps", 1, "--save_probabilities")
    mine = tmp_path / "mine"
    model_words = ("-d", here.dataset_id, "-c", "3d_small", "-tr", trainer, "-f", 0)
    here.run("nnUNetv2_predict", *model_words, *images, "-o", mine, *quick)
    folder = here.fold_folder(trainer, "3d_small").parent
    shared = share_model(folder, tmp_path / "model.zip")
    for name in ("raw", "preprocessed", "results"):
        (tmp_path / "recipient" / name).mkdir(parents=True)

    places = {"INPUT": here.raw / "imagesTs", "OUTPUT": tmp_path / "theirs"}
    installed = tmp_path / "recipient" / "results" / shared.folder
    from_folder = ("nnUNetv2_predict_from_modelfolder", "-f", 0, *images, *quick)
    commands = [
        ("nnUNetv2_install_pretrained_model_from_zip", shared.path),
        # Alone, where another command has processes that import nnU-Net themselves.
        (
            *(places.get(word, word) for word in shared.predict.split()),
            *quick,
            "-npp",
            0,
            "-nps",
            0,
        ),
        (*from_folder, "-m", installed, "-o", tmp_path / "folder"),
        (*from_folder, "-m", folder, "-o", tmp_path / "not"),
    ]
    code = RECIPIENT.format(commands=[[*map(str, command)] for command in commands])
    folders = {"env": environment(tmp_path / "recipient"), "cwd": tmp_path}

    result = subprocess.run([sys.executable, "-c", code], **folders, capture_output=True, text=True)

    # The last command stops: the original needs this package.
    assert f"Could not find requested nnunet trainer {trainer}" in result.stderr

    for case in ("test_00", "test_01"):
        paths = (tmp_path / name / f"{case}.npz" for name in ("mine", "theirs", "folder"))
        of_mine, *others = (np.load(path)["probabilities"] for path in paths)
        assert np.ptp(of_mine[0]) > 0, (
            "a network that is hardly trained may predict one label everywhere"
        )
        for other in others:
            np.testing.assert_allclose(other, of_mine, atol=1e-3)
