import pandas as pd
import pytest

from experiments.record.more_seeds import added_seeds, with_seeds_before


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


def test_seeds_before_stay_where_they_are_in_the_order_of_seeds(path):
    pd.testing.assert_frame_equal(with_seeds_before(table([4, 2]), path, add=True), table([0, 1, 2, 3, 4]))


def test_a_seed_that_is_made_again_replaces_its_rows(path):
    again = with_seeds_before(table([3], mean=0.9), path, add=True)
    pd.testing.assert_frame_equal(again, pd.concat([table([0, 1]), table([3], mean=0.9)], ignore_index=True))


def test_without_add_the_table_is_replaced(path):
    pd.testing.assert_frame_equal(with_seeds_before(table([4]), path, add=False), table([4]))


def test_nothing_can_be_added_to_a_table_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"no table in .*all\.csv .* Leave --add out\."):
        with_seeds_before(table([4]), tmp_path / "all.csv", add=True)


def test_a_method_that_is_added_to_all_seeds_stays_beside_the_others(path):
    more = with_seeds_before(table([0, 1, 3], method="IW", mean=0.9), path, add=True)
    assert more.groupby("seed")["method"].agg(set).tolist() == [{"plain", "DRO", "IW"}] * 3


def test_a_method_of_some_seeds_is_not_added(path):
    with pytest.raises(ValueError, match="other methods"):
        with_seeds_before(table([0, 1], method="IW"), path, add=True)


@pytest.mark.parametrize("changed", [{"method": "IW"}, {"iteration": 5}])
def test_seeds_of_other_trainings_are_not_added(path, changed):
    with pytest.raises(ValueError, match="other methods, moments or test cases"):
        with_seeds_before(table([4], **changed), path, add=True)


def test_a_table_with_other_columns_is_not_added_to(path):
    with pytest.raises(ValueError, match="other columns"):
        with_seeds_before(table([4], p10=0.1), path, add=True)


def test_only_seeds_beside_others_were_added():
    assert added_seeds([4, 2], table([0, 2, 4])) == [2, 4]
    assert added_seeds([0, 1], table([0, 1])) == []
