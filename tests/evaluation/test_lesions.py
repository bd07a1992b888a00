"""Lesions: known answers by hand, and random cases against loops over scipy's components."""

import math

import numpy as np
import pytest
from scipy import ndimage
from scipy.spatial.distance import cdist

from nnunet_dro.evaluation.scoring.instances import Instances, parse_match
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.score_arrays import score_case
from nnunet_dro.evaluation.scoring.scoring import Scoring

METRICS = ("lesion_recall", "lesion_precision", "lesion_f1", "pq", "sq", "rq", "lesion_dice")
DISTANCES = ("lesion_hd95", "lesion_nsd")
COUNTS = ("lesions_reference", "lesions_found", "lesions_predicted", "lesions_invented")
LABELS = Labels({"lesion": (1,)})


def scored(
    reference,
    prediction,
    *,
    match="iou:0.5",
    metrics=METRICS,
    labels=LABELS,
    empty="undefined",
    **options,
):
    spacing = options.pop("spacing", (1.0, 1.0, 1.0))
    tolerance = options.pop("tolerance", 1.0)
    scoring = Scoring(metrics, tolerance, empty, Instances(("*",), parse_match(match), **options))
    return score_case(np.array(reference), np.array(prediction), labels, scoring, spacing=spacing)[
        0
    ]


def line(*values):
    """A plane of one row, in which neighbours are left and right."""
    return [list(values)]


# Two lesions of 4 and 2 voxels; the first is found with 3 of 4 voxels (IoU 3/4, Dice 6/7), the
# second is missed, and one of 1 voxel is invented.
TWO = line(1, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0)
FOUND_ONE = line(1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0)
TOUCHING = line(1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1), line(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0)


@pytest.mark.parametrize("match", ["iou:0.5", "iou:0.75", "overlap", "brats:1"])
def test_a_found_a_missed_and_an_invented_lesion(match):
    row = scored(TWO, FOUND_ONE, match=match, metrics=(*METRICS, *DISTANCES))

    assert [row[name] for name in COUNTS] == [2, 1, 2, 1]
    assert row["lesion_recall"] == row["lesion_precision"] == row["lesion_f1"] == row["rq"] == 0.5
    assert row["sq"] == pytest.approx(3 / 4)
    assert row["pq"] == pytest.approx(3 / 8)
    assert row["lesion_dice"] == pytest.approx(6 / 7 / 3)
    # In an image of one row the border is the two ends, 0 and 1 mm away: the 95th percentile is
    # 0.95 by interpolation.
    assert row["lesion_hd95"] == pytest.approx((0.95 + 374 + 374) / 3)
    assert row["lesion_nsd"] == pytest.approx(1 / 3)


IGNORING = Labels({"lesion": (1,)}, ignore=9)
WHOLE = Labels({"whole": (1, 2)})

