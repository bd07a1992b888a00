"""Nuclei in nnU-Net's format, some of whose labels are wrong."""

import json

import numpy as np
import pandas as pd
import pytest

from experiments.convergence.spoilt_nuclei import A_LITTLE, GROSSLY, NONE, wrong_nuclei
from experiments.datasets.nuclei import N_TRAIN_OF_TWO
from experiments.spoilt_labels.spoiling import NOISE_FILE
from tests.experiments.made_nuclei import write_nuclei_dataset


@pytest.fixture
def write(tmp_path):
    """Write the raw dataset of the question with this spoiling; returns its folder."""
    write_nuclei_dataset(tmp_path / "data")
    (tmp_path / "data" / "dataset.json").write_text(json.dumps({"labels": {"background": 0}}))

    def written(spoiling):
        folder = tmp_path / f"spoilt {spoiling.share}"
        asked = wrong_nuclei(tmp_path / "data", quick=True, spoiling=spoiling)
        asked.data.write(folder, np.random.default_rng(0))
        return folder

    return written


@pytest.mark.parametrize(
    ("spoiling", "n_of_each_kind", "dice"),
    [(GROSSLY, [10, 10, 10], (0.0, 0.51)), (A_LITTLE, [15], (0.74, 0.76))],
    ids=["grossly", "a little"],
)
def test_some_images_are_spoilt_and_none_of_them_is_purple(spoiling, n_of_each_kind, dice, write):
    folder = write(spoiling)

    cases = pd.read_csv(folder / "cases.csv").set_index("case")
    noise = pd.read_csv(folder / NOISE_FILE).set_index("case")
    is_spoilt = noise["kind"] != "clean"
    assert cases.loc[noise.index, "modality"].value_counts().to_dict() == N_TRAIN_OF_TWO
    assert set(cases.loc[noise.index[is_spoilt], "modality"]) == {"fluorescence"}
    assert noise["kind"].value_counts()[list(spoiling.kinds)].tolist() == n_of_each_kind
    assert noise["dice"][is_spoilt].between(*dice).all()


def test_the_images_are_the_same_with_right_labels(write):
    right, eroded = write(NONE), write(A_LITTLE)

    for image in (eroded / "imagesTr").iterdir():
        assert image.read_bytes() == (right / "imagesTr" / image.name).read_bytes()
    assert set(pd.read_csv(right / NOISE_FILE)["kind"]) == {"clean"}
