import base64
import io
import json

import numpy as np
import pytest
import SimpleITK
from PIL import Image

from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.inspection.images import (
    CaseVolume,
    PreprocessedImages,
    RawImages,
    choose_slice,
    find_images,
    slice_of,
)
from nnunet_dro.inspection.suspects import find_suspects
from nnunet_dro.nnunet.folders import Fold

from .made_folds import fold_folder, ranked, write_log

LABELS = {"background": 0, "organ": 1, "tumour": 2}


def shown(slice_):
    """The grey values of a picture."""
    encoded = base64.b64decode(slice_.plane.image.split(",")[1])
    return np.asarray(Image.open(io.BytesIO(encoded)).convert("L"), dtype=float)


def box(shape, *spans):
    mask = np.zeros(shape, dtype=bool)
    mask[tuple(slice(*span) for span in spans)] = True
    return mask


@pytest.mark.parametrize(
    ("mask", "spacing", "expected"),
    [
        (box((9, 8, 7), (2, 7), (1, 5), (1, 5)), (1, 1, 1), (0, 4)),  # the middle of equal slices
        (box((9, 8, 7), (2, 7), (1, 5), (1, 5)), (1, 3, 1), (1, 3)),  # thick slices across y
        (box((9, 8, 7), (2, 7), (1, 5), (1, 5)), (1, 1.05, 1), (0, 4)),  # as good as isotropic
        (
            box((9, 8, 7), (2, 7), (1, 5), (1, 5)) | box((9, 8, 7), (6, 7), (0, 8), (0, 7)),
            (2, 1, 1),
            (0, 6),
        ),
        (box((9, 8, 7), (0, 0), (0, 0), (0, 0)), (1, 1, 1), (0, 4)),  # nothing is labelled
        (box((1, 8, 7), (0, 1), (1, 5), (1, 5)), (1, 5, 5), (0, 0)),
    ],
)
def test_slice_with_most_foreground_across_the_longest_voxels(mask, spacing, expected):
    assert choose_slice(mask, spacing) == expected


def write_raw(
    root, values, image=None, *, ending=".nii.gz", spacing=(1, 1, 1), case="a.b", **dataset
):
    """A raw dataset of one case; the image is the label map unless given."""
    raw = root / "raw" / "Dataset123_Made"
    for folder, suffix, array in (("imagesTr", "_0000", image), ("labelsTr", "", values)):
        (raw / folder).mkdir(parents=True, exist_ok=True)
        array = np.asarray(values if array is None else array)
        written = SimpleITK.GetImageFromArray(
            array.astype(np.uint8), isVector=array.ndim == 3 and ending == ".png"
        )
        if ending != ".png":
            written.SetSpacing(spacing)
        SimpleITK.WriteImage(written, str(raw / folder / f"{case}{suffix}{ending}"))
    (raw / "dataset.json").write_text(
        json.dumps({"labels": LABELS, "file_ending": ending, **dataset})
    )
    return raw


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("nnUNet_raw", str(tmp_path / "raw"))
    monkeypatch.setenv("nnUNet_preprocessed", str(tmp_path / "preprocessed"))
    return tmp_path


def picture_of(root, **fold):
    """The picture of the case of the raw dataset."""
    source, note = find_images(Fold.of(fold_folder(root, **fold)))
    assert isinstance(source, RawImages)
    assert note == ""
    return slice_of(source.read("a.b"), source.labels)


def test_volume_is_shown_in_its_thick_slices(made):
    values = np.zeros((6, 20, 30))
    values[3, 5:15, 5:10] = 1
    values[3, 5:9, 20:26] = 2
    write_raw(made, values, spacing=(0.5, 1.0, 4.0))

    picture = picture_of(made)

    assert picture.plane.name == "axial 4 of 6"
    assert (picture.plane.width, picture.plane.height) == (30, 20)
    assert picture.plane.aspect == pytest.approx(30 * 0.5 / (20 * 1.0))
    assert picture.plane.outlines == (("label s0", "M5 5h5v10h-5z"), ("label s1", "M20 5h6v4h-6z"))

    grey = shown(picture)
    assert grey.shape == (20, 30)
    assert grey[1, 1] < 30
    assert grey[7, 23] > 225
    assert not picture.is_empty


