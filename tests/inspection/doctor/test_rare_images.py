"""Which images look rare, before a training: 25 ordinary ones, and five of a brighter scanner."""

import json

import numpy as np
import pandas as pd
import pytest
from nnunetv2.training.dataloading.nnunet_dataset import nnUNetDatasetBlosc2
from PIL import Image

from nnunet_dro.inspection.doctor.rare_images import RareImages
from tests.commands import done, refused, run

CASES = [f"case_{i:02d}" for i in range(30)]
RARE = ["case_03", "case_11", "case_12", "case_20", "case_29"]


def save(folder, case, *, rng):
    """Keep an image of two channels as nnU-Net's preprocessing does."""
    shape = (2, 3, 16, 16)
    ramp = np.broadcast_to(np.linspace(-1, 1, 16), shape)
    brightest = 4 if case in RARE else 1
    image = (brightest * ramp + rng.normal(0, 0.05, shape)).astype(np.float32)
    empty = np.zeros((1, *shape[1:]), np.int8)
    sizes = {"chunks": shape, "blocks": shape}
    sizes |= {"chunks_seg": empty.shape, "blocks_seg": empty.shape}
    nnUNetDatasetBlosc2.save_case(image, empty, {}, str(folder / case), **sizes)


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """The folder of a dataset that is planned and preprocessed."""
    for name in ("raw", "preprocessed", "results"):
        monkeypatch.setenv(f"nnUNet_{name}", str(tmp_path / name))
    folder = tmp_path / "preprocessed" / "Dataset007_Scanners"
    images = folder / "plans_2d"
    images.mkdir(parents=True)
    (folder / "gt_segmentations").mkdir()
    (folder / "dataset.json").write_text("{}")
    configurations = {
        "2d": {"data_identifier": "plans_2d"},
        "2d_large": {"inherits_from": "2d"},
        "3d_fullres": {"data_identifier": "plans_3d"},
    }
    (folder / "nnUNetPlans.json").write_text(json.dumps({"configurations": configurations}))

    rng = np.random.default_rng(0)
    for case in CASES:
        save(images, case, rng=rng)
    scanners = ["B" if case in RARE else "A" for case in CASES]
    table = pd.DataFrame({"case": CASES, "scanner": scanners, "rarity": ["high", "low"] * 15})
    table.to_csv(folder / "cases.csv", index=False)
    return folder


def doctor(*words):
    return run("doctor", *words)


def test_the_images_of_a_rare_scanner_are_named_with_a_picture(dataset):
    result = done(doctor("7", "2d"))

    lines = result.stdout.splitlines()
    assert lines[-1] == str(dataset / "plans_2d_rarity.png")
    assert "-tr nnUNetTrainerDRO" in result.stdout
    assert "Kinds of images: 2 by intensities (25 images, 5), " in result.stdout
    assert "Looking at the images of 30 of 30" in result.stderr

    table = pd.read_csv(dataset / "plans_2d_rarity.csv")
    assert sorted(table["case"]) == CASES
    assert sorted(table["case"][table["kind"] == 1]) == RARE
    assert table["scanner"].tolist() == ["B"] * 5 + ["A"] * 25
    assert table["rarity"][5:].is_monotonic_decreasing
    assert table["rarity"].mean() == pytest.approx(1.0, rel=1e-3)
    rarity = table.groupby("scanner")["rarity"].mean()
    assert rarity["B"] > 1.5 > 1 > rarity["A"]
    # A column of the case table that is called so, too.
    assert set(table["rarity (case table)"]) == {"high", "low"}

    with Image.open(dataset / "plans_2d_rarity.png") as picture:
        assert picture.width > picture.height > 300


@pytest.mark.parametrize(
    ("n", "expected"),
    [(9, [6, 7, 8]), (14, [8, 9, 10, 11, 12, 13]), (28, [17, 19, 21, 23, 25, 27])],
)
def test_six_ordinary_images_are_shown_if_there_are_so_many(n, expected):
    images = RareImages(None, pd.DataFrame({"case": range(n)}))

    assert images.ordinary["case"].tolist() == expected


def test_a_scanner_that_is_spelt_in_two_ways_is_reported(dataset):
    path = dataset / "cases.csv"
    path.write_text(path.read_text().replace("case_00,A", "case_00,a"))

    result = done(doctor("7", "2d"))

    assert "scanner has entries that may mean the same: A = a." in result.stderr


def test_images_are_looked_at_once_for_doctor_and_trainings(dataset, tmp_path):
    done(doctor("7", "2d"))

    again = done(doctor("Dataset007_Scanners", "2d_large", "-o", tmp_path / "new" / "out"))

    assert "Looking at" not in again.stderr
    first = (dataset / "plans_2d_rarity.csv").read_text()
    assert (tmp_path / "new" / "out" / "plans_2d_rarity.csv").read_text() == first
    assert len(json.loads((dataset / "plans_2d_fingerprints.json").read_text())) == 30
    # What else is in this folder would hide the format of the cases from nnU-Net.
    assert {path.suffix for path in (dataset / "plans_2d").iterdir()} == {".b2nd", ".pkl"}


def test_one_case_without_a_table_is_shown(dataset):
    (dataset / "cases.csv").unlink()
    for case in CASES[1:]:
        for path in (dataset / "plans_2d").glob(f"{case}*"):
            path.unlink()

    done(doctor("7", "2d"))

    assert (
        dataset / "plans_2d_rarity.csv"
    ).read_text() == "case,rarity,kind,kind_of_details\ncase_00,1,0,0\n"


def test_what_is_not_preprocessed_is_one_line_with_the_cure(dataset):
    cure = "Run nnUNetv2_preprocess -d Dataset007_Scanners -c 3d_fullres."
    missing = "plans_3d', which does not exist"
    refused(doctor("7", "3d_fullres"), "`dataset` must be preprocessed", missing, cure)
    (dataset / "plans_3d").mkdir()
    refused(doctor("7", "3d_fullres"), "`dataset` must be preprocessed", cure)

    refused(doctor("8", "2d"), "'8', which does not exist", "nnUNetv2_plan_and_preprocess")
    refused(doctor("7", "2"), "`configuration` must be in", "3d_fullres")
    refused(doctor("7", "2d", "-p", "Other"), "`dataset` must be planned", "Other.json")
    refused(doctor("7", "2d", "--by", "centre"), "`--by` must be a column of", "scanner")
    refused(doctor("7"), "`configuration` must come with a dataset", "3d_fullres")
    refused(doctor("7", "2d", "--patches", 2), "`--patches` must be left out before a training")
    refused(doctor(dataset, "-p", "Other"), "`--plans` must be left out after a training")
    assert not list(dataset.glob("*_rarity.*"))


def test_an_image_that_cannot_be_read_is_named(dataset):
    (dataset / "plans_2d" / "case_05.b2nd").write_bytes(b"damaged")

    line = done(doctor("7", "2d"), 2).stderr.splitlines()[-1]

    assert "The image of training case 'case_05'" in line
    assert "Run nnUNetv2_preprocess again" in line
    assert not list(dataset.glob("*_rarity.*"))
