import numpy as np
import pandas as pd
import pytest
import SimpleITK

from experiments.datasets.phantoms import Counts, write_dataset
from experiments.spoilt_labels import spoiling


@pytest.fixture
def ball():
    """Two labels, one in the other, far from the border of the image."""
    position = np.stack(np.meshgrid(*[np.arange(20)] * 3, indexing="ij"))
    distance = np.sqrt(((position - 9.5) ** 2).sum(axis=0))
    labels = np.zeros((20, 20, 20), np.uint8)
    labels[distance < 6], labels[distance < 4] = 1, 2
    return labels


def volumes(labels):
    return {label: int((labels == label).sum()) for label in (1, 2)}


def test_swapping_twice_changes_nothing(ball):
    once = spoiling.swapped(ball, pair=(1, 2))
    assert volumes(once) == {1: volumes(ball)[2], 2: volumes(ball)[1]}
    assert (once > 0).sum() == (ball > 0).sum()
    assert spoiling.mean_dice(ball, once) == 0
    np.testing.assert_array_equal(spoiling.swapped(once, pair=(1, 2)), ball)
    assert spoiling.swapped(np.array([0, 1, 2, 3], np.uint8), pair=(1, 2)).tolist() == [0, 2, 1, 3]


def test_shift_keeps_the_volumes_and_is_as_small_as_does(ball):
    moved = spoiling.shifted(ball, rng=np.random.default_rng(0))
    assert volumes(moved) == volumes(ball)
    assert spoiling.mean_dice(ball, moved) < 0.5

    offset = np.argwhere(moved > 0).mean(axis=0) - np.argwhere(ball > 0).mean(axis=0)
    distance = round(abs(offset[0]))

    np.testing.assert_allclose(abs(offset), distance)

    less = np.roll(ball, tuple(((distance - 1) * np.sign(offset)).astype(int)), axis=(0, 1, 2))
    assert spoiling.mean_dice(ball, less) >= 0.5

    rng = np.random.default_rng(0)
    found = {
        tuple(np.sign(np.argwhere(spoiling.shifted(ball, rng=rng) > 0).mean(axis=0) - 9.5))
        for _ in range(60)
    }

    assert len(found) == 8
    with pytest.raises(
        ValueError, match=r"`labels` must be small enough in the image .* got 64 of 64 voxels"
    ):
        spoiling.shifted(np.ones((4, 4, 4), np.uint8), rng=np.random.default_rng(0))


def test_eroded_is_the_inner_third_of_each_label(ball):
    left = spoiling.eroded(ball)
    assert ((left == ball) | (left == 0)).all()
    for label, volume in volumes(ball).items():
        assert (left == label).sum() == round(volume / 3)
    assert spoiling.mean_dice(ball, left) == pytest.approx(0.5, abs=0.01)

    # What is left of the inner ball is a ball: nothing outside is nearer to its centre.
    distance = np.sqrt(
        ((np.stack(np.meshgrid(*[np.arange(20)] * 3, indexing="ij")) - 9.5) ** 2).sum(axis=0)
    )
    inner = ball == 2

    assert distance[left == 2].mean() < distance[inner & (left == 0)].mean()
    assert distance[left == 2].max() < distance[inner].max()

    line = np.array([0, 1, 1, 1, 1, 1, 1, 0, 2], np.uint8)
    # Depths 1 2 3 3 2 1; the image's end is an edge, too, and the last voxel of a label stays.
    assert spoiling.eroded(line).tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 2]


def test_dilated_has_the_dice_of_an_eroded_label(ball):
    grown = spoiling.dilated((ball > 0).astype(np.uint8), kept=0.6)
    assert (grown > 0)[ball > 0].all()
    assert spoiling.mean_dice((ball > 0).astype(np.uint8), grown) == pytest.approx(0.75, abs=1e-3)


def test_misplaced_labels_miss_the_phantom_they_belong_to(tmp_path):
    counts = Counts({"control": 10, "common": 2, "rare": 2}, validation=1, test=1)
    spoiling.write_spoilt_phantoms(
        tmp_path / "raw",
        counts,
        share=0.1,
        kinds=("misplaced",),
        rng=np.random.default_rng(0),
    )
    noise = pd.read_csv(tmp_path / "raw" / spoiling.NOISE_FILE).set_index("kind")
    assert noise.loc[["misplaced"], "dice"].tolist() == [0]


