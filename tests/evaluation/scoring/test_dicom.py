"""DICOM segmentations that highdicom writes, against the same label maps as NIfTI."""

import json

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation import evaluate
from nnunet_dro.evaluation.scoring.label_maps import Labels, read_label_map
from nnunet_dro.evaluation.scoring.map_pairs import read_pair
from nnunet_dro.evaluation.stratifying.images import find_image, read_image
from tests.commands import done, run
from tests.evaluation.made_dicom import (
    TURNED,
    UPRIGHT,
    ct_series,
    segmentation,
    write_segmentation,
    write_series,
)
from tests.evaluation.made_folders import write_map

SPACING = (1.0, 2.0, 5.0)
ORIGIN = (-10.0, 20.0, 30.0)
NAMES = ("Liver", "Tumour")
METRICS = ("dice", "hd95", "assd", "nsd", "volume_error", "hd")


def organ_and_tumour(shift=0):
    """Twelve slices: an organ, and single slices of a tumour with gaps of 1 to 4 slices."""
    values = np.zeros((12, 9, 8), np.uint8)
    values[2:4, 1:5, 1 + shift : 5 + shift] = 1
    for n in (2, 5, 7, 10):
        values[n, 6:8, 2 : 5 - shift] = 2
    return values


def scores(reference, prediction, **options):
    evaluation = evaluate(reference, prediction, metrics=METRICS, **options)
    return evaluation.scores.set_index(["case", "label"]).select_dtypes("number"), evaluation


def write_dataset_json(folder, labels):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset.json").write_text(json.dumps({"labels": {"background": 0, **labels}}))
    return folder / "dataset.json"


@pytest.mark.parametrize("kind", ["BINARY", "LABELMAP"])
@pytest.mark.parametrize("directions", [UPRIGHT, TURNED], ids=["upright", "turned"])
@pytest.mark.parametrize("spacing", [SPACING, (0.7, 0.7, 2.5)])
def test_scores_are_those_of_the_same_maps_as_nifti(tmp_path, kind, directions, spacing):
    geometry = {"spacing": spacing, "origin": ORIGIN}
    slices = ct_series(np.zeros((12, 9, 8)), directions=directions, **geometry)
    for case, shift in (("a", 0), ("b", 1), ("c", 2)):
        for folder, values in (
            ("reference", organ_and_tumour()),
            ("prediction", organ_and_tumour(shift)),
        ):
            write_segmentation(tmp_path / folder / f"{case}.dcm", slices, values, NAMES, kind=kind)
            write_map(
                tmp_path / "nifti" / folder / f"{case}.nii.gz",
                values,
                direction=directions.ravel().tolist(),
                **geometry,
            )
    labels = write_dataset_json(tmp_path, {"Liver": 1, "Tumour": 2})

    expected, _ = scores(
        tmp_path / "nifti" / "reference", tmp_path / "nifti" / "prediction", dataset_json=labels
    )
    for reference, prediction in (
        (tmp_path / "reference", tmp_path / "prediction"),
        (tmp_path / "nifti" / "reference", tmp_path / "prediction"),
        (tmp_path / "reference", tmp_path / "nifti" / "prediction"),
    ):
        table, _ = scores(reference, prediction, dataset_json=labels)
        pd.testing.assert_frame_equal(table, expected, rtol=1e-6)
    assert expected["dice"].nunique() > 3


def test_flipped_slices_and_exchanged_numbers_are_the_same(tmp_path):
    slices = ct_series(np.zeros((12, 9, 8)))
    values = organ_and_tumour()
    exchanged = np.choose(values, [0, 2, 1])
    write_segmentation(tmp_path / "reference" / "a.dcm", slices, values, NAMES)
    # The series in the other order, so that slices and frames are stored from the top.
    write_segmentation(
        tmp_path / "prediction" / "a.dcm", slices[::-1], exchanged[::-1], NAMES[::-1]
    )

    table, evaluation = scores(tmp_path / "reference", tmp_path / "prediction")
    assert table["dice"].tolist() == [1, 1]
    assert table["hd"].tolist() == [0, 0]
    assert evaluation.labels == ("Liver", "Tumour")
    assert table["reference_ml"].tolist() == pytest.approx([0.32, 0.24])


