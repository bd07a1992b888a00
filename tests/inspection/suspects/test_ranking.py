"""Ranking cases by the logs of their losses and weights, and reading these logs."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from nnunet_dro.files.case_log import WEIGHTS, mean_log
from nnunet_dro.inspection.suspects import rank_cases, read_logs
from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.l2rw.weights_log import WeightsLog
from nnunet_dro.trainers.log.hardness_log import HardnessLog
from tests.trainers.draws import cases_of_step

from .made_folds import HEADS, LOGS, fold_folder, ranked, write_log


def rank(root, file, epochs, times=None):
    folder = fold_folder(root)
    write_log(folder, file, epochs, times)
    return rank_cases(*read_logs(folder))


def test_score_of_losses_is_the_mean_share_of_easier_cases(tmp_path):
    # The first third is one epoch; then b and c have equal losses once.
    epochs = [
        {"a": 9.0, "b": 0.0, "c": 0.0},
        {"a": 1.0, "b": 2.0, "c": 2.0},
        {"a": 3.0, "b": 2.0, "c": 5.0},
    ]
    table = rank(tmp_path, "hardness.csv", epochs).set_index("case")

    assert table.loc["a", "score"] == pytest.approx((0 + 0.5) / 2)
    assert table.loc["b", "score"] == pytest.approx((0.75 + 0) / 2)
    assert table.loc["c", "score"] == pytest.approx((0.75 + 1) / 2)
    assert table["loss"].to_dict() == pytest.approx({"a": 2.0, "b": 2.0, "c": 3.5})

    epochs = [
        {"steady": 0.6, "once": 100.0 if n == 15 else 0.1, "x": 0.3, "y": 0.2} for n in range(20)
    ]
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
def test_the_first_third_does_not_count_and_equal_cases_share_a_rank(tmp_path, file):
    is_weight = file == "weights.csv"
    table = rank(tmp_path, file, [*ranked(file, ["b", "a"], 3), *ranked(file, ["a", "b"], 6)])

    assert table["case"].tolist() == ["a", "b"]
    assert table["score"].tolist() == pytest.approx([0.1, 0.3] if is_weight else [1, 0])

    # The more often seen comes first, and nothing differs.
    table = rank(
        tmp_path, file, [dict.fromkeys("dcba", 0.5)] * 4, [{"a": 2, "b": 2, "c": 3, "d": 2}] * 4
    )
    assert table["case"].tolist() == ["c", "a", "b", "d"]
    assert table["rank"].tolist() == [1, 1, 1, 1]
    assert table["gap"].isna().all()

    # One case and one epoch are enough to go on.
    table = rank(tmp_path, file, [{"only": 0.25}])
    assert table[["rank", "score"]].to_numpy().tolist() == [[1, 0.25 if is_weight else 0.5]]
    assert table["gap"].isna().all()


def test_gap_is_in_standard_deviations_from_the_median(tmp_path):
    losses = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 10.0}
    gaps = rank(tmp_path, "hardness.csv", [losses] * 3).set_index("case")["gap"].to_dict()

    # Deviations from the median 3 are 2, 1, 0, 1, 7: their median is 1. scipy has more digits of
    # 1.4826.
    spread = stats.median_abs_deviation(list(losses.values()), scale="normal")

    assert spread == pytest.approx(1.4826, rel=1e-4)
    assert gaps == pytest.approx(
        {case: (loss - 3) / spread for case, loss in losses.items()}, rel=1e-4
    )


def test_losses_beside_weights_are_shown_and_part_equal_weights(tmp_path):
    folder = fold_folder(tmp_path)
    write_log(folder, "weights.csv", [{"a": 0.0, "b": 0.0, "c": 1.0}] * 3)
    write_log(folder, "hardness.csv", [{"b": 0.9, "a": 0.2, "gone": 3.0}] * 3)

    table = rank_cases(*read_logs(folder, by=WEIGHTS))

    assert table["case"].tolist() == ["b", "a", "c"]
    np.testing.assert_allclose(table["loss"], [0.9, 0.2, np.nan], rtol=1e-6)
    assert "gone" not in set(table["case"])


def test_ranks_agree_with_scipy(tmp_path):
    losses = np.random.default_rng(0).integers(0, 6, size=(12, 9)) / 4  # with ties
    expected = np.mean([(stats.rankdata(row) - 1) / 8 for row in losses[4:]], axis=0)
    epochs = [{f"c{i}": v for i, v in enumerate(row)} for row in losses]

    got = rank(tmp_path, "hardness.csv", epochs).set_index("case")["score"].sort_index()

    assert got.to_dict() == pytest.approx({f"c{i}": value for i, value in enumerate(expected)})


CASES = ["case, one", "001", "NA", "d\u2028.x"]


def test_reads_what_the_hardness_log_writes(tmp_path):
    log = HardnessLog(HardnessTable(CASES, beta=10.0), ImportanceWeights())
    for epoch in range(3):
        indices = np.array([epoch, 0])
        losses = np.array([-0.5, 0.25 + epoch])
        log.table.update(indices, losses)
        log.record(cases_of_step(indices, losses=losses))
        log.end_epoch(epoch, tmp_path)

    read, losses = read_logs(tmp_path)

    assert losses is None
    assert read.cases == tuple(CASES)
    assert read.epochs == [0, 1, 2]
    np.testing.assert_allclose(read.values.iloc[-1], log.table.losses, rtol=1e-5)
    assert read.values.iloc[0, 1:].isna().all()
    assert read.times_seen.to_numpy().tolist() == [[2, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]]


def test_reads_what_the_weights_log_writes(tmp_path):
    log = WeightsLog(CASES, trusted=["NA"])
    for epoch in range(3):
        indices = np.array([0, 1, 1, 3])
        losses = np.zeros(4)
        log.record(
            cases_of_step(indices, losses=losses, weights=np.array([0.0, 1.0, 2.0, 1.0]) / 4)
        )
        log.end_epoch(epoch, tmp_path)

    table = rank_cases(*read_logs(tmp_path))

    assert table["case"].tolist() == ["case, one", "d\u2028.x", "001", "NA"]
    assert table["score"].tolist()[:3] == [0.0, 1.0, 1.5]
    assert table["times_seen"].tolist() == [2, 2, 4, 0]


@pytest.mark.parametrize("file", LOGS)
@pytest.mark.parametrize(
    "tail", ["9", "9,x", "9,x,0.5,", '9,"x, y', "9,x,1,1,3", "{row}", "{row}9"]
)
def test_a_last_line_or_epoch_that_was_cut_off_is_left_out(tmp_path, file, tail):
    folder = fold_folder(tmp_path)
    path = write_log(folder, file, ranked(file, ["x", "y"]))
    whole, _ = read_logs(folder)
    with path.open("a") as out:
        out.write(tail.format(row="9,x" + ",1" * (len(HEADS[file]) - 2) + "\n"))

    read, _ = read_logs(folder)

    pd.testing.assert_frame_equal(read.values, whole.values)


@pytest.mark.parametrize("file", LOGS)
def test_of_a_row_twice_the_last_one_holds_and_later_cases_begin_later(tmp_path, file):
    with write_log(tmp_path, file, [{"x": 0.5, "y": 0.5}]).open("a") as out:
        out.write("0,x,0.75,0.1,3\n" if file == "hardness.csv" else "0,x,0.75,3\n")
    read, _ = read_logs(tmp_path)

    assert read.values.to_numpy().tolist() == [[0.75, 0.5]]
    assert read.times_seen.to_numpy().tolist() == [[3, 10]]

    write_log(tmp_path, file, [{"x": 0.5}, {"y": 0.25, "x": 0.75}])
    read, _ = read_logs(tmp_path)

    np.testing.assert_array_equal(read.values, np.array([[0.5, np.nan], [0.75, 0.25]], np.float32))


@pytest.mark.parametrize("file", LOGS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must be a table of epoch, case"),
        ("{head}", "must be a table of epoch, case"),
        ("{head}\n", "at least one epoch"),
        ("{head}\n0,x", "at least one epoch"),
        ("{head}\n0,x,1,1,1\n0,y,1,1", "at least one epoch"),
        ("a,b\n1,2\n", "must be a table of epoch, case"),
        ("{head}\nzero,x,1,1,1\n", "must be a table of epoch, case"),
        ("{head}\n0,x,much,1,1\n", "must be a table of epoch, case"),
        ("{head}\n0,x\n0,y,1,1,1\n", "must be a table of epoch, case"),
        ('{head}\n0,"x,1,1,1\n', "must be a table of epoch, case"),
        ("{head}\n0,x,inf,1,1\n", "finite"),
        ("{head}\n0,x,1,-1,-1\n", "negative number of times"),
        ("\0\0\0\0\n\0\0\n", "must be a table of epoch, case"),
    ],
)
def test_an_empty_or_damaged_log_is_refused_by_name(tmp_path, file, content, message):
    content = content.format(head=",".join(HEADS[file]))
    if file == "weights.csv":
        content = content.replace(",1,1\n", ",1\n").replace(",-1,-1\n", ",-1\n")

    (tmp_path / file).write_text(content)

    with pytest.raises(ValueError, match=message) as error:
        read_logs(tmp_path)
    assert file in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_the_mean_of_folds_has_common_epochs_and_all_draws(tmp_path):
    """Of many cases, one fold has written every second epoch and the other every one."""
    logs = []
    for name, step in (("every", 1), ("second", 2)):
        folder = fold_folder(tmp_path / name)
        rows = [f"{epoch},a,{epoch / 10},0.5,{step}\n" for epoch in range(0, 5, step)]
        (folder / "hardness.csv").write_text("epoch,case,loss,probability,draws\n" + "".join(rows))
        logs.append(read_logs(folder)[0])

    mean = mean_log(logs)

    assert mean.epochs == [0, 2, 4]
    assert mean.values["a"].tolist() == pytest.approx([0, 0.2, 0.4])
    assert mean.times_seen["a"].tolist() == [1 + 2, 2 + 2, 2 + 2]