def test_mean_dice_by_hand(ball):
    # Label 1: 2 * 1 / (2 + 1); label 2: 2 * 2 / (2 + 3); background does not count.
    reference = np.array([0, 0, 1, 1, 2, 2], np.uint8)
    prediction = np.array([0, 0, 1, 2, 2, 2], np.uint8)

    assert spoiling.mean_dice(reference, prediction) == pytest.approx((2 / 3 + 4 / 5) / 2)
    for kind in spoiling.KINDS:
        assert (
            spoiling.mean_dice(
                ball, spoiling.spoil(ball, kind, pair=(1, 2), rng=np.random.default_rng(0))
            )
            < 0.51
        )


@pytest.mark.parametrize(
    ("n_cases", "n_spared", "n_spoilt"), [(100, 0, 30), (20, 0, 6), (31, 0, 9), (100, 15, 30)]
)
def test_three_of_ten_are_spoilt_and_trusted_and_spared_ones_are_right(n_cases, n_spared, n_spoilt):
    cases = [f"case{i:03d}" for i in range(n_cases)]
    spared = cases[: 2 * n_spared : 2]

    noise = spoiling.draw_noise(cases, spared, rng=np.random.default_rng(0))

    assert noise["case"].tolist() == cases
    assert set(noise["kind"].value_counts()[list(spoiling.KINDS)]) == {n_spoilt // 3}

    is_spared = noise["case"].isin(spared)
    is_trusted = noise["trusted"] == "yes"

    assert set(noise["kind"][is_spared | is_trusted]) == {"clean"}
    assert ((is_trusted & is_spared).sum(), (is_trusted & ~is_spared).sum()) == (
        min(1, n_spared),
        5,
    )
    pd.testing.assert_frame_equal(
        spoiling.draw_noise(cases[::-1], spared, rng=np.random.default_rng(0)), noise
    )
    assert not noise.equals(spoiling.draw_noise(cases, spared, rng=np.random.default_rng(1)))


def test_dataset_is_spoilt_as_its_file_says_and_no_trainer_sees_it(tmp_path):
    counts = Counts({"control": 10, "common": 6, "rare": 4}, validation=1, test=1)
    write_dataset(tmp_path / "right", counts, rng=np.random.default_rng(0))
    spoiling.write_spoilt_phantoms(tmp_path / "spoilt", counts, rng=np.random.default_rng(0))
    noise = pd.read_csv(tmp_path / "spoilt" / spoiling.NOISE_FILE).set_index("case")

    table = pd.read_csv(tmp_path / "spoilt" / "cases.csv").set_index("case")

    assert list(table.columns) == ["pathology", "split", "trusted"]
    assert sorted(noise.index) == sorted(table.index[table["split"] == "train"])

    is_trusted = table["trusted"] == "yes"
    assert spoiling.trusted_cases(tmp_path / "spoilt") == table.index[is_trusted].tolist()
    assert table.loc[is_trusted, "pathology"].eq("rare").sum() == 1
    assert is_trusted.sum() == 6
    assert set(noise["kind"][table.index[is_trusted]]) == {"clean"}
    assert set(noise["kind"][table.index[(table["pathology"] == "rare")]]) == {"clean"}

    changed = []
    for case in table.index:
        right, now = (
            SimpleITK.GetArrayFromImage(
                SimpleITK.ReadImage(str(tmp_path / name / "labelsTr" / f"{case}.nii.gz"))
            )
            for name in ("right", "spoilt")
        )
        if (now != right).any():
            changed.append(case)
            assert noise.loc[case, "dice"] == pytest.approx(spoiling.mean_dice(right, now))
        else:
            assert case not in noise.index or noise.loc[case, "dice"] == 1

    assert changed == noise.index[noise["kind"] != "clean"].tolist()
    assert len(changed) == 6
    assert sorted(spoiling.right_cases(tmp_path / "spoilt")) == [
        case for case in noise.index if case not in changed
    ]