def test_segments_are_named_apart_from_capitals_and_underscores(tmp_path):
    slices = ct_series(np.zeros((12, 9, 8)))
    values = organ_and_tumour()
    write_segmentation(
        tmp_path / "reference" / "a.dcm",
        slices,
        values,
        [("Segment_1", "liver  left"), ("Tumour", "x")],
    )
    write_segmentation(tmp_path / "prediction" / "a.dcm", slices, values, ["LIVER_LEFT", "tumour"])
    labels = write_dataset_json(tmp_path, {"tumour": 7, "Liver-left": 300})

    table, _ = scores(tmp_path / "reference", tmp_path / "prediction", dataset_json=labels)
    assert table.loc[("a", "tumour"), "n_reference"] == (values == 2).sum()
    assert table["dice"].tolist() == [1, 1]


def test_gaps_are_closed_where_the_file_does_not_say_the_step(tmp_path):
    slices = ct_series(np.zeros((12, 9, 8)))
    values = np.zeros((12, 9, 8), np.uint8)
    # 0, 2 and 5 steps: no two slices are neighbours.
    values[[1, 3, 6], 2:5, 2:5] = 1
    for name, removed in (("a", True), ("b", False)):
        made = segmentation(slices, values, ["Liver"])
        measures = made.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0]
        assert measures.SpacingBetweenSlices == 5
        if removed:
            del measures.SpacingBetweenSlices
        made.save_as(tmp_path / f"{name}.dcm")

    for name in "ab":
        label_map = read_label_map(tmp_path / f"{name}.dcm")
        assert label_map.grid.spacing == (5, 2, 1)
        assert label_map.values.shape == (6, 9, 8)
        assert (label_map.values == values[1:7]).all()


def test_single_slices_take_the_thickness_or_say_that_it_is_not_known(tmp_path):
    values = np.zeros((12, 9, 8), np.uint8)
    values[4, 2:5, 2:5] = 1
    made = segmentation(ct_series(np.zeros((12, 9, 8))), values, ["Liver"])
    measures = made.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0]
    del measures.SpacingBetweenSlices
    measures.SliceThickness = 3
    made.save_as(tmp_path / "a.dcm")
    assert read_label_map(tmp_path / "a.dcm").grid.spacing == (3, 2, 1)

    measures.SliceThickness = 0
    made.save_as(tmp_path / "a.dcm")
    with pytest.raises(ValueError, match=r"how far apart slices are, got .*a\.dcm.*--images"):
        read_label_map(tmp_path / "a.dcm")


def test_wrong_steps_in_the_file_are_not_believed(tmp_path):
    made = segmentation(ct_series(np.zeros((12, 9, 8))), organ_and_tumour(), NAMES)
    made.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].SpacingBetweenSlices = 3.4
    made.save_as(tmp_path / "a.dcm")
    assert read_label_map(tmp_path / "a.dcm").grid.spacing == (5, 2, 1)


def test_slices_at_uneven_distances_are_refused(tmp_path):
    made = segmentation(ct_series(np.zeros((12, 9, 8))), organ_and_tumour(), NAMES)
    last = made.PerFrameFunctionalGroupsSequence[-1].PlanePositionSequence[0]
    last.ImagePositionPatient = [-10, 20, 91.3]
    made.save_as(tmp_path / "a.dcm")
    with pytest.raises(ValueError, match=r"slices at even distances, got .*a\.dcm"):
        read_label_map(tmp_path / "a.dcm")

    last.ImagePositionPatient = [-8, 20, 80]
    made.save_as(tmp_path / "a.dcm")
    with pytest.raises(ValueError, match=r"parallel slices, one above the other.*a\.dcm"):
        read_label_map(tmp_path / "a.dcm")


