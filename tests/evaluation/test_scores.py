import numpy as np
import pytest
import SimpleITK

from nnunet_dro.evaluation import Labels, read_label_map, score_case
from nnunet_dro.evaluation.inputs import find_inputs
from nnunet_dro.evaluation.scores import score_pairs
from nnunet_dro.evaluation.scoring import Scoring

LABELS = Labels({"one": (1,), "two": (2,)})


def write(path, values, dtype=np.uint8):
    path.parent.mkdir(parents=True, exist_ok=True)
    SimpleITK.WriteImage(SimpleITK.GetImageFromArray(np.asarray(values, dtype=dtype)), str(path))


def score_folders(reference, prediction, labels):
    return score_pairs(find_inputs(reference, prediction).pairs, labels, Scoring())[0]


def dice(reference, prediction, labels=LABELS):
    return {row["label"]: row["dice"] for row in score_case(np.array(reference), np.array(prediction), labels)}


def test_dice_of_two_squares_one_pixel_apart():
    reference, prediction = np.zeros((6, 6), np.uint8), np.zeros((6, 6), np.uint8)
    reference[1:3, 1:3] = prediction[1:3, 2:4] = 1

    row = score_case(reference, prediction, LABELS)[0]

    assert row == {"label": "one", "dice": 0.5, "n_reference": 4, "n_prediction": 4, "n_intersection": 2}


def test_dice_of_a_label_in_neither_is_undefined():
    assert np.isnan(dice([[1, 0]], [[1, 0]])["two"])


@pytest.mark.parametrize(("reference", "prediction"), [([[1, 2]], [[1, 0]]), ([[1, 0]], [[1, 2]])])
def test_dice_of_a_label_in_one_is_zero(reference, prediction):
    assert dice(reference, prediction) == {"one": 1.0, "two": 0.0}


def test_region_joins_its_labels():
    labels = Labels({"whole": (1, 2), "core": (2,)})

    assert dice([[1, 2, 0, 0]], [[2, 1, 1, 0]], labels) == {"whole": 0.8, "core": 0.0}


def test_ignored_voxels_count_nowhere():
    row = score_case(np.array([[1, 3, 3]]), np.array([[1, 1, 2]]), Labels({"one": (1,), "two": (2,)}, ignore=3))

    assert row[0]["dice"] == 1.0
    assert np.isnan(row[1]["dice"])


@pytest.mark.parametrize("offset", [0, 300, 70_000, -5])
def test_counts_do_not_depend_on_the_label_values(offset):
    rng = np.random.default_rng(0)
    reference, prediction = rng.integers(0, 4, (2, 20, 20))
    scores = score_case(reference + offset, prediction + offset, Labels({"a": (2 + offset,)}))[0]

    both = (reference == 2) & (prediction == 2)
    assert scores["n_intersection"] == both.sum()
    assert scores["dice"] == 2 * both.sum() / ((reference == 2).sum() + (prediction == 2).sum())


def test_score_case_leaves_its_input_alone():
    reference, prediction = np.array([[0, 1]], np.uint8), np.array([[1, 1]], np.uint8)
    score_case(reference, prediction, LABELS)

    assert reference.tolist() == [[0, 1]]
    assert prediction.tolist() == [[1, 1]]


def test_empty_label_maps_are_undefined():
    assert np.isnan(dice(np.zeros((0, 4), int), np.zeros((0, 4), int))["one"])


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
