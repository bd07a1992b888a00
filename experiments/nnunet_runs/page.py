"""What the pages of all studies have in common."""

from collections.abc import Sequence

import pandas as pd

from experiments.nnunet_runs.study import Study
from experiments.record import collapsed_trainings


def not_learnt(dice: pd.DataFrame) -> list[str]:
    """The trainings that have not learnt a label, as "ERM, seed 1 (cerebellum)".

    Args:
        dice: Rows of `Results.dice`.
    """
    means = dice.groupby(["method", "seed", "label", "stratum"], sort=False)["dice"].mean()
    found = collapsed_trainings(means.rename("mean").reset_index())
    return [f"{row.method}, seed {row.seed} ({row.label})" for row in found.itertuples()]


def time_table(times: pd.DataFrame, methods: Sequence[str], study: Study) -> pd.DataFrame:
    """Time of an iteration, a row per method, mean and range of the seeds.

    Args:
        times: From `iteration_times`.
        methods: Methods in the order of the rows.
        study: The study.
    """
    rows = []
    for method in methods:
        of_method = times[times["method"] == method]
        row: dict[str, object] = {"method": method, "trainer": study.trainer(method)}
        for clock in ("cpu", "wall"):
            ratios = of_method[f"{clock}_ratio"]
            row[f"{clock}, ms"] = of_method[f"{clock}_ms"].mean()
            row[f"{clock}, ratio"] = ratios.mean()
            row[f"{clock}, ratio in seeds"] = f"{ratios.min():.2f} to {ratios.max():.2f}"
        rows.append(row)
    return pd.DataFrame(rows)