def test_series_is_the_grid_of_segmentations(tmp_path):
    grey = np.arange(12 * 9 * 8).reshape(12, 9, 8)
    slices = ct_series(grey)
    values = organ_and_tumour()
    write_series(tmp_path / "images" / "a", slices)
    write_segmentation(tmp_path / "reference" / "a.dcm", slices, values, NAMES)
    write_segmentation(tmp_path / "prediction" / "a.dcm", slices, 2 * (values == 2), NAMES)

    image, grid = read_image(find_image(tmp_path / "images", "a"))
    assert (image == grey[::-1]).all()
    assert grid.spacing == (5, 2, 1)
    labels = Labels({"Liver": (1,), "Tumour": (2,)})
    (reference,) = read_pair(tmp_path / "reference" / "a.dcm", None, labels, image=grid)
    assert (reference.values == values[::-1]).all()

    # The liver is missed: its distance is the diagonal of the image, or of the slices.
    on_image, _ = scores(
        tmp_path / "reference",
        tmp_path / "prediction",
        images=tmp_path / "images",
        empty="diagonal",
        by=["auto:volume", "auto:contrast"],
    )
    assert on_image.loc[("a", "Liver"), "hd"] == pytest.approx(np.linalg.norm([55, 16, 7]))
    assert on_image.columns.str.startswith("auto:").sum() == 0
    unknown, evaluation = scores(tmp_path / "reference", tmp_path / "prediction", empty="diagonal")
    assert unknown.loc[("a", "Liver"), "hd"] == pytest.approx(np.linalg.norm([40, 16, 7]))
    assert any("size of the images is not known" in note for note in evaluation.notes)
    with pytest.raises(ValueError, match="must come with images for auto:volume"):
        scores(tmp_path / "reference", tmp_path / "prediction", by=["auto:volume"])


def test_predicted_segments_without_a_reference_are_named(tmp_path):
    slices = ct_series(np.zeros((12, 9, 8)))
    values = organ_and_tumour()
    write_segmentation(tmp_path / "reference" / "a.dcm", slices, values == 1, ["Liver"])
    write_segmentation(tmp_path / "prediction" / "a.dcm", slices, values, NAMES)
    table, evaluation = scores(tmp_path / "reference", tmp_path / "prediction")
    assert table["dice"].tolist() == [1]
    assert "Segments that occur only in predictions are not scored: Tumour." in evaluation.notes


def test_missing_and_empty_segmentations_are_scored(tmp_path):
    slices = ct_series(np.zeros((12, 9, 8)))
    for case in "ab":
        write_segmentation(
            tmp_path / "reference" / f"{case}.dcm", slices, organ_and_tumour(), NAMES
        )
    write_segmentation(tmp_path / "prediction" / "a.dcm", slices, np.zeros((12, 9, 8)), NAMES)
    table, _ = scores(tmp_path / "reference", tmp_path / "prediction", missing="worst")
    assert table["dice"].tolist() == [0] * 4
    assert table["n_prediction"].tolist() == [0] * 4


def refusal(tmp_path, **options):
    with pytest.raises(ValueError) as raised:
        evaluate(tmp_path / "reference", tmp_path / "prediction", **options)
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_segmentations_that_are_no_label_maps_are_refused(tmp_path):
    slices = ct_series(np.zeros((12, 9, 8)))
    values = organ_and_tumour()
    write_segmentation(tmp_path / "reference" / "a.dcm", slices, values, NAMES)
    path = tmp_path / "prediction" / "a.dcm"

    layers = np.stack([values == 1, values > 0], axis=-1)
    write_segmentation(path, slices, layers, NAMES)
    assert "do not overlap, got 'Liver' and 'Tumour' in one voxel" in refusal(tmp_path)
    # Those that are not scored may overlap.
    write_segmentation(path, slices, layers, ["Liver", "All"])
    table, _ = scores(tmp_path / "reference", tmp_path / "prediction")
    assert table["dice"].tolist() == [1, 0]

    fractions = (values == 1)[..., np.newaxis] * 0.5
    write_segmentation(
        path, slices, fractions, ["Liver"], kind="FRACTIONAL", fractional_type="PROBABILITY"
    )
    assert "labels or binary segments, got the fractions" in refusal(tmp_path)
    slices[0].save_as(path, enforce_file_format=True)
    assert "must be a DICOM segmentation, got CT Image Storage" in refusal(tmp_path)
    path.write_bytes(b"no")
    assert "must be a whole DICOM file" in refusal(tmp_path)


