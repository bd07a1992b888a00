import numpy as np
import pandas as pd
import pytest

from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import HardnessTable
from nnunet_dro.suspects import rank_cases, read_logs
from nnunet_dro.trainers.l2rw.weights_log import WeightsLog
from nnunet_dro.trainers.log.hardness_log import HardnessLog
from tests.trainers.draws import cases_of_step

from .made_folds import HEADS, LOGS, fold_folder, ranked, write_log

CASES = ["case, one", "001", "NA", "d\u2028.x"]


def test_reads_what_the_hardness_log_writes(tmp_path):
    log = HardnessLog(HardnessTable(CASES, beta=10.0), ImportanceWeights())
    for epoch in range(3):
        indices, losses = np.array([epoch, 0]), np.array([-0.5, 0.25 + epoch])
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
        indices, losses = np.array([0, 1, 1, 3]), np.zeros(4)
        log.record(cases_of_step(indices, losses=losses, weights=np.array([0.0, 1.0, 2.0, 1.0]) / 4))
        log.end_epoch(epoch, tmp_path)
    table = rank_cases(*read_logs(tmp_path))
    assert table["case"].tolist() == ["case, one", "d\u2028.x", "001", "NA"]
    assert table["score"].tolist()[:3] == [0.0, 1.0, 1.5]
    assert table["times_seen"].tolist() == [2, 2, 4, 0]


@pytest.mark.parametrize("file", LOGS)
@pytest.mark.parametrize("tail", ["9", "9,x", "9,x,0.5,", '9,"x, y', "9,x,0.51,0.1,3"])
def test_a_last_line_that_was_cut_off_is_left_out(tmp_path, file, tail):
    folder = fold_folder(tmp_path)
    path = write_log(folder, file, ranked(file, ["x", "y"]))
    whole, _ = read_logs(folder)
    with path.open("a") as out:
        out.write(tail)
    read, _ = read_logs(folder)
    pd.testing.assert_frame_equal(read.values, whole.values)


@pytest.mark.parametrize("file", LOGS)
def test_of_a_row_that_is_there_twice_the_last_one_holds(tmp_path, file):
    folder = fold_folder(tmp_path)
    with write_log(folder, file, [{"x": 0.5, "y": 0.5}]).open("a") as out:
        out.write("0,x,0.75,0.1,3\n" if file == "hardness.csv" else "0,x,0.75,3\n")
    read, _ = read_logs(folder)
    assert read.values.to_numpy().tolist() == [[0.75, 0.5]]
    assert read.times_seen.to_numpy().tolist() == [[3, 10]]


@pytest.mark.parametrize("file", LOGS)
def test_cases_that_came_later_have_no_value_before(tmp_path, file):
    folder = fold_folder(tmp_path)
    write_log(folder, file, [{"x": 0.5}, {"y": 0.25, "x": 0.75}])
    read, _ = read_logs(folder)
    np.testing.assert_array_equal(read.values, np.array([[0.5, np.nan], [0.75, 0.25]], np.float32))


@pytest.mark.parametrize("file", LOGS)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must be a table of epoch, case"),
        ("{head}", "must be a table of epoch, case"),
        ("{head}\n", "at least one epoch"),
        ("{head}\n0,x", "at least one epoch"),
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
