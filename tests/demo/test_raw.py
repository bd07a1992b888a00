import json
from collections import Counter

import numpy as np
import pytest

from nnunet_dro.demo.raw import divide, read_raw_dataset, strata_by


def division_of(folder, by="centre", seed=0):
    dataset = read_raw_dataset(folder)
    stratum_of_case = strata_by(dataset, by)
    return divide(dataset, stratum_of_case, rng=np.random.default_rng(seed)), stratum_of_case


def test_a_fifth_of_every_stratum_is_held_out(raw):
    division, stratum_of_case = division_of(raw({"A": 20, "B": 10, "C": 3, "D": 2}))

    assert Counter(stratum_of_case[list(division.test)]) == {"A": 4, "B": 2, "C": 1}
    assert Counter(stratum_of_case[list(division.validation)]) == {"A": 1}
    assert Counter(stratum_of_case[list(division.train)]) == {"A": 15, "B": 8, "C": 2, "D": 2}


def test_no_case_is_in_two_parts(raw):
    division, _ = division_of(raw({"A": 20, "B": 10}))

    assert Counter(division.train + division.validation + division.test).most_common(1)[0][1] == 1


def test_division_follows_its_seed(raw):
    folder = raw({"A": 30})

    assert division_of(folder)[0] == division_of(folder)[0]
    assert division_of(folder)[0].test != division_of(folder, seed=1)[0].test


def test_own_test_set_is_used(raw):
    division, _ = division_of(raw({"A": 12, "B": 2}, {"A": 2, "B": 2}))

    assert division.test == ("A00Ts", "A01Ts", "B00Ts", "B01Ts")
    assert len(division.train) + len(division.validation) == 14


def test_split_column_is_used(raw):
    folder = raw({"A": 6})
    splits = ["train", "train", "test", "validation", "train", "test"]
    rows = "".join(f"A{n:02d}Tr,A,{split}\n" for n, split in enumerate(splits))
    (folder / "cases.csv").write_text("case,centre,split\n" + rows)

    division, _ = division_of(folder)

    assert (division.validation, division.test) == (("A03Tr",), ("A02Tr", "A05Tr"))


def test_images_and_label_maps_of_a_case_are_found(raw):
    dataset = read_raw_dataset(raw({"A": 2}, {"A": 1}))

    assert [path.name for path in dataset.images("A00Ts")] == ["A00Ts_0000.png"]
    assert dataset.label_map("A00Ts").parent.name == "labelsTs"
    assert dataset.label_map("A00Tr").is_file()
    assert dataset.number == 7


def test_too_few_cases_are_refused(raw):
    with pytest.raises(ValueError, match=r"must have enough cases, got .* to test"):
        division_of(raw({"A": 2, "B": 2}))


@pytest.mark.parametrize("name", ["Tiny", "Dataset7_Tiny", "Dataset007", "Dataset007_"])
def test_folder_with_another_name_is_refused_with_a_cure(raw, name):
    with pytest.raises(ValueError, match=f"named DatasetXXX_Name.*got '{name}'. Rename the folder"):
        read_raw_dataset(raw({"A": 3}, name=name))


@pytest.mark.parametrize("name", ["cases.csv", "dataset.json"])
def test_missing_file_is_named(raw, name):
    folder = raw({"A": 3})
    (folder / name).unlink()

    with pytest.raises(FileNotFoundError, match=f"must hold {name}"):
        read_raw_dataset(folder)


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="Dataset001_Not"):
        read_raw_dataset(tmp_path / "Dataset001_Not")


def test_table_without_case_column_is_refused(raw):
    with pytest.raises(ValueError, match="must have a column `case`, got patient, centre"):
        read_raw_dataset(raw({"A": 3}, columns="patient,centre"))


def test_table_with_unknown_or_missing_cases_is_refused(raw):
    folder = raw({"A": 3})
    table = (folder / "cases.csv").read_text()

    (folder / "cases.csv").write_text(table + "stranger,A\n")
    with pytest.raises(ValueError, match="that are there, got stranger"):
        read_raw_dataset(folder)
    (folder / "cases.csv").write_text("\n".join(table.splitlines()[:-1]) + "\n")
    with pytest.raises(ValueError, match="a row for every case, got none for A02Tr"):
        read_raw_dataset(folder)


def test_absent_column_names_those_there_are(raw):
    with pytest.raises(ValueError, match=r"got 'scanner'\. Choose one with --by: centre"):
        strata_by(read_raw_dataset(raw({"A": 3})), "scanner")


def test_case_without_image_is_named(raw):
    folder = raw({"A": 3})
    (folder / "imagesTr" / "A01Tr_0000.png").unlink()

    with pytest.raises(FileNotFoundError, match="an image for every label map, got none for A01Tr"):
        read_raw_dataset(folder)


@pytest.mark.parametrize("text", ["{", json.dumps({"labels": {"a": 1}}), "[]"])
def test_unusable_dataset_json_is_refused(raw, text):
    folder = raw({"A": 3})
    (folder / "dataset.json").write_text(text)

    with pytest.raises(ValueError, match=r"dataset\.json"):
        read_raw_dataset(folder)


def test_dataset_without_label_maps_of_its_ending_is_refused(raw):
    folder = raw({"A": 3})
    (folder / "dataset.json").write_text(json.dumps({"labels": {"a": 1}, "file_ending": ".nii.gz"}))

    with pytest.raises(ValueError, match=r"label maps \*\.nii\.gz in labelsTr, got none"):
        read_raw_dataset(folder)
