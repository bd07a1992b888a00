import numpy as np
import pytest

from experiments.imbalanced_pair.results import compared, results_table
from experiments.imbalanced_pair.training import (
    Outcome,
    Run,
)


def _outcome(rare, common=0.0):
    return Outcome(rare, common, halfway=20.0, weight=50.0, effective=7.0, seconds=1.0)


def test_compared_pairs_the_methods_of_a_split():
    errors = {("plain", 0): 40, ("plain", 1): 20, ("resample", 0): 10, ("resample", 1): 12, ("L2RW", 0): 14}
    errors["L2RW", 1] = 100
    rows = compared([(Run(method, 84, seed, 0.1), _outcome(error)) for (method, seed), error in errors.items()])
    l2rw = rows[rows["method"] == "L2RW"].set_index("seed")
    # An error is the mean of both digits, of which one is 0 here.
    assert l2rw["error"].tolist() == [7, 50]
    assert l2rw["minus plain"].tolist() == [7 - 20, 50 - 10]
    assert l2rw["minus resample"].tolist() == [7 - 5, 50 - 6]
    assert l2rw["lost"].tolist() == [False, True]
    table = results_table(rows).set_index("method")
    assert table.index.tolist() == ["plain", "resample", "L2RW"]
    assert table.loc["L2RW", ["ratio", "4s", "error", "by split"]].tolist() == ["84:1", 5, 28.5, "7.0, 50.0"]
    assert table.loc["L2RW", ["minus plain", "minus resample", "lost"]].tolist() == [13.5, 23, 1]
    assert table.loc["plain", "sd"] == pytest.approx(np.std([20, 10], ddof=1))


def test_compared_does_not_let_rounding_decide_which_error_is_lower():
    runs = {"plain": 1.25, "resample": 1.2500000186264515, "L2RW": 1.249999994}
    rows = compared([(Run(method, 84, 0, 0.1), _outcome(error, 2.5)) for method, error in runs.items()])
    assert (rows[["minus plain", "minus resample"]] == 0).all(axis=None)
