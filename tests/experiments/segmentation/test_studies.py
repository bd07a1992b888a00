import json

import numpy as np
import pandas as pd
import pytest

from experiments.segmentation.studies import (
    SOURCES,
    TRAINERS,
    few_phantoms_study,
    finetuning_rates_study,
    finetuning_study,
    hippocampus_study,
    phantom_study,
)
from nnunet_dro.finetuning.schedule import LEARNING_RATE, finetuning_trainer
from nnunet_dro.trainers.registry import trainer_class
from tests.experiments.made_studies import LABELS, row_of, tiny_study, write_label_map


@pytest.mark.parametrize("method", TRAINERS)
def test_every_method_is_a_trainer_that_nnunet_finds(method):
    study = tiny_study()
    cls = trainer_class(study.trainer(method))
    assert cls.__name__ == study.trainer(method)
    assert (cls.options.epochs, cls.options.iterations) == (2, 5)


def test_phantom_study_has_the_counts_it_says(tmp_path):
    study = phantom_study(quick=False)
    train = study.settings["train"]
    assert sum(train.values()) == 600
    assert 0.03 <= train["rare"] / 600 <= 0.1
    assert "24 rare" in study.about
    assert study.strata == ("rare", "common", "control")


def test_few_phantoms_are_the_phantoms_with_fewer_training_cases(tmp_path):
    many, few = phantom_study(quick=False), few_phantoms_study(quick=False)
    assert few.settings["train"] == {"control": 18, "common": 4, "rare": 2}
    assert "24 training cases" in few.about.replace("\n", " ")
    assert (few.epochs, few.iterations, few.settings["test"]) == (many.epochs, many.iterations, many.settings["test"])
    assert few.dataset != many.dataset
    quick = few_phantoms_study(quick=True)
    quick.write(tmp_path / quick.dataset, np.random.default_rng(0))
    table = pd.read_csv(tmp_path / quick.dataset / "cases.csv")
    assert table[table["split"] == "train"]["pathology"].value_counts().to_dict() == quick.settings["train"]


def test_finetuning_takes_a_tenth_of_the_training_and_the_default_learning_rate():
    study = finetuning_study(quick=False)
    trainers = {method: study.trainer(method) for method in study.trainers}
    assert trainers["ERM"] == "nnUNetTrainerHWS_beta0_10epochs_100iters"
    for method in SOURCES:
        options = trainer_class(trainers[method]).options
        assert (options.epochs, options.iterations, options.learning_rate) == (10, 10, LEARNING_RATE)
        anew = study.trainers[method.removesuffix("_finetuned")]
        assert finetuning_trainer(f"{anew}_10epochs_10iters") == trainers[method]
    assert f"first learning rate of {LEARNING_RATE}" in study.about


def test_learning_rates_are_those_of_their_names():
    study = finetuning_rates_study(quick=False)
    rates = {method: trainer_class(study.trainer(method)).options.learning_rate for method in study.sources}
    assert rates == {"lr0.01": 0.01, "lr0.003": 0.003, "lr0.001": 0.001}


HIPPOCAMPUS_RANGES = {"8bit": 7, "raw": 13, "rescaled": 6}


@pytest.fixture
def hippocampus(tmp_path):
    """A raw dataset like the hippocampus data, of tiny images; range -> number of cases."""

    def build(counts=HIPPOCAMPUS_RANGES, column="intensity_range"):
        folder = tmp_path / "Dataset004_Hippocampus"
        rows = []
        for stratum, n_cases in counts.items():
            for number in range(n_cases):
                case = f"{stratum}{number:02d}"
                write_label_map(folder / "labelsTr" / f"{case}.nii.gz", row_of(10))
                write_label_map(folder / "imagesTr" / f"{case}_0000.nii.gz", row_of(number))
                rows.append((case, stratum))
        pd.DataFrame(rows, columns=["case", column]).to_csv(folder / "cases.csv", index=False)
        content = {"labels": LABELS, "file_ending": ".nii.gz", "channel_names": {"0": "MRI"}, "numTraining": len(rows)}
        (folder / "dataset.json").write_text(json.dumps(content))
        return folder

    return build


def test_hippocampus_makes_ranges_rare_and_tests_on_the_rest(hippocampus, tmp_path):
    data = hippocampus()
    study = hippocampus_study(data, quick=True)
    study.write(tmp_path / study.dataset, np.random.default_rng(0))

    train, test = (pd.read_csv(tmp_path / study.dataset / name) for name in ("cases.csv", "test_cases.csv"))
    n_train = train[train["split"] == "train"]["range"].value_counts().to_dict()
    assert n_train == {"raw": 8, "rescaled": 2, "8bit": 2}
    assert train[train["split"] == "validation"]["range"].tolist() == ["raw"]
    assert test["range"].value_counts().to_dict() == {"raw": 3, "8bit": 3, "rescaled": 3}
    assert not set(train["case"]) & set(test["case"])
    for suffix, table in (("Tr", train), ("Ts", test)):
        images = tmp_path / study.dataset / f"images{suffix}"
        assert {path.name for path in images.iterdir()} == {f"{case}_0000.nii.gz" for case in table["case"]}
        for case in table["case"]:
            copied, original = (p / f"{case}_0000.nii.gz" for p in (images, data / "imagesTr"))
            assert copied.read_bytes() == original.read_bytes()
    assert json.loads((tmp_path / study.dataset / "dataset.json").read_text())["numTraining"] == len(train)


def test_hippocampus_seeds_draw_other_cases(hippocampus, tmp_path):
    study = hippocampus_study(hippocampus(), quick=True)
    drawn = []
    for position, seed in enumerate((0, 0, 1)):
        study.write(tmp_path / str(position), np.random.default_rng(seed))
        drawn.append((tmp_path / str(position) / "cases.csv").read_text())
    assert drawn[0] == drawn[1] != drawn[2]


def test_hippocampus_data_that_do_not_do_are_refused(hippocampus, tmp_path):
    with pytest.raises(ValueError, match="`data` must have 3 cases of range 'rescaled', got 2"):
        hippocampus_study(hippocampus({"8bit": 7, "raw": 13, "rescaled": 2}), quick=True)
    with pytest.raises(ValueError, match=r"`by` must be a column of .*, got 'intensity_range'"):
        hippocampus_study(hippocampus(column="range"), quick=True)
    with pytest.raises(FileNotFoundError, match="`data` must be a folder"):
        hippocampus_study(tmp_path / "nowhere", quick=True)
