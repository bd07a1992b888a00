import json

import numpy as np
import pandas as pd
import pytest

from experiments.datasets.hippocampus import read_hippocampus, write_hippocampus
from tests.experiments.made_trainings import LABELS, row_of, write_label_map

RANGES = {"8bit": 7, "raw": 13, "rescaled": 6}
RARE = {"rescaled": 2, "8bit": 2}
COMMON = {"train": 8, "validation": 1, "test": 3}


def write_divided(data, folder, *, seed):
    ranges = read_hippocampus(data, rare=RARE, common=COMMON)
    write_hippocampus(
        folder, data, ranges, rare=RARE, common=COMMON, at_most=3, rng=np.random.default_rng(seed)
    )


@pytest.fixture
def hippocampus(tmp_path):
    """A raw dataset like the hippocampus data, of tiny images; range -> number of cases."""

    def build(counts=RANGES):
        folder = tmp_path / "Dataset004_Hippocampus"
        rows = []
        for stratum, n_cases in counts.items():
            for number in range(n_cases):
                case = f"{stratum}{number:02d}"
                write_label_map(folder / "labelsTr" / f"{case}.nii.gz", row_of(10))
                write_label_map(folder / "imagesTr" / f"{case}_0000.nii.gz", row_of(number))
                rows.append((case, stratum))
        pd.DataFrame(rows, columns=["case", "intensity_range"]).to_csv(
            folder / "cases.csv", index=False
        )
        content = {
            "labels": LABELS,
            "file_ending": ".nii.gz",
            "channel_names": {"0": "MRI"},
            "numTraining": len(rows),
        }
        (folder / "dataset.json").write_text(json.dumps(content))
        return folder

    return build


def test_hippocampus_makes_ranges_rare_and_tests_on_the_rest(hippocampus, tmp_path):
    data = hippocampus()
    divided = tmp_path / "Dataset914_Hippocampus"
    write_divided(data, divided, seed=0)
    train, test = (pd.read_csv(divided / name) for name in ("cases.csv", "test_cases.csv"))

    n_train = train[train["split"] == "train"]["range"].value_counts().to_dict()

    assert n_train == {"raw": 8, "rescaled": 2, "8bit": 2}
    assert train[train["split"] == "validation"]["range"].tolist() == ["raw"]
    assert test["range"].value_counts().to_dict() == {"raw": 3, "8bit": 3, "rescaled": 3}
    assert not set(train["case"]) & set(test["case"])

    for suffix, table in (("Tr", train), ("Ts", test)):
        images = divided / f"images{suffix}"
        assert {path.name for path in images.iterdir()} == {
            f"{case}_0000.nii.gz" for case in table["case"]
        }
        for case in table["case"]:
            copied, original = (p / f"{case}_0000.nii.gz" for p in (images, data / "imagesTr"))
            assert copied.read_bytes() == original.read_bytes()
    assert json.loads((divided / "dataset.json").read_text())["numTraining"] == len(train)

    drawn = []
    for position, seed in enumerate((0, 0, 1)):
        write_divided(data, tmp_path / str(position), seed=seed)
        drawn.append((tmp_path / str(position) / "cases.csv").read_text())

    assert drawn[0] == drawn[1] != drawn[2]


def test_data_that_do_not_do_are_refused(hippocampus, tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_hippocampus(tmp_path / "nowhere", rare=RARE, common=COMMON)
    with pytest.raises(ValueError, match="`data` must have 3 cases of range 'rescaled', got 2"):
        read_hippocampus(
            hippocampus({"8bit": 7, "raw": 13, "rescaled": 2}), rare=RARE, common=COMMON
        )
