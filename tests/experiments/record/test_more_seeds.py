import pandas as pd
import pytest

from experiments.record.experiment import added_seeds, with_seeds_before


def table(seeds, **changed):
    rows = [
        (method, seed, at, 0.5 + seed / 10)
        for seed in seeds
        for method in ("plain", "DRO")
        for at in (1, 2)
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
    pd.testing.assert_frame_equal(
        again, pd.concat([table([0, 1]), table([3], mean=0.9)], ignore_index=True)
    )

    more = with_seeds_before(table([0, 1, 3], method="IW", mean=0.9), path)
    assert more.groupby("seed")["method"].agg(set).tolist() == [{"plain", "DRO", "IW"}] * 3
    fewer = with_seeds_before(table([0, 1], method="IW"), path)
    assert fewer.groupby("method")["seed"].agg(set)["IW"] == {0, 1}
    assert added_seeds([4, 2], [0, 2, 4]) == [2, 4]
    assert added_seeds([0, 1], [0, 1]) == []


def test_other_tables_may_have_other_test_cases_in_each_seed(path):
    added = table([4], iteration=5)
    whole = with_seeds_before(added, path, has_all_runs=False)
    pd.testing.assert_frame_equal(whole, pd.concat([table([0, 1, 3]), added], ignore_index=True))


@pytest.mark.parametrize(
    ("name", "added", "message"),
    [
        ("all.csv", table([4]), r"no table in .*all\.csv .* Leave --add out\."),
        ("made-up-all.csv", table([4], p10=0.1), "other columns"),
        *(
            ("made-up-all.csv", added, "no plain, or a method other moments or test cases")
            for added in (
                table([4], method="IW"),
                table([4], iteration=5),
            )
        ),
    ],
)
def test_what_does_not_fit_the_table_is_not_added(path, name, added, message):
    with pytest.raises(ValueError, match=message):
        with_seeds_before(added, path.with_name(name))
