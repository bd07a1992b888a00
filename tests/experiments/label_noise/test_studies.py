import json

import numpy as np
import pandas as pd
import pytest

from experiments.label_noise.data import (
    NOISE_FILE,
)
from experiments.label_noise.studies import TRAINERS, hippocampus_study, phantom_study
from nnunet_dro.trainers.registry import trainer_class
from tests.experiments.made_studies import LABELS, row_of, write_label_map


@pytest.mark.parametrize("method", TRAINERS)
def test_every_method_is_a_trainer_that_nnunet_finds(method):
    study = phantom_study(quick=False)
    assert trainer_class(study.trainer(method)).__name__ == study.trainer(method)


def test_phantoms_have_no_rare_pathology_and_the_share_they_say(tmp_path):
    study = phantom_study(quick=True)
    folder = tmp_path / study.dataset
    study.write(folder, np.random.default_rng(0))

    train, test = (pd.read_csv(folder / name) for name in ("cases.csv", "test_cases.csv"))
    assert set(train["pathology"]) | set(test["pathology"]) == {"control", "common"}
    for name, table, ending in (("imagesTs", test, "_0000.nii.gz"), ("labelsTs", test, ".nii.gz")):
        assert {path.name for path in (folder / name).iterdir()} == {f"{case}{ending}" for case in table["case"]}
    noise = pd.read_csv(folder / NOISE_FILE)
    assert sorted(noise["case"]) == sorted(train["case"][train["split"] == "train"])
    assert (noise["kind"] != "clean").mean() == 0.3


def test_rare_phantoms_are_in_the_training_alone(tmp_path):
    study = phantom_study(quick=True, rare=True)
    study.write(tmp_path / study.dataset, np.random.default_rng(0))
    train, test = (pd.read_csv(tmp_path / study.dataset / name) for name in ("cases.csv", "test_cases.csv"))
    counts = train[train["split"] == "train"]["pathology"].value_counts().to_dict()
    assert counts == {"control": 10, "common": 6, "rare": 4}
    assert "rare" not in set(test["pathology"])
    assert study.dataset != phantom_study(quick=True).dataset


def test_hippocampus_takes_one_range_and_refuses_too_few_cases(tmp_path):
    data = tmp_path / "Dataset004_Hippocampus"
    rows = [(f"raw{i:02d}", "raw") for i in range(24)] + [("eight0", "8bit")]
    for case, _ in rows:
        write_label_map(data / "labelsTr" / f"{case}.nii.gz", row_of(10))
        write_label_map(data / "imagesTr" / f"{case}_0000.nii.gz", row_of(3))
    table = pd.DataFrame(rows, columns=["case", "intensity_range"])
    table.to_csv(data / "cases.csv", index=False)
    content = {"labels": LABELS, "file_ending": ".nii.gz", "channel_names": {"0": "MRI"}, "numTraining": len(rows)}
    (data / "dataset.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="`data` must have 25 cases of range 'raw', got 24"):
        hippocampus_study(data, quick=True)
