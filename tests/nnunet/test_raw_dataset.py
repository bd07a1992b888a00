import json

import pytest

from nnunet_dro.nnunet.raw_dataset import case_table_of, find_raw_dataset, read_raw_dataset, training_cases


def test_cases_are_the_label_maps(bare):
    folder = bare(["b.1", "a [ü]"])
    for other in (".DS_Store", "._b.1.nii.gz", "readme.txt"):
        (folder / "labelsTr" / other).touch()

    assert training_cases(folder) == ["a [ü]", "b.1"]


def test_cases_listed_in_dataset_json_are_used(bare):
    from nnunetv2.utilities.utils import get_filenames_of_train_images_and_targets

    folder = bare(["elsewhere"])
    entry = {"images": ["x.nii.gz"], "label": "y.nii.gz"}
    (folder / "dataset.json").write_text(json.dumps({"file_ending": ".nii.gz", "dataset": {"b": entry, "a": entry}}))

    assert training_cases(folder) == sorted(get_filenames_of_train_images_and_targets(str(folder))) == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, r"usable dataset\.json") for text in ("{", "[]", "{}", '{"dataset": 3}')),
        ('{"file_ending": ".nii"}', r"label maps \*\.nii in labelsTr, got none"),
    ],
)
def test_dataset_that_names_no_cases_is_refused(bare, text, message):
    folder = bare(["a"])
    (folder / "dataset.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        training_cases(folder)


def test_dataset_without_a_folder_of_label_maps_is_refused(bare):
    folder = bare([])
    (folder / "labelsTr").rmdir()
    with pytest.raises(FileNotFoundError, match="must hold labelsTr"):
        training_cases(folder)


def test_dataset_is_found_by_path_name_and_number(bare, monkeypatch):
    folder = bare(["a"])
    monkeypatch.setenv("nnUNet_raw", str(folder.parent))

    for name in (str(folder), "Dataset007_Tiny", "7", "007"):
        assert find_raw_dataset(name) == folder
    for name in ("8", "Dataset008_Tiny"):
        with pytest.raises(FileNotFoundError, match=f"got '{name}', .* not exist. Choose from: Dataset007_Tiny"):
            find_raw_dataset(name)
    bare(["a"], name="Dataset007_Other")
    with pytest.raises(ValueError, match=r"got '7' for Dataset007_Other, Dataset007_Tiny. Give its name"):
        find_raw_dataset("7")


def test_dataset_that_cannot_be_found_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("nnUNet_raw", raising=False)
    with pytest.raises(ValueError, match="`nnUNet_raw` must be set"):
        find_raw_dataset("7")
    with pytest.raises(FileNotFoundError, match=r"a folder with a dataset\.json"):
        find_raw_dataset(str(tmp_path))
    with pytest.raises(FileNotFoundError, match="Dataset001_Not"):
        read_raw_dataset(tmp_path / "Dataset001_Not")


def test_images_and_label_maps_of_a_case_are_found(raw):
    dataset = read_raw_dataset(raw({"A": 2}, {"A": 1}))

    assert [path.name for path in dataset.images("A00Ts")] == ["A00Ts_0000.png"]
    assert dataset.label_map("A00Ts").parent.name == "labelsTs"
    assert dataset.label_map("A00Tr").is_file()
    assert dataset.number == 7
    folder = raw({"A": 3}, name="Dataset008_Tiny")
    with (folder / "cases.csv").open("a") as table:
        table.write("stranger,A\n")
    assert "stranger" in set(read_raw_dataset(folder).table["case"])


@pytest.mark.parametrize("name", ["Tiny", "Dataset7_Tiny", "Dataset007", "Dataset007_"])
def test_folder_with_another_name_is_refused_with_a_cure(raw, name):
    with pytest.raises(ValueError, match=f"named DatasetXXX_Name.*got '{name}'. Rename the folder"):
        read_raw_dataset(raw({"A": 3}, name=name))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cases.csv", None, r"must hold cases\.csv"),
        ("cases.csv", "patient,centre\nA00Tr,A\n", "must have a column `case`, got patient, centre"),
        ("cases.csv", "case\nA00Tr\nstranger\nA01Tr\n", "a row for every case, got none for A02Tr"),
        ("imagesTr/A01Tr_0000.png", None, "an image for every label map, got none for A01Tr"),
        ("dataset.json", None, r"must hold dataset\.json"),
        ("dataset.json", "{", r"must have a readable dataset\.json"),
        ("dataset.json", "[]", r"must have a readable dataset\.json"),
        ("dataset.json", '{"labels": {"a": 1}}', r"must have a readable dataset\.json with `file_ending`"),
        ("dataset.json", '{"file_ending": ".nii.gz"}', r"label maps \*\.nii\.gz in labelsTr, got none"),
    ],
)
def test_damaged_dataset_is_refused_by_what_is_wrong(raw, name, text, message):
    folder = raw({"A": 3})
    if text is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(text)

    with pytest.raises((FileNotFoundError, ValueError), match=message):
        read_raw_dataset(folder)


def test_case_table_is_found_from_any_folder_of_the_dataset(raw, tmp_path, monkeypatch):
    folder, preprocessed = raw({"A": 3}), tmp_path / "preprocessed"
    for variable in ("nnUNet_raw", "nnUNet_preprocessed"):
        monkeypatch.delenv(variable, raising=False)
    references = preprocessed / folder.name / "gt_segmentations"
    references.mkdir(parents=True)

    assert case_table_of(folder / "labelsTr") == case_table_of(folder) == folder / "cases.csv"
    assert case_table_of(references) is None
    monkeypatch.setenv("nnUNet_raw", str(folder.parent))
    assert case_table_of(references) == folder / "cases.csv"
    monkeypatch.setenv("nnUNet_preprocessed", str(preprocessed))
    (references.parent / "cases.csv").write_text("case,centre\n")
    assert case_table_of(references) == references.parent / "cases.csv"
    assert case_table_of(folder / "labelsTr") == folder / "cases.csv"
