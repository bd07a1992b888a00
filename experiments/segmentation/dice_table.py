"""Dice of all methods, and how each differs from the baseline."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from experiments.nnunet_runs.study import BASELINE, Study
from nnunet_dro.evaluation.comparing.trainings import N_FOR_SPREAD
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

#: The statistics of Dice that are compared.
SHOWN = ("mean", "p10", "p5")


def dice_table(dice: pd.DataFrame, study: Study, methods: Sequence[str]) -> pd.DataFrame:
    """Dice of some test cases, and its difference to the baseline.

    Args:
        dice: Rows of `Results.dice`, all of one label: each test case of a seed once per method.
        study: The study.
        methods: Methods in the order of the rows; those without a case are left out.

    Returns:
        A row per method, Dice as fractions: ``trainer``, ``n_seeds``, ``n_cases``, ``seeds_better`` (in how many seeds
        the mean is above the baseline's), and for each of `SHOWN` the mean of the seeds' values, the lowest and the
        highest of them (``mean``, ``mean_lowest``, ``mean_highest``), and its difference to the baseline, see
        `differences_of_seeds`.
    """
    wide = dice.pivot(index=["seed", "case"], columns="method", values="dice")
    rows: list[dict[str, object]] = []
    for method in methods:
        if method not in wide:
            continue
        values = wide[method].dropna()
        after, before = (_by_seed(of_method) for of_method in (values, wide[BASELINE].loc[values.index]))
        row: dict[str, object] = {"method": method, "trainer": study.trainer(method)}
        row |= {"n_seeds": len(after), "n_cases": len(values)}
        row["seeds_better"] = int((after["mean"] > before["mean"]).sum())
        for name in SHOWN:
            row |= {name: after[name].mean(), f"{name}_lowest": after[name].min(), f"{name}_highest": after[name].max()}
        rows.append(row | (differences_of_seeds(before, after) if method != BASELINE else {}))
    return pd.DataFrame(rows)


def _by_seed(values: "pd.Series[float]") -> pd.DataFrame:
    """`SHOWN` of each seed's cases: a row per seed."""
    rows = {seed: describe(of_seed.to_numpy(dtype=np.float64)) for seed, of_seed in values.groupby("seed")}
    return pd.DataFrame.from_dict(rows, orient="index")[list(SHOWN)]


def differences_of_seeds(before: pd.DataFrame, after: pd.DataFrame) -> dict[str, object]:
    """The mean over the seeds of how the statistics of two trainings differ, with Student's t interval over the seeds.

    Every seed draws data of its own, so that the seeds are independent, and their spread is that of trainings and of
    cases together. (Where all trainings have the same cases, `evaluation.trainings` is right.)

    Args:
        before: Statistics of the baseline's cases, a row per seed.
        after: Those of the method.

    Returns:
        For each of `SHOWN` ``mean_difference``, ``mean_difference_low`` and ``mean_difference_high``; no bounds with
        fewer seeds than `N_FOR_SPREAD`.
    """
    row: dict[str, object] = {}
    for name in SHOWN:
        changes = (after[name] - before[name]).to_numpy(dtype=np.float64)
        middle, low, high = changes.mean(), np.nan, np.nan
        if len(changes) >= N_FOR_SPREAD:
            half = stdtrit(len(changes) - 1, 0.975) * changes.std(ddof=1) / np.sqrt(len(changes))
            low, high = middle - half, middle + half
        row |= {f"{name}_difference": middle, f"{name}_difference_low": low, f"{name}_difference_high": high}
    return row


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """The table of the page: Dice in per cent, and the differences to the baseline as text.

    Args:
        table: From `dice_table`, with ``label`` and ``stratum``.
    """
    shown = table[["label", "stratum", "method"]].assign(seeds=table["n_seeds"])
    for name in SHOWN:
        ends = zip(table[f"{name}_lowest"], table[f"{name}_highest"], strict=True)
        shown[name] = 100 * table[name]
        shown[f"{name}, seeds"] = [f"{100 * low:.1f} to {100 * high:.1f}" for low, high in ends]
    for name in SHOWN:
        shown[f"{name} - {BASELINE}"] = [difference(row, name) for row in table.to_dict("records")]
    return shown


def difference(row: Mapping[Hashable, object], statistic: str) -> str:
    """A difference to the baseline with its interval, points of Dice: "+1.2 [-0.3, +2.5]"; empty if there is none.

    Without an interval it is "+1.2 (no interval)".

    Args:
        row: A row of `dice_table`.
        statistic: The statistic.
    """
    middle, low, high = (100 * float(str(row[f"{statistic}_difference{bound}"])) for bound in ("", "_low", "_high"))
    if middle != middle:
        return ""
    return f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]" if low == low else f"{middle:+.1f} (no interval)"
