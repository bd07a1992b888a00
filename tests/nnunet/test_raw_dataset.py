import json

import pytest

from nnunet_dro.nnunet.raw_dataset import case_table_of, find_raw_dataset, training_cases


def test_cases_are_the_label_maps(bare):
    folder = bare(["b.1", "a [ü]"])
    for other in (".DS_Store", "._b.1.nii.gz", "readme.txt"):
        (folder / "labelsTr" / other).touch()

    assert training_cases(folder) == ["a [ü]", "b.1"]


def test_cases_listed_in_dataset_json_are_used(bare):
    from nnunetv2.utilities.utils import get_filenames_of_train_images_and_targets

    folder = bare(["elsewhere"])
    entry = {"images": ["x.nii.gz"], "label": "y.nii.gz"}

    (folder / "dataset.json").write_text(
        json.dumps({"file_ending": ".nii.gz", "dataset": {"b": entry, "a": entry}})
    )

    assert (
        training_cases(folder)
        == sorted(get_filenames_of_train_images_and_targets(str(folder)))
        == ["a", "b"]
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"file_ending": ".nii", "file_ending": ".png"}', "'file_ending' is duplicated. Correct"),
        *((text, "`dataset_json` must be") for text in ("{", "[]")),
        *((text, r"usable dataset\.json") for text in ("{}", '{"dataset": 3}')),
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
        with pytest.raises(
            FileNotFoundError, match=f"got '{name}', .* not exist. Choose from: Dataset007_Tiny"
        ):
            find_raw_dataset(name)

    bare(["a"], name="Dataset007_Other")
    with pytest.raises(
        ValueError, match=r"got '7' for Dataset007_Other, Dataset007_Tiny. Give its name"
    ):
        find_raw_dataset("7")


def test_dataset_that_cannot_be_found_is_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("nnUNet_raw", raising=False)
    with pytest.raises(ValueError, match="`nnUNet_raw` must be set"):
        find_raw_dataset("7")
    with pytest.raises(FileNotFoundError, match=r"a folder with a dataset\.json"):
        find_raw_dataset(str(tmp_path))


def test_case_table_is_found_from_any_folder_of_the_dataset(bare, tmp_path, monkeypatch):
    folder = bare(["a"])
    preprocessed = tmp_path / "preprocessed"
    (folder / "cases.csv").write_text("case,centre\n")
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
