import pandas as pd

from nnunet_dro.demo.results import results_table
from nnunet_dro.evaluation import summarise
from tests.pages.screen import screen


def test_table_has_a_line_per_stratum_label_and_method_and_marks_the_best():
    scores = pd.concat(
        pd.DataFrame({"method": method, "case": ["a", "b"], "label": "tumour", "dice": values})
        for method, values in (("ERM", [0.7, 0.1]), ("DRO", [0.76, float("nan")]))
    )
    strata = {"centre": pd.Series({"a": "A", "b": "B"})}
    parts = {
        method: summarise(rows, strata, n_resamples=0)
        for method, rows in scores.groupby("method", sort=False)
    }
    table = results_table(pd.concat(parts, names=["method"]).reset_index(level="method"), {"A": 9})

    lines = [
        line.split()
        for line in screen(table, width=100).splitlines()
        if "ERM" in line or "DRO" in line
    ]

    assert [line[:5] for line in lines] == [
        ["A", "tumour", "ERM", "1", "(few)"],
        ["A", "tumour", "DRO", "1", "(few)"],
        ["B", "tumour", "ERM", "1", "(few)"],
        ["B", "tumour", "DRO", "1", "(1"],
    ]

    text = screen(table, width=100, force_terminal=True, color_system="standard")
    assert "Cases to train on: 9 of A, 0 of B." in text
    assert "\x1b[1m76.0\x1b[0m" in text
    assert "\x1b[1m70.0" not in text
