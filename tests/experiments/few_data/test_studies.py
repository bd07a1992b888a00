import json

import numpy as np
import pandas as pd
import pytest

from experiments.few_data.studies import (
    TWICE,
    folds,
    hippocampus_study,
    merge_labels,
    phantom_study,
    shrunken_plans,
)
from experiments.nnunet_runs.plans import CONFIGURATION, experiment_plans
from experiments.nnunet_runs.study import BASELINE
from tests.experiments.few_data.made_study import few_data_study
from tests.experiments.made_studies import LABELS, PLANS, row_of, write_label_map


def test_plain_training_of_twice_the_length_differs_in_iterations_alone():
    study = few_data_study()
    assert (study.epochs, study.iterations) == (2, 5)
    assert study.trainer(BASELINE) == "nnUNetTrainerHWS_beta0_2epochs_5iters"
    assert study.trainer(TWICE) == "nnUNetTrainerHWS_beta0_2epochs_10iters"


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
