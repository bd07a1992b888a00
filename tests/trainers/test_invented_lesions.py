"""Trains through nnU-Net's own commands on lesions, and on the same lesions that nobody annotated."""

import json

import numpy as np
import pandas as pd
import pytest
import SimpleITK as sitk  # noqa: N813

from tests.nnunet_project import Project, add_small_configurations

pytestmark = pytest.mark.slow
SIZE = 40
N_ANNOTATED = 6
N_CASES = 10
TRAINER = "nnUNetTrainerDRO_beta0_4epochs_80iters"


def write_lesions(project: Project) -> None:
    """Bright balls in noise; those of the last cases are a little fainter and not annotated."""
    for name in ("imagesTr", "labelsTr"):
        (project.raw / name).mkdir(parents=True)
    for i in range(N_CASES):
        rng = np.random.default_rng(i + 50)
        grid = np.mgrid[:SIZE, :SIZE, :SIZE]
        centre = rng.integers(8, SIZE - 8, 3)[:, None, None, None]
        ball = np.sqrt(((grid - centre) ** 2).sum(0)) < 5
        is_annotated = i < N_ANNOTATED
        image = rng.normal(10, 1, ball.shape) + (3.0 if is_annotated else 2.5) * ball
        name = f"{'lesion' if is_annotated else 'control'}_{i:02d}"
        for values, folder, suffix in (
            (image.astype(np.float32), "imagesTr", "_0000"),
            ((ball & is_annotated).astype(np.uint8), "labelsTr", ""),
        ):
            path = project.raw / folder / f"{name}{suffix}.nii.gz"
            sitk.WriteImage(sitk.GetImageFromArray(values), str(path))
    description = {
        "channel_names": {"0": "MR"},
        "labels": {"background": 0, "lesion": 1},
        "numTraining": N_CASES,
        "file_ending": ".nii.gz",
    }
    (project.raw / "dataset.json").write_text(json.dumps(description))


def plan(project: Project) -> None:
    project.run("nnUNetv2_plan_and_preprocess", "-d", project.dataset_id, "-c", "3d_fullres")
    path = project.preprocessed / "nnUNetPlans.json"
    plans = json.loads(path.read_text())
    plans["configurations"]["2d"] = plans["configurations"]["3d_fullres"]
    path.write_text(json.dumps(plans))
    add_small_configurations(path)
    plans = json.loads(path.read_text())
    small = plans["configurations"]["3d_small"]
    small["patch_size"] = [16, 16, 16]
    small["architecture"]["arch_kwargs"]["features_per_stage"] = [8, 16, 16]
    path.write_text(json.dumps(plans))


def train_on_all(project: Project) -> None:
    """Fold 0 has all cases for training, and one for nnU-Net's validation, which takes long."""
    cases = sorted(
        path.name.removesuffix(".nii.gz") for path in (project.raw / "labelsTr").iterdir()
    )
    splits = [{"train": cases, "val": cases[:1]}]
    (project.preprocessed / "splits_final.json").write_text(json.dumps(splits))


def test_cases_in_which_lesions_are_invented_are_the_hardest(tmp_path):
    """Their Dice is 0; they had the smallest hardness while it looked at the reference alone."""
    project = Project(tmp_path, "labels")
    write_lesions(project)
    plan(project)
    train_on_all(project)

    arguments = (project.dataset_id, "3d_small", 0, "-tr", TRAINER, "-device", "cpu")
    project.run("nnUNetv2_train", *arguments)

    rows = pd.read_csv(project.fold_folder(TRAINER, "3d_small") / "hardness.csv")
    last = rows[rows["epoch"] == rows["epoch"].max()].sort_values("loss", ascending=False)
    is_control = last["case"].str.startswith("control").to_numpy()
    assert is_control.tolist() == [True] * 4 + [False] * 6, last