#: Reference and prediction, options, the numbers of lesions, and some values.
BY_HAND = {
    "a pair at exactly the threshold": ((line(1, 1), line(1, 0)), {}, [1, 1, 1, 0], {"pq": 0.5}),
    "a pair below it": (
        (TWO, FOUND_ONE),
        {"match": "iou:0.76"},
        [2, 0, 2, 2],
        dict.fromkeys(METRICS, 0),
    ),
    # Both lesions overlap the one predicted: IoU 3/7 and 2/8.
    "one to one, the largest IoU first": (
        (line(1, 1, 1, 0, 1, 1, 1), line(1, 1, 1, 1, 1, 1, 0)),
        {"match": "iou:0.1"},
        [2, 1, 1, 0],
        {"sq": 3 / 6, "lesion_dice": 2 * 3 / (3 + 6) / 2},
    ),
    # The first lesion meets three predicted ones of 1, 1 and 4 voxels; the second only the last of
    # them.
    "overlap with several": (
        (line(1, 1, 1, 1, 1, 0, 0, 1, 0), line(1, 0, 1, 0, 1, 1, 1, 1, 0)),
        {"match": "overlap"},
        [2, 2, 3, 0],
        {
            "lesion_precision": 1,
            "rq": 1,
            "sq": (3 / 8 + 1 / 4) / 2,
            "lesion_dice": (2 * 3 / 11 + 2 * 1 / 5) / 2,
        },
    ),
    # Across the gap of two voxels the dilations touch: one lesion of four voxels. The last lesion
    # is found by its neighbour, which overlaps the dilation and not the lesion: Dice 0.
    "dilations that touch": (
        TOUCHING,
        {"match": "brats:1"},
        [2, 2, 2, 0],
        {"lesion_dice": (2 * 2 / 6 + 0) / 2},
    ),
    "the same without dilation": (
        TOUCHING,
        {"match": "overlap"},
        [3, 1, 2, 1],
        {"lesion_dice": 1 / 4},
    ),
    # Neither missed nor invented; as for BraTS 2023, those of exactly the volume are left out.
    "lesions up to a volume": (
        (TWO, line(1, 1, 1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1)),
        {"match": "overlap", "above_mm3": 2.0},
        [1, 1, 3, 2],
        {"lesion_precision": 1 / 3, "lesion_dice": 6 / 7 / 3},
    ),
    "no lesion above a volume": (
        (TWO, FOUND_ONE),
        {"above_mm3": 2.0, "spacing": (1.0, 1.0, 0.5)},
        [0, 0, 1, 1],
        {"lesion_recall": math.nan, "lesion_precision": 0, "lesion_f1": 0, "lesion_dice": 0},
    ),
    # As a header in single precision has it: lesions of exactly the volume are still left out.
    "no lesion above a rounded volume": (
        (TWO, FOUND_ONE),
        {"above_mm3": 2.0, "spacing": (1.0000001, 1.0, 0.5)},
        [0, 0, 1, 1],
        {},
    ),
    # Cells of 0.00002 mm3 are counted, too.
    "small voxels": (
        (TWO, FOUND_ONE),
        {"spacing": (0.02, 0.02, 0.02)},
        [2, 1, 2, 1],
        {"lesion_recall": 1 / 2},
    ),
    # What is left of the predicted lesion beside the ignored voxels is one of its own.
    "ignored voxels": (
        (line(1, 1, 0, 9, 9, 9, 0), line(1, 1, 0, 1, 1, 1, 1)),
        {"labels": IGNORING},
        [1, 1, 2, 1],
        {},
    ),
    "a region": (
        (line(1, 2, 0, 0, 2), line(2, 2, 0, 0, 0)),
        {"labels": WHOLE},
        [2, 1, 1, 0],
        {"sq": 1},
    ),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_lesions_by_hand(name):
    pair, options, counts, values = BY_HAND[name]
    row = scored(*pair, **options)

    assert [row[count] for count in COUNTS] == counts
    assert {metric: row[metric] for metric in values} == pytest.approx(values, nan_ok=True)


@pytest.mark.parametrize(("connectivity", "n_lesions"), [(6, 4), (18, 3), (26, 2)])
def test_connectivity(connectivity, n_lesions):
    volume = np.zeros((4, 4, 4), np.uint8)
    for voxel in (
        (0, 0, 0),
        (0, 0, 1),
        (0, 1, 2),
        (1, 2, 3),
        (3, 0, 0),
    ):  # then an edge, a corner, and far away
        volume[voxel] = 1

    assert scored(volume, volume, connectivity=connectivity)["lesions_reference"] == n_lesions


@pytest.mark.parametrize(
    ("empty", "value", "distance"),
    [("undefined", None, None), ("diagonal", None, None), ("one", 1, 0), ("brats", 1, 0)],
)
def test_no_lesion_in_either(empty, value, distance):
    row = scored(line(0, 0, 0), line(0, 0, 0), empty=empty, metrics=(*METRICS, *DISTANCES))
    assert [row[name] for name in COUNTS] == [0, 0, 0, 0]
    for metric in (*METRICS, "lesion_nsd"):
        assert math.isnan(row[metric]) if value is None else row[metric] == value
    assert math.isnan(row["lesion_hd95"]) if distance is None else row["lesion_hd95"] == distance


def test_of_empty_maps_all_is_missed_or_invented_at_most_the_diagonal():
    missed = scored(TWO, np.zeros_like(TWO), metrics=(*METRICS, *DISTANCES))
    invented = scored(np.zeros_like(TWO), TWO, metrics=(*METRICS, *DISTANCES))

    for row, undefined in ((missed, "lesion_precision"), (invented, "lesion_recall")):
        assert [m for m in (*METRICS, *DISTANCES) if math.isnan(row[m])] == [undefined]
        assert {row[m] for m in (*METRICS, "lesion_nsd") if m != undefined} == {0}
        assert row["lesion_hd95"] == 374

    row = scored(
        TWO, FOUND_ONE, empty="diagonal", metrics=("lesion_hd95",), spacing=(1.0, 1.0, 2.0)
    )
    assert row["lesion_hd95"] == pytest.approx((2 * 0.95 + 2 * 24) / 3)


# Random cases against loops.


def parts(mask, connectivity):
    numbers, n = ndimage.label(
        mask, ndimage.generate_binary_structure(3, {6: 1, 18: 2, 26: 3}[connectivity])
    )
    return [numbers == number for number in range(1, n + 1)]


def border(mask):
    return np.argwhere(
        mask & ~ndimage.binary_erosion(mask, ndimage.generate_binary_structure(3, 1))
    )


def lesion_distances(a, b, spacing, tolerance):
    distances = cdist(border(a) * spacing, border(b) * spacing)
    one = distances.min(axis=1)
    other = distances.min(axis=0)
    hd95 = max(np.percentile(one, 95), np.percentile(other, 95))
    return hd95, (np.sum(one <= tolerance + 1e-9) + np.sum(other <= tolerance + 1e-9)) / (
        len(one) + len(other)
    )


def brats_groups(reference, n_dilations):
    """The lesions of the reference as BraTS 2023 counts them, and the dilation of each, one by one."""
    around = ndimage.generate_binary_structure(3, 2)
    zones = parts(ndimage.binary_dilation(reference, around, iterations=n_dilations), 26)
    lesions = [reference & zone for zone in zones]
    return lesions, [
        ndimage.binary_dilation(lesion, around, iterations=n_dilations) for lesion in lesions
    ]


def pairs_by_loops(lesions, zones, predicted, match):
    """Index of each lesion to the indices of the predicted ones it is compared with."""
    if not match.startswith("iou"):
        return {
            i: [j for j, p in enumerate(predicted) if (zone & p).any()]
            for i, zone in enumerate(zones)
        }
    threshold = float(match.partition(":")[2])
    iou = {
        (i, j): (r & p).sum() / (r | p).sum()
        for i, r in enumerate(lesions)
        for j, p in enumerate(predicted)
    }
    found = {i: [] for i in range(len(lesions))}
    while iou:
        (i, j), best = max(iou.items(), key=lambda item: item[1])
        if best < threshold or best == 0:
            break
        found[i] = [j]
        iou = {pair: value for pair, value in iou.items() if pair[0] != i and pair[1] != j}
    return found


def by_loops(reference, prediction, *, match, connectivity, above_mm3, spacing, tolerance):
    predicted = parts(prediction, connectivity)
    if match.startswith("brats"):
        lesions, zones = brats_groups(reference, int(match.partition(":")[2]))
    else:
        lesions = zones = parts(reference, connectivity)
    pairs = pairs_by_loops(lesions, zones, predicted, match)
    false_positives = len(predicted) - len({j for numbers in pairs.values() for j in numbers})
    counted = [i for i, lesion in enumerate(lesions) if lesion.sum() * np.prod(spacing) > above_mm3]
    true_predicted = len({j for i in counted for j in pairs[i]})
    dice = []
    iou = []
    hd95 = []
    nsd = []
    for i in counted:
        together = np.zeros_like(reference)
        for j in pairs[i]:
            together |= predicted[j]
        if pairs[i]:
            both = (lesions[i] & together).sum()
            dice.append(2 * both / (lesions[i].sum() + together.sum()))
            iou.append(both / (lesions[i] | together).sum())
            distance, share = lesion_distances(lesions[i], together, spacing, tolerance)
            hd95.append(distance)
            nsd.append(share)
    n_found = len(dice)
    n_all = len(counted) + false_positives
    n_failed = n_all - n_found
    recall = n_found / len(counted) if counted else math.nan
    precision = (
        true_predicted / (true_predicted + false_positives)
        if true_predicted + false_positives
        else math.nan
    )
    rq = n_found / (n_found + n_failed / 2)
    sq = np.mean(iou) if iou else 0
    return {
        "lesion_recall": recall,
        "lesion_precision": precision,
        "lesion_f1": 2 / (1 / recall + 1 / precision) if n_found else 0,
        "pq": sq * rq,
        "sq": sq,
        "rq": rq,
        "lesion_dice": sum(dice) / n_all,
        "lesion_hd95": (sum(hd95) + 374 * n_failed) / n_all,
        "lesion_nsd": sum(nsd) / n_all,
        **dict(
            zip(
                COUNTS,
                (len(counted), n_found, true_predicted + false_positives, false_positives),
                strict=True,
            )
        ),
    }


def random_pair(seed, share):
    """Blobs of all sizes in a share of the image, and a prediction that loses, moves, joins and
    invents some."""
    rng = np.random.default_rng(seed)
    smooth = ndimage.gaussian_filter(rng.normal(size=(12, 16, 20)), (0.8, 1.0, 1.2))
    other = 0.75 * smooth + 0.25 * np.roll(
        ndimage.gaussian_filter(rng.normal(size=smooth.shape), 1), 1, axis=1
    )
    return smooth > np.quantile(smooth, 1 - share), other > np.quantile(
        other, 1 - share * rng.uniform(0.7, 1.5)
    )


@pytest.mark.parametrize("match", ["iou:0.5", "iou:0.2", "overlap", "brats:1", "brats:2"])
@pytest.mark.parametrize("seed", range(4))
def test_random_cases_equal_loops(match, seed):
    # Dilation joins lesions that are close.
    reference, prediction = random_pair(seed, {"brats:1": 0.02, "brats:2": 0.005}.get(match, 0.05))
    options = {"connectivity": (6, 18, 26)[seed % 3], "above_mm3": (0.0, 4.0)[seed % 2]}
    options |= {
        "match": match,
        "spacing": ((1.0, 1.0, 1.0), (2.5, 1.0, 0.7))[seed % 2],
        "tolerance": 1.1,
    }
    row = scored(
        reference.astype(np.uint8),
        prediction.astype(np.uint8),
        metrics=(*METRICS, *DISTANCES),
        **options,
    )

    expected = by_loops(reference, prediction, **options)

    assert {name: row[name] for name in expected} == pytest.approx(expected, abs=1e-9, nan_ok=True)
    assert row["lesions_found"]


@pytest.mark.parametrize(
    "text",
    [
        "iou:0",
        "iou:1.1",
        "iou:half",
        "overlap:0.5",
        "brats:0",
        "brats:1.5",
        "dice",
        "",
        "iou:nan",
        "brats:",
    ],
)
def test_a_match_rule_that_is_not_usable_is_refused(text):
    with pytest.raises(ValueError, match="`match` must"):
        parse_match(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"above_mm3": -1.0}, "`lesions_above_mm3` must be 0 or more"),
        ({"above_mm3": math.nan}, "`lesions_above_mm3` must be 0 or more"),
        ({"labels": ()}, "`instances` must name labels"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Instances(**{"labels": ("*",)} | options)
