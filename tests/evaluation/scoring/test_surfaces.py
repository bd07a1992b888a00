"""Distances against MONAI, whose definitions they share, and against geometry that can be checked
by hand."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import ndimage

from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.score_arrays import score_case
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.scoring.surfaces import SurfaceDistances

ALL_DISTANCES = ("hd95", "hd95_pooled", "hd", "assd", "nsd")
SPACINGS = ((1.0, 1.0, 1.0), (5.0, 1.0, 1.0), (0.7, 1.3, 0.9))


def ellipsoid(shape, centre, radii):
    grids = np.ogrid[tuple(slice(n) for n in shape)]
    return sum(((g - c) / r) ** 2 for g, c, r in zip(grids, centre, radii, strict=True)) <= 1


def random_case(seed):
    """A blob and a prediction of it, from nearly right to somewhere else, noise included."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(8, 40, 3))
    centre = rng.uniform(0.2, 0.8, 3) * shape
    reference = ellipsoid(shape, centre, rng.uniform(1.5, 10, 3))
    prediction = ellipsoid(
        shape, centre + rng.normal(0, rng.choice([0.5, 3, 12]), 3), rng.uniform(1.5, 10, 3)
    )
    if seed % 3 == 0:
        prediction |= rng.random(shape) < 0.003
    for mask in (reference, prediction):
        if not mask.any():
            mask[tuple(int(n) // 2 for n in shape)] = True
    return reference, prediction


def special_cases():
    empty = np.zeros((9, 10, 11), bool)
    one, border, block, far = (empty.copy() for _ in range(4))
    one[4, 5, 6] = border[:3, :, 8:] = block[2:6, 2:7, 3:8] = far[0, 0, 0] = True
    return list(itertools.product((one, border, ~empty, block, far), repeat=2))


#: Each spacing has random cases of its own.
CASES = {
    spacing: [random_case(seed) for seed in range(number, number + 17)] + special_cases()
    for number, spacing in zip((0, 17, 34), SPACINGS, strict=True)
}


TOLERANCES = (1.0, 2.5, 7.0)


def monai(reference, prediction, spacing):
    """The distances, and the NSD at each tolerance."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics = pytest.importorskip("monai.metrics")
        tensors = [torch.from_numpy(mask)[None, None] for mask in (prediction, reference)]
        options = {"include_background": True, "spacing": spacing}
        hd95 = metrics.compute_hausdorff_distance(*tensors, percentile=95, **options)
        hd = metrics.compute_hausdorff_distance(*tensors, **options)
        assd = metrics.compute_average_surface_distance(*tensors, symmetric=True, **options)
        values = {"hd95": hd95, "hd": hd, "assd": assd}
        for mm in TOLERANCES:
            values[f"nsd {mm}"] = metrics.compute_surface_dice(*tensors, [mm], **options)
    return {name: float(value) for name, value in values.items()}


@pytest.mark.parametrize("spacing", SPACINGS)
def test_distances_equal_monais(spacing):
    for number, (reference, prediction) in enumerate(CASES[spacing]):
        ours = SurfaceDistances(reference, prediction, spacing)
        measured = {"hd95": ours.hd95(), "hd": ours.hd(), "assd": ours.assd()}
        measured |= {f"nsd {mm}": ours.nsd(mm) for mm in TOLERANCES}
        expected = monai(reference, prediction, spacing)
        assert measured == pytest.approx(expected, rel=1e-5, abs=1e-5), number


@pytest.mark.parametrize("spacing", SPACINGS)
def test_pooled_percentile_is_that_of_both_directions_distances(spacing):
    for reference, prediction in CASES[spacing]:
        borders = [mask & ~ndimage.binary_erosion(mask) for mask in (reference, prediction)]
        to_border = [
            ndimage.distance_transform_edt(~border, sampling=spacing) for border in borders
        ]
        pooled = np.concatenate([to_border[1][borders[0]], to_border[0][borders[1]]])

        distances = SurfaceDistances(reference, prediction, spacing)

        # The measures that need every distance do not change those that need a few.
        for _ in range(2):
            assert distances.hd95_pooled() == pytest.approx(np.percentile(pooled, 95), abs=1e-6)
            assert distances.assd() == pytest.approx(pooled.mean(), abs=1e-6)


def test_pooled_percentile_where_one_direction_is_looked_through_less_far():
    """Single voxels far from each other, 980 in both maps: 1,960 distances of 0. The reference has
    15 more, 1 mm away (too few to be looked for), the prediction 95 more, 2 mm away. Rank 1,965 is
    one of the 15."""
    reference, prediction = np.zeros((2, 400, 400), bool)
    sites = [(i, j) for i in range(4, 400, 8) for j in range(4, 396, 8)][:980]
    for mask in (reference, prediction):
        mask[tuple(np.transpose(sites))] = True
    for i, j in sites[:15]:
        reference[i, j + 1] = True
    for i, j in sites[15:110]:
        prediction[i, j + 2] = True

    distances = SurfaceDistances(reference, prediction, (1, 1))

    assert distances.hd95_pooled() == 1
    assert distances.hd95() == 2
    assert distances.assd() == pytest.approx((15 * 1 + 95 * 2) / 2070)
    assert distances.nsd(1) == pytest.approx(1975 / 2070)


def test_cubes_a_far_voxel_and_a_plate_by_hand():
    reference, prediction = np.zeros((2, 12, 12, 12), np.uint8)
    reference[3:6, 3:6, 3:6] = prediction[3:6, 3:6, 4:7] = 1

    scoring = Scoring(ALL_DISTANCES, nsd_tolerance_mm=1.9)

    (row,) = score_case(reference, prediction, Labels({"cube": (1,)}), scoring, spacing=(1, 1, 2))

    assert row["hd"] == row["hd95"] == row["hd95_pooled"] == 2
    # Of each cube's 26 border voxels the nine of the far side are a voxel (2 mm) away, and the one
    # next to the centre, which is inside the other cube, has a border neighbour at 1 mm.
    assert row["assd"] == pytest.approx((9 * 2 + 1 * 1) / 26)
    assert row["nsd"] == pytest.approx(17 / 26)

    reference, prediction = np.zeros((2, 3, 4, 60), bool)
    reference[1, 1, 2] = prediction[1, 1, 52] = True

    distances = SurfaceDistances(reference, prediction, (1, 1, 0.5))

    assert distances.hd95() == distances.hd() == distances.assd() == 25
    assert distances.nsd(24.9) == 0
    assert distances.nsd(25) == 1

    # As headers store them.
    distances = SurfaceDistances(reference, prediction, (1, 1, float(np.float32(0.3))))
    assert distances.nsd(15) == 1

    reference = np.zeros((8, 8, 8), np.uint8)
    reference[3, 1:6, 1:6] = 1
    hollow = reference.copy()
    hollow[3, 3, 3] = 0
    labels = Labels({"plate": (1,)})
    scoring = Scoring(("assd", "hd", "nsd"), nsd_tolerance_mm=0.5)

    (row,) = score_case(reference, hollow, labels, scoring)

    # 25 and 24 border voxels; only the voxel in the middle is 1 mm from the other border.
    assert [row[name] for name in scoring.metrics] == pytest.approx([1 / 49, 1, 48 / 49])


def test_a_slice_is_a_plane():
    reference, prediction = np.zeros((2, 1, 20, 20), np.uint8)
    reference[0, 5:15, 5:15] = prediction[0, 5:15, 8:18] = 1
    labels = Labels({"square": (1,)})
    scoring = Scoring(ALL_DISTANCES)

    as_volume = score_case(reference, prediction, labels, scoring, spacing=(3, 1, 1))

    as_plane = score_case(reference[0], prediction[0], labels, scoring, spacing=(1, 1))

    assert as_volume == as_plane
    assert as_plane[0]["hd"] == 3
    assert as_plane[0]["nsd"] < 0.7, "the inside of a plane is no border"


def test_regions_are_their_union_and_ignored_voxels_have_no_border():
    reference, prediction = (
        np.random.default_rng(0).integers(0, 3, (2, 6, 7, 8)).astype(np.uint16) * 400
    )
    row = score_case(reference, prediction, Labels({"both": (400, 800)}), Scoring(ALL_DISTANCES))[0]

    whole = SurfaceDistances(reference > 0, prediction > 0, (1, 1, 1))

    assert row["hd95"] == whole.hd95()
    assert row["assd"] == whole.assd()

    reference, prediction = np.zeros((2, 1, 10, 20), np.uint8)
    reference[0, 2:8, 2:8] = prediction[0, 2:8, 2:8] = 1
    reference[0, :, 12:] = 9
    prediction[0, 3:5, 15:18] = 1

    row = score_case(reference, prediction, Labels({"a": (1,)}, ignore=9), Scoring(("hd", "nsd")))[
        0
    ]

    assert (row["hd"], row["nsd"]) == (0, 1)


@pytest.mark.parametrize("value", [5_000, -7])
def test_distances_do_not_depend_on_the_label_values(value):
    reference, prediction = np.zeros((2, 8, 8, 8), np.int32)
    reference[1:4, 2:5, 2:5] = prediction[2:6, 2:5, 2:6] = 1
    scoring = Scoring(ALL_DISTANCES)

    expected = score_case(reference, prediction, Labels({"a": (1,)}), scoring)

    assert (
        score_case(reference * value, prediction * value, Labels({"a": (value,)}), scoring)
        == expected
    )


@pytest.mark.parametrize("lacking", ["reference", "prediction", "both"])
def test_empty_labels_have_the_values_that_monai_has_where_it_has_one(lacking):
    empty, block = np.zeros((2, 6, 7, 8), bool)
    block[1:4, 2:5, 2:6] = True
    reference = empty if lacking != "prediction" else block
    prediction = empty if lacking != "reference" else block
    theirs = monai(reference, prediction, (1.0, 1.0, 5.0))
    theirs["nsd"] = theirs["nsd 1.0"]

    maps = (mask.astype(np.uint8) for mask in (reference, prediction))
    scoring = Scoring(("hd95", "hd", "nsd"))

    (row,) = score_case(*maps, Labels({"a": (1,)}), scoring, spacing=(1.0, 1.0, 5.0))

    for metric in scoring.metrics:
        np.testing.assert_equal(
            row[metric], theirs[metric] if np.isfinite(theirs[metric]) else np.nan
        )
