import pandas as pd

from nnunet_dro.demo.results import render_table
from nnunet_dro.evaluation import summarise
from tests.pages.screen import screen


def statistics(scores, stratum_of_case):
    """As a comparison has them."""
    methods = scores.groupby("method", sort=False)
    parts = {method: summarise(rows, {"centre": stratum_of_case}, n_resamples=0) for method, rows in methods}
    return pd.concat(parts, names=["method"]).reset_index(level="method")


def test_table_has_a_line_per_label_stratum_and_method():
    cases = ["a", "b"]
    scores = pd.concat(
        pd.DataFrame({"method": method, "case": cases, "label": "tumour", "dice": values})
        for method, values in (("ERM", [0.8, 0.1]), ("DRO", [0.78, float("nan")]))
    )
    table = statistics(scores, pd.Series({"a": "A", "b": "B"}))
    text = screen(render_table(table, {"A": 9, "B": 1}), width=100)
    lines = [line.split() for line in text.splitlines() if "ERM" in line or "DRO" in line]
    assert lines == [
        ["tumour", "A", "9", "ERM", "80.0", "80.0", "0.0", "80.0", "80.0", "80.0"],
        ["tumour", "A", "9", "DRO", "78.0", "78.0", "0.0", "78.0", "78.0", "78.0"],
        ["tumour", "B", "1", "ERM", "10.0", "10.0", "0.0", "10.0", "10.0", "10.0"],
        ["tumour", "B", "1", "DRO", *"––––––"],
    ]


def test_notably_better_numbers_are_bold():
    scores = pd.concat(
        pd.DataFrame({"method": method, "case": ["a"], "label": "tumour", "dice": [dice]})
        for method, dice in (("ERM", 0.7), ("DRO", 0.76))
    )
    table = render_table(statistics(scores, pd.Series({"a": "A"})), {})
    text = screen(table, width=100, force_terminal=True, color_system="standard")
    assert "\x1b[1m76.0\x1b[0m" in text
    assert "\x1b[1m70.0" not in text
