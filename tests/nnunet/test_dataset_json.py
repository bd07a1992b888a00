import pytest

from nnunet_dro.nnunet.folders import find_dataset_json, read_dataset_json, read_if_usable


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
    ("content", "message"), [(b"{", "must be JSON"), (b"\xff\xff", "must be JSON"), (b"[]", "must be a mapping")]
)
def test_damaged_file_is_refused_by_name_or_passed_over(tmp_path, content, message):
    path = tmp_path / "dataset.json"
    path.write_bytes(content)

    with pytest.raises(ValueError, match=message) as error:
        read_dataset_json(path)
    assert str(path) in str(error.value)
    assert read_if_usable(path) is None
