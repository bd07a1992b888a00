"""Attributes that are computed: known answers, and what they do not depend on."""

import dataclasses
import math

import numpy as np
import pytest
import SimpleITK
from scipy import ndimage

from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import LabelMap, read_label_map
from nnunet_dro.evaluation.stratifying.attributes import (
    CaseFiles,
    contrast,
    measure,
    measure_cases,
    noise,
)
from nnunet_dro.evaluation.stratifying.auto_columns import (
    auto_names,
    names_columns,
    with_auto_columns,
)
from tests.evaluation.made_folders import write_map


def label_map(values, spacing=(1.0, 1.0, 1.0)):
    values = np.asarray(values, np.uint8)
    return LabelMap(
        values, Grid(values.shape, None if spacing is None else np.diag([*spacing, 1.0]))
    )


def test_attributes_of_the_reference_by_hand():
    values = np.zeros((4, 10, 10))
    values[0, 0, :5], values[2, 5, :3], values[3, 9, 9] = 1, 2, 9

    found = measure(
        label_map(values, (0.5, 1.0, 4.0)), None, ["size", "components", "spacing", "volume"]
    )

    without = measure(label_map(values, (0.5, 1.0, 4.0)), None, ["size", "components"], ignore=9)

    # Voxels of 2 mm3.
    assert found == {
        "size": pytest.approx(0.018),
        "components": 3,
        "spacing": 4,
        "volume": pytest.approx(0.8),
    }
    assert without == {"size": pytest.approx(0.016), "components": 2}

    found = measure(
        label_map(np.ones((1, 3, 3)), None), None, ["size", "components", "spacing", "volume"]
    )

    assert {name for name, value in found.items() if math.isnan(value)} == {
        "size",
        "spacing",
        "volume",
    }


@pytest.mark.parametrize("kind", ["mha", "nii.gz", "one slice"])
def test_the_spacing_of_a_plane_is_that_within_it(tmp_path, kind):
    values = np.ones((4, 5), np.uint8)
    image = SimpleITK.GetImageFromArray(values if kind != "one slice" else values[np.newaxis])
    image.SetSpacing((0.2, 0.3) if kind != "one slice" else (0.2, 0.3, 999))
    path = tmp_path / f"a.{'mha' if kind == 'one slice' else kind}"
    SimpleITK.WriteImage(image, str(path))

    assert measure(read_label_map(path), None, ["spacing"])["spacing"] == pytest.approx(0.3)


def test_contrast_is_a_difference_per_standard_deviation_around():
    rng = np.random.default_rng(0)
    mask = np.zeros((20, 20, 20), bool)
    mask[8:12, 8:12, 8:12] = True
    grey = rng.normal(100, 5, mask.shape) + 15 * mask
    grey[:2] = 10_000  # too far away to matter

    around = (
        ndimage.binary_dilation(mask, ndimage.generate_binary_structure(3, 2), iterations=3) & ~mask
    )

    assert contrast(grey, mask) == pytest.approx(
        (grey[mask].mean() - grey[around].mean()) / grey[around].std()
    )
    assert contrast(grey, mask) == pytest.approx(3, abs=0.4)
    assert contrast(-7 * grey + 3, mask) == pytest.approx(contrast(grey, mask))


@pytest.mark.parametrize("values", [np.zeros((3, 3, 3)), np.ones((3, 3, 3))])
def test_contrast_needs_something_inside_and_around(values):
    assert math.isnan(contrast(np.arange(27.0).reshape(3, 3, 3), values > 0))

    mask = np.zeros((3, 3, 3), bool)
    mask[1, 1, 1] = True

    # The mean of equal numbers is not always exactly that number.
    assert math.isnan(contrast(np.where(mask, 2, -0.7234), mask))