def test_segmentations_of_other_images_are_refused(tmp_path):
    values = organ_and_tumour()
    write_segmentation(
        tmp_path / "reference" / "a.dcm", ct_series(np.zeros((12, 9, 8))), values, NAMES
    )
    path = tmp_path / "prediction" / "a.dcm"
    labels = write_dataset_json(tmp_path, {"Liver": 1, "Tumour": 2})

    moved = ct_series(np.zeros((12, 9, 8)), origin=(-10, 20, 32))
    write_segmentation(path, moved, values, NAMES)
    assert "must have the slices of" in refusal(tmp_path)
    moved = ct_series(np.zeros((12, 9, 8)), origin=(-9, 20, 30))
    write_segmentation(path, moved, values, NAMES)
    assert "must have the origin" in refusal(tmp_path)

    path.unlink()
    write_map(path.with_name("a.nii.gz"), values[:8], spacing=SPACING, origin=ORIGIN)
    assert "slices on those of the grid, got one 15 mm away" in refusal(
        tmp_path, dataset_json=labels
    )


def test_names_need_values_where_the_other_map_has_values(tmp_path):
    values = organ_and_tumour()
    slices = ct_series(np.zeros((12, 9, 8)))
    write_segmentation(tmp_path / "reference" / "a.dcm", slices, values, NAMES)
    write_map(tmp_path / "prediction" / "a.nii.gz", values, spacing=SPACING, origin=ORIGIN)
    assert "Give a dataset.json" in refusal(tmp_path)

    labels = write_dataset_json(tmp_path, {"Liver": 1, "Lesion": 2})
    message = refusal(tmp_path, dataset_json=labels)
    assert "labels of one value, got 'Tumour' in" in message
    labels = write_dataset_json(tmp_path, {"Liver": [1, 2], "Tumour": 2})
    assert "labels of one value, got 'Liver' in" in refusal(tmp_path, dataset_json=labels)


def test_without_highdicom_the_extra_is_named(tmp_path, monkeypatch):
    slices = ct_series(np.zeros((12, 9, 8)))
    for folder in ("reference", "prediction"):
        write_segmentation(tmp_path / folder / "a.dcm", slices, organ_and_tumour(), NAMES)
    monkeypatch.setitem(__import__("sys").modules, "highdicom", None)
    assert 'pip install "nnunet-dro[dicom]"' in refusal(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "pydicom", None)
    assert 'pip install "nnunet-dro[dicom]"' in refusal(tmp_path)


def test_commands_take_segmentations_and_series(tmp_path):
    grey = np.random.default_rng(0).integers(0, 1000, (12, 9, 8))
    slices = ct_series(grey)
    write_series(tmp_path / "images" / "a", slices)
    write_segmentation(tmp_path / "reference" / "a.dcm", slices, organ_and_tumour(), NAMES)
    write_segmentation(tmp_path / "prediction" / "a.dcm", slices, organ_and_tumour(1), NAMES)

    done(run("evaluate", tmp_path / "reference", tmp_path / "prediction", "-o", tmp_path / "out"))
    images = ("--images", tmp_path / "images")
    done(run("report", tmp_path / "out", *images, "--viewer"))
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("<figure") > 2
    done(run("strata", images[1], tmp_path / "reference", "-o", tmp_path / "cases.csv"))
    row = pd.read_csv(tmp_path / "cases.csv").iloc[0]
    assert row[["size_ml", "spacing_mm", "volume_ml"]].tolist() == pytest.approx([0.56, 5, 8.64])
