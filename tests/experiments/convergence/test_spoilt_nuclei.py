"""Nuclei in nnU-Net's format, some of whose labels are wrong."""

import json

import numpy as np
import pandas as pd

from experiments.convergence.spoilt_nuclei import wrong_nuclei
from experiments.datasets.nuclei import N_TRAIN_OF_TWO
from experiments.spoilt_labels.spoiling import KINDS, NOISE_FILE
from tests.experiments.made_nuclei import write_nuclei_dataset


def test_three_of_ten_images_are_spoilt_and_none_of_them_is_purple(tmp_path):
    write_nuclei_dataset(tmp_path / "data")
    (tmp_path / "data" / "dataset.json").write_text(json.dumps({"labels": {"background": 0}}))
    folder = tmp_path / "spoilt"

    wrong_nuclei(tmp_path / "data", quick=True).data.write(folder, np.random.default_rng(0))

    cases = pd.read_csv(folder / "cases.csv").set_index("case")
    noise = pd.read_csv(folder / NOISE_FILE).set_index("case")
    is_spoilt = noise["kind"] != "clean"
    assert cases.loc[noise.index, "modality"].value_counts().to_dict() == N_TRAIN_OF_TWO
    assert set(cases.loc[noise.index[is_spoilt], "modality"]) == {"fluorescence"}
    assert noise["kind"].value_counts()[list(KINDS)].tolist() == [10, 10, 10]
    assert noise["dice"][is_spoilt].max() < 0.51
