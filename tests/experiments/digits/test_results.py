from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.digits.results import phases, results_table
from experiments.digits.training import Curve, Run


def test_phases_are_means_over_the_early_and_the_late_epochs():
    rising = [float(v) for v in range(15)]
    curve = Curve(rare=rising, overall=[50.0, 60, 54, 58, 55, *[90.0] * 10], drawn=rising, distinct=rising, seconds=1.0)
    row = phases(Run(0.01, 10.0, 0, epochs=15), curve)
    # Early: epochs 2 to 5. Late: epochs 13 to 15. Falls into them: 0, 6, 0, 3.
    assert (row["rare_early"], row["rare_late"]) == (2.5, 13.0)
    assert (row["all_early"], row["all_late"]) == (56.75, 90.0)
    assert row["drop"] == 9 / 4
    assert row["half"] == np.inf
    assert phases(Run(0.01, 10.0, 0, epochs=15), replace(curve, rare=[0.0, 49, 50, 51, *[0.0] * 11]))["half"] == 3
    assert (row["drawn"], row["distinct"]) == (2.5, 2.5)


def test_results_table_has_a_row_per_share_and_method_with_every_seed():
    numbers = ("rare_early", "rare_late", "all_early", "all_late", "drop", "drawn", "distinct", "gain")
    half = {(10.0, 0): 2.0, (10.0, 1): 5.0, (0.0, 0): 4.0, (0.0, 1): np.inf}
    rows = pd.DataFrame(
        [
            {
                "share": share,
                "beta": beta,
                "seed": seed,
                "half": half[beta, seed],
                **dict.fromkeys(numbers, 10 * beta + seed),
            }
            for share in (0.05, 0.01)
            for beta in (10.0, 0.0)
            for seed in (0, 1)
        ]
    )
    table = results_table(rows)
    assert table["3s kept"].tolist() == ["1 %", "1 %", "5 %", "5 %"]
    assert table["method"].tolist() == ["ERM", "beta 10"] * 2
    assert table["3s late"].tolist() == [0.5, 100.5] * 2
    # Where a seed never knew half of the 3s, there is no mean.
    np.testing.assert_array_equal(table["half by"], [np.nan, 3.5] * 2)
    assert table["3s late, by seed"].tolist() == ["0, 1", "100, 101"] * 2