@pytest.mark.parametrize("deviation", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("spacing", [(1.0, 1.0, 1.0), (1.0, 1.0, 5.0), (5.0, 1.0, 1.0)])
def test_noise_is_that_which_was_added(deviation, spacing):
    rng = np.random.default_rng(1)
    z, y, x = np.indices((24, 32, 32))
    # A slope and an edge, as anatomy has; outside there is nothing.
    grey = 100.0 + 2 * x + y - z + 60 * (x > 16) + rng.normal(0, deviation, (24, 32, 32))
    grey[:, :4] = 0

    low, high = np.percentile(grey[grey > 0], [1, 99])

    assert noise(grey, Grid(grey.shape, np.diag([*spacing, 1.0]))) == pytest.approx(
        deviation / (high - low), rel=0.12
    )


def test_noise_does_not_depend_on_the_scale():
    grey = np.random.default_rng(2).normal(size=(1, 40, 40))
    grid = Grid(grey.shape)

    assert noise(1000 * grey + 5, grid) == pytest.approx(noise(grey, grid))
    assert math.isnan(noise(np.ones((1, 40, 40)), grid))
    assert math.isnan(noise(grey[:, :2], Grid((1, 2, 40))))


def test_names_of_attributes():
    specs = ("3T", "age:0,18", "auto:size:0,3", "auto:size,3T")
    assert [by for by in specs if not names_columns([by])] == ["auto:size:0,3"]
    assert auto_names(["centre,auto:size", "auto:noise:q4", "auto:size:0,1,2", "age:0,18"]) == [
        "size",
        "noise",
    ]
    assert with_columns([], "centre") == (None, ["centre"], [])


def references(folder, sizes):
    files = []
    for n, size in enumerate(sizes):
        values = np.zeros((4, 8, 8), np.uint8)
        values.ravel()[:size] = 1
        files.append(CaseFiles(f"case_{n:02}", folder / f"case_{n:02}.nii.gz"))
        write_map(files[-1].reference, values, spacing=(10, 10, 10))
    return files


def with_columns(files, *by):
    cases = [paths.case for paths in files]
    return with_auto_columns(None, cases, files, EvaluateOptions(by=by), lambda n_done, n_all: None)


def test_few_values_are_groups_and_many_are_cut_into_thirds(tmp_path):
    files = references(tmp_path, [1, 2, 3, 4, 5, 6, 0])
    table, specs, notes = with_columns(files, "auto:size", "auto:components", "auto:size:0,3,6")

    assert table["auto:size"].tolist() == ["1", "2", "3", "4", "5", "6", "0"]
    assert specs == ["auto:size:q3", "auto:components", "auto:size:0,3,6"]
    assert notes[0].endswith(
        "in ml; it is cut into thirds of the cases, unless --by says otherwise."
    )
    assert "cut" not in notes[1]


def test_only_attributes_that_are_cut_into_thirds_are_said_to_be(tmp_path):
    files = references(tmp_path, range(1, 8))
    for n, paths in enumerate(files):
        write_map(paths.reference, np.ones((4, 8, 8 + n), np.uint8), spacing=(1, 1, 1))

    _, specs, notes = with_columns(files, "auto:size", "auto:volume:0,0.3")

    assert specs == ["auto:size:q3", "auto:volume:0,0.3"]
    assert ["thirds" in note for note in notes] == [True, False]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_image_with_nan_has_no_attributes_and_is_named(tmp_path, value):
    files = []
    for n, paths in enumerate(references(tmp_path, [3, 3, 3])):
        grey = np.random.default_rng(n).normal(size=(4, 8, 8))
        grey[3, 7, 7] = value if n == 1 else 0
        path = tmp_path / f"images/{paths.case}_0000.nii.gz"
        write_map(path, grey, spacing=(10, 10, 10), dtype=np.float32)
        files.append(dataclasses.replace(paths, images=path.parent))

    names = ["size", "contrast", "noise", "rarity"]
    values, notes = measure_cases(
        files, names, jobs=1, workers=None, progress=lambda n, n_all: None
    )

    unknown = {
        case: [name for name in names if math.isnan(found[name])] for case, found in values.items()
    }
    assert unknown == {"case_00": [], "case_01": names[1:], "case_02": []}
    assert "case_01" in notes[0]
