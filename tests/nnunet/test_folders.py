import pytest

from nnunet_dro.nnunet.folders import (
    FOLD_NAME,
    Fold,
    dataset_folder,
    find_dataset,
    find_dataset_json,
    fold_folder,
    folder_of,
    read_dataset_json,
    read_if_usable,
    splits_path,
)


def test_file_is_where_nnunet_looks(bare, tmp_path, monkeypatch):
    monkeypatch.setenv("nnUNet_preprocessed", str(tmp_path / "preprocessed"))
    path = splits_path(bare(["a"]))

    assert path == tmp_path / "preprocessed" / "Dataset007_Tiny" / "splits_final.json"
    with pytest.raises(ValueError, match=r"DatasetXXX_Name.*got 'Tiny'.*--output"):
        splits_path(bare(["a"], name="Tiny"))

    monkeypatch.delenv("nnUNet_preprocessed")
    with pytest.raises(ValueError, match=r"`nnUNet_preprocessed` must be set.*--output"):
        splits_path(tmp_path / "raw" / "Dataset007_Tiny")


def test_variable_of_nnunet_is_an_absolute_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("nnUNet_raw", "here")

    assert folder_of("nnUNet_raw") == tmp_path / "here"
    assert dataset_folder("nnUNet_raw", "Dataset001_A") == tmp_path / "here" / "Dataset001_A"

    monkeypatch.setenv("nnUNet_raw", "")
    assert dataset_folder("nnUNet_raw", "Dataset001_A") is None
    with pytest.raises(
        ValueError,
        match=r"got nothing\. Set it as for nnU-Net \(export nnUNet_raw=\.{3}\), or wait\.",
    ):
        folder_of("nnUNet_raw", cure="wait")


def test_dataset_is_found_among_others_or_the_others_are_named(tmp_path):
    for name in ("Dataset007_A", "Dataset070_B", "other", "Dataset1007_C"):
        (tmp_path / name).mkdir()
    (tmp_path / "Dataset008_file").touch()

    assert (
        find_dataset("7", tmp_path)
        == find_dataset("Dataset007_A", tmp_path)
        == tmp_path / "Dataset007_A"
    )
    assert find_dataset("1007", tmp_path) == tmp_path / "Dataset1007_C"

    for name in ("8", "Dataset007", "\u0667"):
        known = "Choose from: Dataset007_A, Dataset070_B, Dataset1007_C; or wait."
        with pytest.raises(FileNotFoundError, match=known):
            find_dataset(name, tmp_path, cure="wait")
    with pytest.raises(FileNotFoundError, match="Choose from: none"):
        find_dataset("7", tmp_path / "nowhere")


@pytest.mark.parametrize("fold", [0, "all"])
def test_fold_of_a_folder_is_what_the_folder_is_made_of(tmp_path, fold):
    folder = fold_folder(
        tmp_path / "Dataset007_A", "nnUNetTrainerDRO_beta10", "nnUNetPlans", "3d_fullres", fold
    )
    folder.mkdir(parents=True)

    read = Fold.of(folder)

    assert read == Fold(
        folder, "Dataset007_A", "nnUNetTrainerDRO_beta10", "nnUNetPlans", "3d_fullres"
    )
    assert read.description("plans.json") is None

    (folder.parent / "plans.json").write_text('{"plans_name": "nnUNetPlans"}')
    assert read.description("plans.json") == {"plans_name": "nnUNetPlans"}


@pytest.mark.parametrize("name", ["fold_", "fold_x", "fold_0 ", "fold_\u0660", "folds_0", "Fold_0"])
def test_other_names_are_no_folds(name):
    assert not FOLD_NAME.fullmatch(name)


def test_nearest_dataset_json_at_most_two_folders_above_is_found(tmp_path):
    references = tmp_path / "Dataset007_A" / "labelsTr" / "some"
    references.mkdir(parents=True)

    assert find_dataset_json(references) is None

    (tmp_path / "dataset.json").touch()
    assert find_dataset_json(references) is None

    (tmp_path / "Dataset007_A" / "dataset.json").touch()
    assert find_dataset_json(references) == tmp_path / "Dataset007_A" / "dataset.json"

    (references / "dataset.json").touch()
    assert find_dataset_json(references) == references / "dataset.json"


def test_byte_order_mark_is_no_damage_and_an_absent_file_is(tmp_path):
    path = tmp_path / "dataset.json"
    path.write_text('{"file_ending": ".nii"}', encoding="utf-8-sig")

    assert read_dataset_json(path) == read_if_usable(path) == {"file_ending": ".nii"}
    assert read_if_usable(tmp_path / "nowhere") is None
    with pytest.raises(FileNotFoundError, match="nowhere"):
        read_dataset_json(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"labels": {"background": 0, "vessel": 3, "vessel": 4}}', "'vessel' is duplicated"),
        (b'{"labels": {}, "labels": {"vessel": 4}}', "'labels' is duplicated"),
        (b"{", "must be JSON"),
        (b"\xff\xff", "must be JSON"),
        (b"[]", "must be a mapping"),
    ],
)
def test_damaged_file_is_refused_by_name_or_passed_over(tmp_path, content, message):
    path = tmp_path / "dataset.json"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=message) as error:
        read_dataset_json(path)
    assert str(path) in str(error.value)
    assert read_if_usable(path) is None
