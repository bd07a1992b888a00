import pandas as pd

from experiments.nnunet_runs.page import not_learnt


def test_training_that_has_not_learnt_a_label_is_named():
    rows = [("ERM", 0, "stem", 0.0), ("ERM", 0, "stem", 0.5), ("ERM", 0, "bud", 0.0), ("DRO", 1, "stem", 0.004)]
    dice = pd.DataFrame(rows, columns=["method", "seed", "label", "dice"]).assign(stratum="test")
    assert not_learnt(dice) == [
        "ERM, seed 0 (bud)",
        "DRO, seed 1 (stem)",
    ]
