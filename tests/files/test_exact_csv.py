"""Tests of `nnunet_dro.files.exact_csv`."""

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.files import exact_csv
from nnunet_dro.files.exact_csv import csv_text

NAMES = ["x", "y,z", '"q"', "two\nlines", "", None, "r\rs", "é\udcff"]
NUMBERS = [1.5, np.nan, np.inf, -np.inf, 1e-300, 1e22, -0.0, 0.1]


@pytest.mark.parametrize(
    "columns",
    [
        {"a,b": NAMES, "f": NUMBERS, "i": range(8), "u": np.arange(8, dtype=np.uint64)},
        {"f": NUMBERS, "single": np.arange(8, dtype=np.float32) / 3},
        {"name": NAMES},
        {"only undefined": [None, None], "i": [1, 2]},
        {"empty": ["", ""], "too": ["", ""]},
        {"mixed": [1, "x", 1.0, True], "i": range(4)},
        {"whole": pd.array([1, None], dtype="Int64"), "is": [True, False]},
        {"none": [], "neither": []},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_a_table_is_written_as_pandas_writes_it(columns, monkeypatch):
    monkeypatch.setattr(exact_csv, "_ROWS_AT_A_TIME", 3)
    table = pd.DataFrame(columns)

    assert csv_text(table) == table.to_csv(index=False)
