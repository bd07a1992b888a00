import numpy as np
import pytest
from scipy import stats

from nnunet_dro.suspects import rank_cases, read_logs

from .made_folds import LOGS, fold_folder, ranked, write_log


def rank(root, file, epochs, times=None):
    folder = fold_folder(root)
    write_log(folder, file, epochs, times)
    return rank_cases(*read_logs(folder))


@pytest.mark.parametrize("file", LOGS)
def test_what_stays_comes_first(tmp_path, file):
    order = ["c", "a.b", "Jürgen, x", "NA", "001"]
    table = rank(tmp_path, file, ranked(file, order))
    assert table["case"].tolist() == order
    assert table["rank"].tolist() == [1, 2, 3, 4, 5]
    assert table["times_seen"].tolist() == [60] * 5, "six of nine epochs count"
    assert table["times_seen_in_all"].tolist() == [90] * 5


def test_score_of_losses_is_the_mean_share_of_easier_cases(tmp_path):
    # The first third is one epoch; then b and c have equal losses once.
    epochs = [{"a": 9.0, "b": 0.0, "c": 0.0}, {"a": 1.0, "b": 2.0, "c": 2.0}, {"a": 3.0, "b": 2.0, "c": 5.0}]
    table = rank(tmp_path, "hardness.csv", epochs).set_index("case")
    assert table.loc["a", "score"] == pytest.approx((0 + 0.5) / 2)
    assert table.loc["b", "score"] == pytest.approx((0.75 + 0) / 2)
    assert table.loc["c", "score"] == pytest.approx((0.75 + 1) / 2)
    assert table["loss"].to_dict() == pytest.approx({"a": 2.0, "b": 2.0, "c": 3.5})
    epochs = [{"steady": 0.6, "once": 100.0 if n == 15 else 0.1, "x": 0.3, "y": 0.2} for n in range(20)]
    table = rank(tmp_path, "hardness.csv", epochs)
    assert table["case"].tolist() == ["steady", "x", "y", "once"]
    assert table.loc[3, "loss"] > table.loc[0, "loss"], "its mean loss would have made it the first"


def test_score_of_weights_is_weighted_by_the_times_seen(tmp_path):
    epochs = [{"a": 5.0, "b": 0.0}, {"a": 1.0, "b": 0.4}, {"a": 0.25, "b": None}]
    times = [{"a": 9, "b": 9}, {"a": 1, "b": 7}, {"a": 3, "b": 0}]
    table = rank(tmp_path, "weights.csv", epochs, times).set_index("case")
    assert table.loc["a", "score"] == pytest.approx((1.0 + 3 * 0.25) / 4)
    assert table.loc["b", "score"] == pytest.approx(0.4)
    assert table["times_seen"].to_dict() == {"a": 4, "b": 7}
    assert table["rank"].to_dict() == {"b": 1, "a": 2}


@pytest.mark.parametrize("file", LOGS)
def test_first_third_does_not_count(tmp_path, file):
    table = rank(tmp_path, file, [*ranked(file, ["b", "a"], 3), *ranked(file, ["a", "b"], 6)])
    assert table["case"].tolist() == ["a", "b"]
    assert table["score"].tolist() == pytest.approx([0.1, 0.3] if file == "weights.csv" else [1, 0])


@pytest.mark.parametrize("file", LOGS)
def test_equal_cases_share_a_rank_the_more_often_seen_first(tmp_path, file):
    epochs = [{"d": 0.5, "c": 0.5, "b": 0.5, "a": 0.5}] * 4
    table = rank(tmp_path, file, epochs, [{"a": 2, "b": 2, "c": 3, "d": 2}] * 4)
    assert table["case"].tolist() == ["c", "a", "b", "d"]
    assert table["rank"].tolist() == [1, 1, 1, 1]
    assert table["gap"].isna().all(), "nothing differs"


@pytest.mark.parametrize("file", LOGS)
def test_cases_that_were_never_seen_come_last_without_a_score(tmp_path, file):
    epochs = [{"never": None, **epoch} for epoch in ranked(file, ["x", "y"])]
    table = rank(tmp_path, file, epochs)
    assert table["case"].tolist() == ["x", "y", "never"]
    assert table["rank"].isna().tolist() == [False, False, True]
    assert table["score"].isna().tolist() == [False, False, True]
    assert table.loc[2, "times_seen"] == 0


@pytest.mark.parametrize("file", LOGS)
def test_one_case_and_one_epoch_are_enough_to_go_on(tmp_path, file):
    table = rank(tmp_path, file, [{"only": 0.25}])
    assert table["rank"].tolist() == [1]
    assert table["score"].tolist() == [0.25 if file == "weights.csv" else 0.5]
    assert table["gap"].isna().all()


def test_gap_is_in_standard_deviations_from_the_median(tmp_path):
    # Deviations from the median 3 are 2, 1, 0, 1, 7: their median is 1.
    epochs = [{"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 10.0}] * 3
    gaps = rank(tmp_path, "hardness.csv", epochs).set_index("case")["gap"]
    assert gaps["e"] == pytest.approx(7 / 1.4826)
    assert gaps["a"] == pytest.approx(-2 / 1.4826)
    # As scipy has it, with the exact factor.
    spread = stats.median_abs_deviation([1, 2, 3, 4, 10], scale="normal")
    assert gaps["e"] == pytest.approx(7 / spread, rel=1e-4)


def test_losses_beside_weights_are_shown_and_part_equal_weights(tmp_path):
    folder = fold_folder(tmp_path)
    write_log(folder, "weights.csv", [{"a": 0.0, "b": 0.0, "c": 1.0}] * 3)
    write_log(folder, "hardness.csv", [{"b": 0.9, "a": 0.2, "gone": 3.0}] * 3)
    table = rank_cases(*read_logs(folder, by="weight"))
    assert table["case"].tolist() == ["b", "a", "c"]
    np.testing.assert_allclose(table["loss"], [0.9, 0.2, np.nan], rtol=1e-6)
    assert "gone" not in set(table["case"])


def test_ranks_agree_with_scipy(tmp_path):
    rng = np.random.default_rng(0)
    losses = rng.integers(0, 6, size=(12, 9)) / 4  # with ties
    expected = np.mean([(stats.rankdata(row) - 1) / 8 for row in losses[4:]], axis=0)
    epochs = [{f"c{i}": v for i, v in enumerate(row)} for row in losses]
    got = rank(tmp_path, "hardness.csv", epochs).set_index("case")["score"].sort_index()
    assert got.to_dict() == pytest.approx({f"c{i}": value for i, value in enumerate(expected)})
