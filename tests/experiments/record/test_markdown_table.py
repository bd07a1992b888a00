import re

import numpy as np
import pandas as pd

from experiments.record.markdown_table import markdown_table


def test_markdown_table_aligns_and_rounds_by_column():
    columns = {"name": ["a|b", "c"], "percent": [98.7654, 5.0], "tiny": [0.000123456, -0.0000999]}
    columns |= {
        "wide": [1e-9, 250.0],
        "count": [1000, 2],
        "holes": [np.nan, 0.5],
        "yes": [True, False],
    }
    table = pd.DataFrame(columns)
    lines = markdown_table(table).splitlines()

    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]

    assert rows[0] == list(table.columns)
    assert rows[2] == ["a\\|b", "98.8", "1.23e-04", "1e-09", "1000", "–", "True"]
    assert rows[3] == ["c", "5.0", "-9.99e-05", "250", "2", "0.500", "False"]
    assert [cell.endswith(":") for cell in rows[1]] == [False, True, True, True, True, True, False]
    assert len({len(line) for line in lines}) == 1
    assert "-0" not in markdown_table(pd.DataFrame({"gain": [-0.01, 20.0]})).splitlines()[2]

    table = pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "bound": [np.inf, 2.0]})
    cells = [line.split() for line in markdown_table(table).splitlines()[2:]]

    assert cells == [["|", "1", "|", "inf", "|"], ["|", "–", "|", "2.00", "|"]]
