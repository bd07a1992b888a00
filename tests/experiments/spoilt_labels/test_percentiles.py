import numpy as np
import pandas as pd
import pytest

from experiments.spoilt_labels.percentiles import bound_table, gaps
from experiments.spoilt_labels.separation import harder

LOSSES = [0.0] * 9 + [1.0]


def test_gap_is_equation_15_less_the_smallest_that_so_few_losses_exceed():
    table = bound_table(pd.DataFrame({"method": "ERM", "seed": 0, "loss": [*LOSSES, np.nan]}))
    row = table.set_index(["beta", "share"]).loc[("10", "50 %")]
    bound = np.log(2 * np.mean(np.exp(10 * np.array(LOSSES)))) / 10

    spread = np.std(LOSSES)

    # All but one of the losses are 0, so any number above 0 is exceeded by fewer than a half.
    assert row["gap"] == pytest.approx(bound / spread)
    assert (row["trainings"], row["broken"], row["void"], row["above"]) == (1, 0, 0, 10)


def test_gap_has_a_star_where_the_bound_is_above_all_losses():
    table = bound_table(pd.DataFrame({"method": "ERM", "seed": 0, "loss": LOSSES}))
    assert (table["broken"] == 0).all()

    # A tenth of the cases share the largest loss: a large beta bounds the 10 % by it and the 1 %
    # above it.
    shown = gaps(table).set_index("beta").loc["1000"]
    assert shown["1 %"].endswith("*")
    assert float(shown["10 %"].rstrip("*")) == pytest.approx(1 / np.std(LOSSES), abs=0.01)


def test_harder_is_the_chance_of_a_larger_value():
    assert harder(pd.Series([3.0, 1.0]), pd.Series([0.0, 2.0])) == 0.75
    assert harder(pd.Series([1.0]), pd.Series([1.0])) == 0.5
    assert np.isnan(harder(pd.Series([], dtype=float), pd.Series([1.0])))
