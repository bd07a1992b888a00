import numpy as np
import pandas as pd

from experiments.nnunet_runs.hardness import harder


def test_harder_is_the_chance_of_a_larger_value():
    assert harder(pd.Series([3.0, 1.0]), pd.Series([0.0, 2.0])) == 0.75
    assert harder(pd.Series([1.0]), pd.Series([1.0])) == 0.5
    assert np.isnan(harder(pd.Series([], dtype=float), pd.Series([1.0])))
