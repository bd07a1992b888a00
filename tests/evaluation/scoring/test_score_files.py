import numpy as np
import pytest
import SimpleITK

from nnunet_dro.evaluation import Labels, read_label_map
from nnunet_dro.evaluation.inputs import find_inputs
from nnunet_dro.evaluation.scoring.score_arrays import Scoring
from nnunet_dro.evaluation.scoring.score_files import score_pairs

LABELS = Labels({"one": (1,), "two": (2,)})


def write(path, values, dtype=np.uint8):
    path.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.asarray(values, dtype=dtype)), str(path))


def score_folders(reference, prediction, labels):
    return score_pairs(find_inputs(reference, prediction).pairs, labels, Scoring()).table


def test_labels_read_names_regions_and_ignore():
    labels = Labels.from_dataset_json({"labels": {"background": 0, "whole": [1, 2], "core": 2, "ignore": 3}})

    assert labels == Labels({"whole": (1, 2), "core": (2,)}, ignore=3)


@pytest.mark.parametrize("entries", [None, {}, {"background": 0}, {"one": "a"}, {"one": []}])
def test_labels_without_integers_are_refused(entries):
    with pytest.raises(ValueError, match=r"`labels`.* must be"):
        Labels.from_dataset_json({"labels": entries})


@pytest.mark.parametrize("ending", [".nii.gz", ".nii", ".nrrd", ".mha", ".png", ".tif"])
def test_folders_in_any_format_give_a_row_per_case_and_label(tmp_path, ending):
    values = [[0, 1, 2]] * 3 if ending in (".png", ".tif") else [[[0, 1, 2]] * 3] * 2
    for case in ("001", "002"):
        write(tmp_path / "reference" / f"{case}{ending}", values)
        write(tmp_path / "prediction" / f"{case}{ending}", values)

    scores = score_folders(tmp_path / "reference", tmp_path / "prediction", LABELS)

    assert scores["case"].tolist() == ["001", "001", "002", "002"]
    assert scores["label"].tolist() == ["one", "two"] * 2
    assert (scores["dice"] == 1).all()


def test_missing_predictions_are_named(tmp_path):
    for case in "abc":
        write(tmp_path / "reference" / f"{case}.png", [[1]])
    write(tmp_path / "prediction" / "b.png", [[1]])

    with pytest.raises(FileNotFoundError, match="label map for every reference, got none for a, c"):
        score_folders(tmp_path / "reference", tmp_path / "prediction", LABELS)


def test_another_shape_names_the_file(tmp_path):
    write(tmp_path / "reference" / "a.png", [[1, 1]])
    write(tmp_path / "prediction" / "a.png", [[1]])

    with pytest.raises(ValueError, match=r"shape \(2, 1, 1\), got \(1, 1, 1\).*prediction/a\.png"):
        score_folders(tmp_path / "reference", tmp_path / "prediction", LABELS)


def test_two_files_of_a_case_are_refused(tmp_path):
    write(tmp_path / "reference" / "a.png", [[1]])
    write(tmp_path / "reference" / "a.nrrd", [[1]])

    with pytest.raises(ValueError, match=r"one file per case, got a\.nrrd and a\.png"):
        score_folders(tmp_path / "reference", tmp_path / "reference", LABELS)


def test_empty_folder_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="must hold label maps"):
        score_folders(tmp_path, tmp_path, LABELS)
    with pytest.raises(FileNotFoundError, match="must be a folder"):
        score_folders(tmp_path / "not", tmp_path, LABELS)


def test_label_map_a_rounding_error_from_integers_is_read(tmp_path):
    write(tmp_path / "a.nii.gz", [[[0, 1.0004, 3.00000006]]], np.float32)

    assert read_label_map(tmp_path / "a.nii.gz").values.tolist() == [[[0, 1, 3]]]


@pytest.mark.parametrize("value", [0.5, np.nan])
def test_label_map_of_fractions_is_refused(tmp_path, value):
    write(tmp_path / "a.nrrd", [[[0, value]]], np.float32)

    with pytest.raises(ValueError, match=r"must hold integers.*a\.nrrd"):
        read_label_map(tmp_path / "a.nrrd")


def test_unreadable_label_map_names_the_file(tmp_path):
    (tmp_path / "a.nrrd").write_text("text")

    with pytest.raises(ValueError, match=r"readable label map.*a\.nrrd"):
        read_label_map(tmp_path / "a.nrrd")
    with pytest.raises(FileNotFoundError, match=r"b\.nrrd"):
        read_label_map(tmp_path / "b.nrrd")
