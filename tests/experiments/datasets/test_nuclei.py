import json

import numpy as np
import pandas as pd
import pytest
import SimpleITK

from experiments.datasets.nuclei import N_TEST, N_TRAIN, TEST_SIZE, split_nuclei, write_nuclei
from tests.experiments.made_nuclei import made_table, write_nuclei_dataset


def test_a_split_has_the_numbers_asked_for_and_no_field_on_both_sides():
    table = made_table()
    split = split_nuclei(table, rng=np.random.default_rng(0))

    of = table.set_index("case")

    assert of.loc[split["train"], "modality"].value_counts().to_dict() == N_TRAIN
    assert (of.loc[split["test"], "modality"].value_counts() <= pd.Series(N_TEST)).all()
    assert not set(of.loc[split["train"], "field"]) & set(of.loc[split["test"], "field"])

    other = split_nuclei(table, rng=np.random.default_rng(1))
    assert set(split["train"]) != set(other["train"])
    with pytest.raises(ValueError, match="more than 300 images of fluorescence"):
        split_nuclei(
            made_table()[lambda table: table["modality"] != "fluorescence"],
            rng=np.random.default_rng(0),
        )


def test_a_divided_dataset_is_one_for_nnu_net(tmp_path):
    data = tmp_path / "data"
    folder = tmp_path / "divided"
    table = write_nuclei_dataset(data, size=(TEST_SIZE + 8, 72))
    (data / "dataset.json").write_text(
        json.dumps({"labels": {"background": 0, "nucleus": 1}, "numTraining": 1})
    )
    write_nuclei(
        folder, data, table, n_test=dict.fromkeys(N_TRAIN, 2), rng=np.random.default_rng(0)
    )

    train, test = (pd.read_csv(folder / name) for name in ("cases.csv", "test_cases.csv"))

    assert train[train["split"] == "train"]["modality"].value_counts().to_dict() == N_TRAIN
    assert test["modality"].value_counts().to_dict() == dict.fromkeys(N_TRAIN, 2)

    validation = train[train["split"] == "validation"]
    assert validation["modality"].tolist() == ["fluorescence"] * 2

    fields = table.set_index("case")["field"]
    sides = [
        set(fields[rows["case"]]) for rows in (train[train["split"] == "train"], validation, test)
    ]

    assert not sides[0] & sides[1] | sides[0] & sides[2] | sides[1] & sides[2]
    assert json.loads((folder / "dataset.json").read_text())["numTraining"] == len(train)

    for suffix, cases, height in (
        ("Tr", train["case"], TEST_SIZE + 8),
        ("Ts", test["case"], TEST_SIZE),
    ):
        assert {path.stem for path in (folder / f"labels{suffix}").iterdir()} == set(cases)
        image, labels = (
            SimpleITK.ReadImage(str(folder / f"{name}{suffix}" / f"{cases.iloc[0]}{ending}"))
            for name, ending in (("images", "_0000.png"), ("labels", ".png"))
        )
        assert image.GetSize() == labels.GetSize() == (72, height)


def test_a_missing_image_is_named_and_nothing_is_left(tmp_path):
    with pytest.raises(FileNotFoundError, match="Give the folder of the whole dataset with --data"):
        write_nuclei(
            tmp_path / "divided",
            tmp_path,
            made_table(),
            n_test=N_TEST,
            rng=np.random.default_rng(0),
        )
    assert not (tmp_path / "divided").exists()
