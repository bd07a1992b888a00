import json

import numpy as np
import pandas as pd
import pytest
import SimpleITK

from experiments.convergence.pictures import HC18, ISIC
from experiments.datasets.pictures import (
    divided,
    means_of_blocks,
    training_numbers,
    write_pictures,
)

STRATA = pd.Series({f"case{i:02d}": ("many" if i < 20 else "few") for i in range(30)})


def write_data(folder, *, size=(13, 9), channels=3):
    """A raw dataset of those strata: every label map is the left part of its picture."""
    for name in ("imagesTr", "labelsTr"):
        (folder / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    for case in STRATA.index:
        pixels = rng.integers(0, 256, (*size, channels)).astype(np.uint8)
        labels = np.zeros(size, np.uint8)
        labels[:, :5] = 1
        picture = SimpleITK.GetImageFromArray(pixels, isVector=True)
        SimpleITK.WriteImage(picture, str(folder / "imagesTr" / f"{case}_0000.png"))
        SimpleITK.WriteImage(
            SimpleITK.GetImageFromArray(labels), str(folder / "labelsTr" / f"{case}.png")
        )
    table = pd.DataFrame({"case": STRATA.index, "size": STRATA.to_numpy()})
    table.to_csv(folder / "cases.csv", index=False)
    description = {
        "channel_names": {"0": "R", "1": "G", "2": "B"},
        "labels": {"background": 0, "lesion": 1},
        "numTraining": len(table),
        "file_ending": ".png",
    }
    (folder / "dataset.json").write_text(json.dumps(description))


def test_every_stratum_is_tested_alike_and_the_rest_is_trained_on():
    table = divided(STRATA, n_test=4, rng=np.random.default_rng(0))
    numbers = table.groupby(["stratum", "split"]).size().to_dict()

    assert numbers == {
        ("few", "test"): 4,
        ("few", "train"): 6,
        ("many", "test"): 4,
        ("many", "train"): 14,
        ("many", "validation"): 2,
    }
    assert training_numbers({"many": 20, "few": 10}, 4) == {"many": 14, "few": 6}
    assert sorted(table["case"]) == sorted(STRATA.index)

    other = divided(STRATA, n_test=4, rng=np.random.default_rng(1))
    is_test = other["split"] == "test"
    assert set(other["case"][is_test]) != set(table["case"][table["split"] == "test"])


def test_strata_are_thinned_and_others_left_out():
    strata = pd.concat([STRATA, pd.Series("other", index=[f"other{i}" for i in range(9)])])
    table = divided(strata, n_test=4, at_most={"many": 12, "few": 3}, rng=np.random.default_rng(0))

    assert table.groupby(["stratum", "split"]).size().to_dict() == {
        ("few", "test"): 4,
        ("few", "train"): 3,
        ("many", "test"): 4,
        ("many", "train"): 12,
        ("many", "validation"): 2,
    }


def test_too_few_cases_to_train_on_are_refused():
    with pytest.raises(ValueError, match=r"more than 12 cases of 'few', got 10\. Test with fewer"):
        divided(STRATA, n_test=10, rng=np.random.default_rng(0))


def test_pictures_and_label_maps_become_smaller_by_blocks(tmp_path):
    write_data(tmp_path / "data")
    write_pictures(
        tmp_path / "divided",
        tmp_path / "data",
        "size",
        n_test=4,
        smaller=3,
        rng=np.random.default_rng(0),
    )

    test = pd.read_csv(tmp_path / "divided" / "test_cases.csv")
    case = test["case"].iloc[0]
    before = tmp_path / "data" / "imagesTr" / f"{case}_0000.png"
    after = tmp_path / "divided" / "imagesTs" / f"{case}_0000.png"
    pixels = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(before)))
    smaller = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(after)))
    labels = tmp_path / "divided" / "labelsTs" / f"{case}.png"

    assert test["size"].value_counts().to_dict() == {"few": 4, "many": 4}
    assert smaller.shape == (4, 3, 3)
    assert smaller[0, 0, 0] == pixels[:3, :3, 0].mean().round()
    # Five of nine columns have the label: the second block has two of its three.
    assert SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(labels))).tolist() == [[1, 1, 0]] * 4


def test_blocks_that_are_not_full_are_left_out():
    assert means_of_blocks(np.arange(15.0).reshape(3, 5), 2).tolist() == [[3.0, 5.0]]


@pytest.mark.parametrize("pictures", [HC18, ISIC], ids=lambda pictures: pictures.name)
def test_the_rare_stratum_is_rare_in_the_data(pictures):
    assert pictures.sizes[pictures.rare] < 0.2 * sum(pictures.sizes.values())
