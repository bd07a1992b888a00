"""Every trainer but the first through nnU-Net's real commands."""

import pandas as pd
import pytest

from nnunet_dro.trainers.options import GroupOptions, LSOptions
from nnunet_dro.trainers.registry import trainer_class
from tests.end_to_end.folds import check_fold
from tests.trainers.names import PLAIN_NAMES

pytestmark = pytest.mark.slow
#: Rows of what a trainer writes beside the hardness, after one epoch of eight cases.
OWN_FILES = {"nnUNetTrainerL2RW": {"weights.csv": 8}, "nnUNetTrainerGILS": {"perturbations.csv": 1}}


@pytest.mark.parametrize("name", [name for name in PLAIN_NAMES if name != "nnUNetTrainerHWS"])
def test_the_other_trainers_train_continue_and_predict(project, name, tmp_path):
    here = project("labels")
    options = trainer_class(name).options
    adjusted = "la1" if isinstance(options, LSOptions) else "la1_poly2"
    trainer = f"{name}_{adjusted}_1epochs_3iters"
    train = ("nnUNetv2_train", here.dataset_id, "3d_small", 0, "-tr", trainer, "-device", "cpu")
    here.run(*train)
    folder = here.fold_folder(trainer, "3d_small")
    check_fold(folder, n_epochs=1, n_cases=8)
    here.run(*train, "--c")

    row = pd.read_csv(folder / "training.csv").iloc[0]

    assert row["draws[site=a]"] + row["draws[site=b]"] == pytest.approx(1, abs=1e-5)
    if isinstance(options, GroupOptions):
        assert row["weight[a]"] + row["weight[b]"] == pytest.approx(1, abs=1e-5)
    for file, of_one_epoch in OWN_FILES.get(name, {}).items():
        assert len(pd.read_csv(folder / file)) == of_one_epoch

    output = tmp_path / "predictions"
    here.run(
        *("nnUNetv2_predict", "-d", here.dataset_id, "-c", "3d_small", "-tr", trainer, "-f", 0),
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
    )

    assert sorted(path.name for path in output.glob("*.nii.gz")) == [
        "test_00.nii.gz",
        "test_01.nii.gz",
    ]
