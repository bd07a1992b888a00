import pandas as pd
import pytest

from experiments.record.experiment import added_seeds, with_seeds_before


def table(seeds, **changed):
    rows = [
        (method, seed, moment, 0.5 + seed / 10) for seed in seeds for method in ("plain", "DRO") for moment in (1, 2)
    ]
    return pd.DataFrame(rows, columns=["method", "seed", "iteration", "mean"]).assign(**changed)


@pytest.fixture
def path(tmp_path):
    """The table of seeds 0, 1 and 3."""
    path = tmp_path / "made-up-all.csv"
    table([0, 1, 3]).to_csv(path, index=False)
    return path


def test_seeds_are_added_in_their_order_and_made_again_in_their_place(path):
    pd.testing.assert_frame_equal(with_seeds_before(table([4, 2]), path), table([0, 1, 2, 3, 4]))
    again = with_seeds_before(table([3], mean=0.9), path)
    pd.testing.assert_frame_equal(again, pd.concat([table([0, 1]), table([3], mean=0.9)], ignore_index=True))
    more = with_seeds_before(table([0, 1, 3], method="IW", mean=0.9), path)
    assert more.groupby("seed")["method"].agg(set).tolist() == [{"plain", "DRO", "IW"}] * 3
    assert added_seeds([4, 2], table([0, 2, 4])) == [2, 4]
    assert added_seeds([0, 1], table([0, 1])) == []


def test_nothing_can_be_added_to_a_table_that_is_not_there(tmp_path, path):
    with pytest.raises(ValueError, match=r"no table in .*all\.csv .* Leave --add out\."):
        with_seeds_before(table([4]), tmp_path / "all.csv")
    with pytest.raises(ValueError, match="other methods"):
        with_seeds_before(table([0, 1], method="IW"), path)
    with pytest.raises(ValueError, match="other columns"):
        with_seeds_before(table([4], p10=0.1), path)


@pytest.mark.parametrize("changed", [{"method": "IW"}, {"iteration": 5}])
def test_seeds_of_other_trainings_are_not_added(path, changed):
    with pytest.raises(ValueError, match="other methods, moments or test cases"):
        with_seeds_before(table([4], **changed), path)
