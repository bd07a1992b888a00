"""nnU-Net's real commands, as its user types them."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import SimpleITK as sitk  # noqa: N813

from tests.end_to_end.folds import check_fold
from tests.nnunet_project import Project, add_small_configurations

pytestmark = pytest.mark.slow
TRAINER = "nnUNetTrainerHWS_beta10_2epochs_5iters"
HIPPOCAMPUS = Path(__file__).parents[3] / "shared" / "data" / "Dataset004_Hippocampus"


@pytest.mark.parametrize("configuration", ["2d_small", "3d_small"])
def test_train_continue_validate_and_predict(project, configuration, tmp_path):
    here = project("labels")
    folder = here.fold_folder(TRAINER, configuration)
    train = ("nnUNetv2_train", here.dataset_id, configuration, 0, "-tr", TRAINER, "-device", "cpu")
    # Once exactly as a user starts it, with everything that it imports in every process.
    is_exact = configuration == "3d_small"
    here.run(*train, anew=is_exact)
    check_fold(folder, n_epochs=2, n_cases=8)

    # Finished: nothing to train, validated again. All trainers but this one are continued in 3d
    # elsewhere.
    before = (folder / "hardness.csv").read_text()
    for again in () if is_exact else ("--c", "--val"):
        shutil.rmtree(folder / "validation")
        here.run(*train, again)
        assert (folder / "validation" / "summary.json").exists()
        assert (folder / "hardness.csv").read_text() == before

    # The same names find what was validated, and nnU-Net's own Dice.
    named = ("-d", here.dataset_id, "-c", configuration, "-tr", TRAINER, "-f", 0)
    here.run("nnunet-dro", "evaluate", *named, "-o", tmp_path / "evaluation", "--bootstrap", 0)
    ours = pd.read_csv(tmp_path / "evaluation" / "scores.csv").groupby("label")["dice"].mean()

    theirs = json.loads((folder / "validation" / "summary.json").read_text())["mean"]

    assert [ours["shell"], ours["core"]] == pytest.approx(
        [theirs[v]["Dice"] for v in "12"], nan_ok=True
    )

    output = tmp_path / "predictions"
    here.run(
        *("nnUNetv2_predict", "-d", here.dataset_id, "-c", configuration, "-tr", TRAINER, "-f", 0),
        *(
            "-i",
            here.raw / "imagesTs",
            "-o",
            output,
            "-device",
            "cpu",
            "--disable_tta",
            "-npp",
            1,
            "-nps",
            1,
        ),
        anew=is_exact,
    )
    for i in range(2):
        prediction = sitk.ReadImage(str(output / f"test_{i:02d}.nii.gz"))
        assert (
            prediction.GetSize()
            == sitk.ReadImage(str(here.raw / f"labelsTs/test_{i:02d}.nii.gz")).GetSize()
        )


def test_regions_with_an_ignore_label_in_sub_volumes(project):
    here = project("regions_ignore")
    trainer = "nnUNetTrainerHWS_betaauto_sub2x1x2_hardPresent_vs0.2_2epochs_5iters"
    here.run("nnUNetv2_train", here.dataset_id, "3d_small", 0, "-tr", trainer, "-device", "cpu")
    folder = here.fold_folder(trainer, "3d_small")
    check_fold(folder, n_epochs=2, n_cases=8)

    listed = pd.read_csv(folder / "subvolumes.csv")["subvolume"]

    assert listed.str.match(r"case_\d\d@[01],0,[01]$").all()
    assert "are drawn." in next(iter(folder.glob("training_log_*.txt"))).read_text(), (
        "those with annotated voxels"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "scanner",
            "`scanner` must be a column of {table}, which has site, number, trusted. Add it, or name another column.",
        ),
        (
            "trusted_asWeights",
            "`trusted` must have a finite number >= 0 as the weight of every training case in {table}, got 'yes' for ",
        ),
    ],
)
def test_a_column_that_cannot_be_used_stops_with_one_line(project, options, message):
    here = project("labels")
    name = f"nnUNetTrainerIW_{options}_1epochs_3iters"

    result = here.run(
        "nnUNetv2_train", here.dataset_id, "3d_small", 0, "-tr", name, "-device", "cpu", check=False
    )

    assert result.returncode != 0

    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError: " + message.format(table=here.raw / "cases.csv"))


def test_all_training_cases_as_one_fold(project):
    here = project("labels")
    trainer = "nnUNetTrainerHWS_beta10_noIS_momentum0.5_1epochs_4iters"
    here.run("nnUNetv2_train", here.dataset_id, "2d_small", "all", "-tr", trainer, "-device", "cpu")
    check_fold(here.fold_folder(trainer, "2d_small", "all"), n_epochs=1, n_cases=10)


def test_cascade(project):
    here = project("labels")
    plans_file = here.preprocessed / "nnUNetPlans.json"
    before = plans_file.read_text()
    plans = json.loads(before)
    plans["configurations"]["3d_lowres"] = {
        "inherits_from": "3d_small",
        "data_identifier": "nnUNetPlans_3d_lowres",
        "spacing": [2.0, 2.0, 2.0],
        "patch_size": [12, 12, 12],
        "batch_dice": True,
        "next_stage": "3d_cascade",
    }
    plans["configurations"]["3d_cascade"] = {
        "inherits_from": "3d_small",
        "batch_dice": True,
        "previous_stage": "3d_lowres",
    }
    plans_file.write_text(json.dumps(plans))
    try:
        here.run("nnUNetv2_preprocess", "-d", here.dataset_id, "-c", "3d_lowres", "-np", 2)
        # Every case needs a prediction of the first stage: fold "all" validates them all.
        trainer = "nnUNetTrainerHWS_beta10_1epochs_2iters"
        for configuration in ("3d_lowres", "3d_cascade"):
            here.run(
                "nnUNetv2_train",
                here.dataset_id,
                configuration,
                "all",
                "-tr",
                trainer,
                "-device",
                "cpu",
            )
            check_fold(here.fold_folder(trainer, configuration, "all"), n_epochs=1, n_cases=10)
    finally:
        plans_file.write_text(before)


def test_a_misspelt_option_stops_before_anything_is_written(project):
    here = project("labels")
    name = "nnUNetTrainerHWS_noIS_beta10"

    result = here.run(
        "nnUNetv2_train", here.dataset_id, "3d_small", 0, "-tr", name, "-device", "cpu", check=False
    )

    assert result.returncode != 0

    (*_, last) = result.stderr.strip().splitlines()
    assert last.startswith(f"ValueError: `{name}` must be written `nnUNetTrainerHWS_beta10_noIS`")
    assert not here.fold_folder(name, "3d_small").exists()


@pytest.mark.skipif(not HIPPOCAMPUS.exists(), reason="needs the hippocampus data")
def test_hippocampus(tmp_path):
    for name in ("raw", "preprocessed", "results"):
        (tmp_path / name).mkdir()
    raw = tmp_path / "raw" / HIPPOCAMPUS.name

    cases = sorted(
        path.name.removesuffix(".nii.gz") for path in (HIPPOCAMPUS / "labelsTr").iterdir()
    )[::20]

    assert len(cases) == 10

    for case in cases:
        for folder, name in (("imagesTr", f"{case}_0000.nii.gz"), ("labelsTr", f"{case}.nii.gz")):
            (raw / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(HIPPOCAMPUS / folder / name, raw / folder / name)
    description = json.loads((HIPPOCAMPUS / "dataset.json").read_text())
    (raw / "dataset.json").write_text(json.dumps({**description, "numTraining": len(cases)}))

    class Hippocampus(Project):
        dataset_id = 4
        dataset = HIPPOCAMPUS.name

    here = Hippocampus(tmp_path, "labels")
    here.run("nnUNetv2_plan_and_preprocess", "-d", 4, "-c", "2d", "3d_fullres", "-np", 2)
    add_small_configurations(here.preprocessed / "nnUNetPlans.json")
    for configuration in ("2d_small", "3d_small"):
        here.run("nnUNetv2_train", 4, configuration, 0, "-tr", TRAINER, "-device", "cpu")
        check_fold(here.fold_folder(TRAINER, configuration), n_epochs=2, n_cases=8)