def test_colour_picture_in_two_dimensions(made):
    values = np.zeros((12, 16))
    values[2:5, 3:9] = 2
    write_raw(
        made, values, np.stack([values * 100, values * 0, values * 50], axis=-1), ending=".png"
    )

    picture = picture_of(made, configuration="2d")

    assert picture.plane.name == "the whole image"
    assert picture.plane.outlines == (("label s1", "M3 2h6v3h-6z"),)
    assert shown(picture)[3, 5] > 225


def test_regions_have_an_outline_each_and_what_is_ignored_or_empty_none(made):
    values = np.zeros((3, 9, 9))
    values[1, 1:6, 1:6] = 1
    values[1, 2:4, 2:4] = 2
    values[2] = 3
    write_raw(
        made,
        values,
        spacing=(1, 1, 3),
        labels={"background": 0, "whole": [1, 2], "core": [2], "ignore": 3},
    )

    picture = picture_of(made)

    assert picture.plane.name == "axial 2 of 3"
    assert picture.plane.outlines == (("label s0", "M1 1h5v5h-5z"), ("label s1", "M2 2h2v2h-2z"))

    write_raw(made, np.zeros((5, 9, 9)), np.ones((5, 9, 9)))
    empty = picture_of(made)

    assert (empty.is_empty, empty.plane.outlines, empty.plane.name) == (True, (), "axial 3 of 5")


