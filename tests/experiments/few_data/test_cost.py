import pandas as pd
import pytest

from experiments.few_data.cost import cost_line, cost_table


def test_cost_ratios_are_those_of_the_same_round():
    # The second round is twice as slow for everybody, which the ratios do not show.
    rows = [
        {"round": number, "T": steps, "ms": (1 + number) * (10 if steps == 0 else 20 + 10 * steps), "batch_ms": 10}
        for number in range(2)
        for steps in (0, 1, 2, 5)
    ]
    table = cost_table(pd.DataFrame(rows))
    assert table["T"].tolist() == [0, 1, 2, 5]
    assert table["ratio"].tolist() == pytest.approx([1, 3, 4, 7])
    assert (table["ratio_p75"] - table["ratio_p25"]).tolist() == pytest.approx([0, 0, 0, 0])
    assert table["ms"].tolist() == pytest.approx([15, 45, 60, 105])
    # (30 + 10) / (10 + 10) and (60 + 10) / (20 + 10) for T = 1.
    assert table["ratio_with_batch"].iloc[1] == pytest.approx((2 + 7 / 3) / 2)
    assert cost_line(table) == pytest.approx((2, 1))