def test_files_that_dataset_json_names_are_read_or_refused(made):
    values = np.zeros((3, 9, 9))
    values[1, 2:4, 2:4] = 1
    named = {"x": {"images": ["imagesTr/a.b_0000.nii.gz"], "label": "labelsTr/a.b.nii.gz"}}
    raw = write_raw(made, values, dataset=named)

    source, _ = find_images(Fold.of(fold_folder(made)))

    assert slice_of(source.read("x"), source.labels).plane.outlines == (
        ("label s0", "M2 2h2v2h-2z"),
    )

    write_raw(made, values, np.zeros((3, 9, 8)), dataset=named)
    with pytest.raises(ValueError, match="shape"):
        source.read("x")

    (raw / "imagesTr" / "a.b_0000.nii.gz").write_bytes(b"no image")
    with pytest.raises(ValueError, match="readable"):
        source.read("x")

    (raw / "labelsTr" / "a.b.nii.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"a\.b\.nii\.gz is not in"):
        source.read("x")


def test_no_picture_shows_the_prediction_of_a_training_case(made, monkeypatch):
    values = np.zeros((3, 9, 9))
    values[1, 2:4, 2:4] = 1
    raw = write_raw(made, values)
    # Fold 0 was divided anew, and is now trained on the case; fold 1 validates it.
    for fold in "01":
        folder = fold_folder(made, fold=fold) / "validation"
        folder.mkdir()
        predicted = SimpleITK.GetImageFromArray((values * (fold == "1")).astype(np.uint8))
        SimpleITK.WriteImage(predicted, str(folder / "a.b.nii.gz"))

    def prediction():
        source, _ = find_images(Fold.of(fold_folder(made)))
        return source.read("a.b").prediction

    assert not prediction().any()

    dataset = made / "preprocessed" / raw.name
    dataset.mkdir(parents=True)
    monkeypatch.setenv("nnUNet_preprocessed", str(dataset.parent))
    splits = [{"train": ["a.b"], "val": ["c"]}, {"train": ["c"], "val": ["a.b"]}]
    (dataset / "splits_final.json").write_text(json.dumps(splits))
    assert prediction().sum() == 4


@pytest.mark.parametrize("configuration", ["3d_fullres", "3d_small", "2d"])
@pytest.mark.parametrize("kind", ["labels", "regions_ignore"])
def test_pictures_of_a_project_that_nnunet_preprocessed(
    project, tmp_path, monkeypatch, configuration, kind
):
    """The same case from both sources: this data is neither resampled nor cropped."""
    here = project(kind)
    folder = fold_folder(tmp_path, here.dataset, configuration)
    (folder.parent / "plans.json").write_bytes(
        (here.preprocessed / "nnUNetPlans.json").read_bytes()
    )
    (folder.parent / "dataset.json").write_bytes((here.raw / "dataset.json").read_bytes())

    raw, note = find_images(Fold.of(folder))

    assert isinstance(raw, RawImages)
    assert note == ""

    monkeypatch.delenv("nnUNet_raw")
    preprocessed, note = find_images(Fold.of(folder))

    assert isinstance(preprocessed, PreprocessedImages)
    assert "preprocessed arrays" in note

    expected = raw.read("case_03")
    got = preprocessed.read("case_03")

    np.testing.assert_array_equal(np.maximum(got.reference, 0), expected.reference)
    np.testing.assert_allclose(got.grey, expected.grey, atol=1e-3)
    assert (
        slice_of(got, preprocessed.labels).plane.outlines
        == slice_of(expected, raw.labels).plane.outlines
    )
    with pytest.raises(FileNotFoundError, match="case_99"):
        preprocessed.read("case_99")


def test_settings_that_a_configuration_inherits(made):
    folder = fold_folder(made, configuration="3d_cascade_fullres")
    arrays = made / "preprocessed" / "Dataset123_Made" / "plans_3d"
    arrays.mkdir(parents=True)
    reference = np.zeros((1, 4, 6, 5), np.int8)
    reference[0, :, 2:4, 3] = 2
    np.savez(arrays / "old.npz", data=reference.astype(np.float32), seg=reference)
    (arrays / "bad.npz").write_bytes(b"PK no archive")
    whole = {"data_identifier": "plans_3d", "spacing": [1.0, 1.0, 2.5]}
    configurations = {"3d_fullres": whole, "3d_cascade_fullres": {"inherits_from": "3d_fullres"}}
    (folder.parent / "plans.json").write_text(json.dumps({"configurations": configurations}))
    (folder.parent / "dataset.json").write_text(json.dumps({"labels": LABELS}))

    source, _ = find_images(Fold.of(folder))

    assert source.spacing == (1.0, 1.0, 2.5)
    assert slice_of(source.read("old"), source.labels).plane.name == "slice 4 of 5"
    with pytest.raises(ValueError, match="cannot be read"):
        source.read("bad")


def test_many_pixels_become_a_small_picture():
    noise = np.random.default_rng(0).random((1, 1200, 900))
    image = CaseVolume(
        noise, np.ones(noise.shape, np.uint8), (1.0, 1.0, 1.0), ("axial", "coronal", "sagittal")
    )

    picture = slice_of(image, Labels({"all": (1,)}))

    assert max(shown(picture).shape) == 480
    assert (picture.plane.width, picture.plane.height) == (900, 1200), "outlines stay in voxels"
    assert len(picture.plane.image) < 100_000


@pytest.mark.parametrize(
    ("with_tumour", "is_said"), [(range(1, 8), True), (range(1, 4), False), (range(8), False)]
)
def test_labels_that_the_first_cases_lack_are_pointed_at(made, with_tumour, is_said):
    cases = [f"case_{n}" for n in range(8)]
    for n, case in enumerate(cases):
        values = np.zeros((4, 6, 5), np.uint8)
        values[1:3, 1:3, 1:3] = 1
        values[3, 4:, 3:] = 2 * (n in with_tumour)
        write_raw(made, values, case=case)
    folder = fold_folder(made)
    write_log(folder, "hardness.csv", ranked("hardness.csv", cases))

    said = "absent in some: tumour in 1 case (case_0). A structure that is there"

    assert any(said in note for note in find_suspects(folder, top=2).notes) == is_said
