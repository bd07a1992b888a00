"""Dice of all methods, and how each differs from the baseline."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from experiments.nnunet_runs.study import BASELINE, Study
from nnunet_dro.evaluation.bootstrap import FloatArray, difference_intervals
from nnunet_dro.evaluation.significance import wilcoxon_p
from nnunet_dro.evaluation.statistics import STATISTICS
from nnunet_dro.evaluation.stratum_statistics import describe
from nnunet_dro.evaluation.trainings import N_FOR_SPREAD

#: The statistics of Dice that a page shows.
SHOWN = ("mean", "p25", "p10", "p5")


def dice_table(
    dice: pd.DataFrame,
    study: Study,
    methods: Sequence[str],
    *,
    statistics: Sequence[str] = SHOWN,
    baseline: str = BASELINE,
    over_seeds: bool = False,
) -> pd.DataFrame:
    """Dice of some test cases, and its difference to the baseline.

    Args:
        dice: Rows of `Results.dice`, all of one label: each test case of a seed once per method.
        study: The study.
        methods: Methods in the order of the rows; those without a case are left out.
        statistics: The statistics of Dice, `STATISTICS` of `nnunet_dro.evaluation.statistics`.
        baseline: The method the others are compared with.
        over_seeds: Whether differences are those of the seeds, see `differences_of_seeds`, and not of the cases of all
            seeds together, as if these were of one training. There is no p value then.

    Returns:
        A row per method, Dice as fractions: ``trainer``, ``n_seeds``, ``n_cases``, ``seeds_better`` (in how many seeds
        the mean is above the baseline's), and for each statistic: its value over the cases of all seeds together
        (``mean``), the mean of the seeds' values, the lowest and the highest of them (``mean_of_seeds``,
        ``mean_lowest``, ``mean_highest``), the difference to the baseline over the cases that both have, paired, with
        its 95 % bootstrap interval (``mean_difference``, ``mean_difference_low``, ``mean_difference_high``; NaN for the
        baseline). ``wilcoxon_p`` is that of the paired differences.
    """
    wide = dice.pivot(index=["seed", "case"], columns="method", values="dice")
    rows: list[dict[str, object]] = []
    for method in methods:
        if method not in wide:
            continue
        values = wide[method].dropna()
        before = wide[baseline].loc[values.index]
        of_seeds, baseline_of_seeds = (_by_seed(of_method, statistics) for of_method in (values, before))
        row: dict[str, object] = {"method": method, "trainer": study.trainer(method)}
        row |= {"n_seeds": len(of_seeds), "n_cases": len(values)}
        row["seeds_better"] = int((of_seeds["mean"] > baseline_of_seeds["mean"]).sum())
        row |= _own(values.to_numpy(dtype=np.float64), of_seeds, statistics)
        if method != baseline and over_seeds:
            row |= differences_of_seeds(baseline_of_seeds, of_seeds, statistics)
        elif method != baseline:
            row |= _differences(before.to_numpy(dtype=np.float64), values.to_numpy(dtype=np.float64), statistics)
        rows.append(row)
    return pd.DataFrame(rows)


def pooled_columns(statistics: Sequence[str] = SHOWN) -> list[str]:
    """The columns of `dice_table` that describe the cases of all seeds together."""
    columns = ["method", "trainer", "n_seeds", "n_cases", "mean_lowest", "mean_highest", "seeds_better", *statistics]
    return columns + [f"{name}_difference{bound}" for name in statistics for bound in ("", "_low", "_high")]


def _by_seed(values: "pd.Series[float]", statistics: Sequence[str]) -> pd.DataFrame:
    """Statistics of each seed's cases: a row per seed."""
    rows = {seed: describe(of_seed.to_numpy(dtype=np.float64)) for seed, of_seed in values.groupby("seed")}
    return pd.DataFrame.from_dict(rows, orient="index")[["mean", *(name for name in statistics if name != "mean")]]


def _own(values: FloatArray, of_seeds: pd.DataFrame, statistics: Sequence[str]) -> dict[str, object]:
    pooled = describe(values)
    row: dict[str, object] = {}
    for name in statistics:
        row[name] = pooled[name]
        row[f"{name}_of_seeds"] = of_seeds[name].mean()
        row |= {f"{name}_lowest": of_seeds[name].min(), f"{name}_highest": of_seeds[name].max()}
    return row


def _differences(before: FloatArray, after: FloatArray, statistics: Sequence[str]) -> dict[str, object]:
    """How the statistics of two paired samples differ, with the intervals."""
    both = ~np.isnan(before) & ~np.isnan(after)
    old, new = describe(before[both]), describe(after[both])
    (bounds,) = difference_intervals([(before, after)])
    row: dict[str, object] = {"wilcoxon_p": wilcoxon_p((after - before)[both])}
    for name, (low, high) in zip(STATISTICS, bounds, strict=True):
        if name in statistics:
            row[f"{name}_difference"] = new[name] - old[name]
            row |= {f"{name}_difference_low": low, f"{name}_difference_high": high}
    return row


def differences_of_seeds(before: pd.DataFrame, after: pd.DataFrame, statistics: Sequence[str]) -> dict[str, object]:
    """The mean over the seeds of how the statistics of two trainings differ, with Student's t interval over the seeds.

    Every seed draws data of its own, so that the seeds are independent, and their spread is that of trainings and of
    cases together. (Where all trainings have the same cases, `evaluation.trainings` is right.)

    Args:
        before: Statistics of the baseline's cases, a row per seed.
        after: Those of the method.
        statistics: Columns of both.

    Returns:
        For each statistic ``mean_difference``, ``mean_difference_low`` and ``mean_difference_high``; no bounds with
        fewer seeds than `N_FOR_SPREAD`.
    """
    row: dict[str, object] = {}
    for name in statistics:
        changes = (after[name] - before[name]).to_numpy(dtype=np.float64)
        middle, low, high = changes.mean(), np.nan, np.nan
        if len(changes) >= N_FOR_SPREAD:
            half = stdtrit(len(changes) - 1, 0.975) * changes.std(ddof=1) / np.sqrt(len(changes))
            low, high = middle - half, middle + half
        row |= {f"{name}_difference": middle, f"{name}_difference_low": low, f"{name}_difference_high": high}
    return row


def shown_table(table: pd.DataFrame, keys: Mapping[str, str], columns: Sequence[str]) -> pd.DataFrame:
    """The table of a page: Dice in per cent, and the differences to the baseline as text.

    Args:
        table: From `dice_table`, with further columns that identify its rows.
        keys: Columns that identify a row, to their headings on the page.
        columns: Statistics (``mean``), and the ranges of their values in the seeds (``mean, seeds``), in the order of
            the page. The differences of the statistics follow them.
    """
    shown = pd.DataFrame({heading: table[column] for column, heading in keys.items()})
    statistics = [name for name in columns if name in STATISTICS]
    for name in columns:
        if name in statistics:
            shown[name] = 100 * table[name]
        else:
            statistic = name.removesuffix(", seeds")
            ends = zip(table[f"{statistic}_lowest"], table[f"{statistic}_highest"], strict=True)
            shown[name] = [f"{100 * low:.1f} to {100 * high:.1f}" for low, high in ends]
    for name in statistics:
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


def sign(row: Mapping[Hashable, object], statistic: str) -> str:
    """Whether a statistic is ``higher`` or ``lower`` than the baseline's, or ``open`` if the interval has 0 inside.

    Args:
        row: A row of `dice_table`, except that of the baseline.
        statistic: The statistic.
    """
    low, high = (float(str(row[f"{statistic}_difference_{bound}"])) for bound in ("low", "high"))
    return "higher" if low > 0 else "lower" if high < 0 else "open"


def told_rows(table: pd.DataFrame, statistics: Sequence[str] = SHOWN) -> list[dict[str, object]]:
    """Rows for templates that describe them in sentences.

    Args:
        table: From `dice_table`.
        statistics: Statistics that the sentences mention.

    Returns:
        The rows, each with ``differences`` and ``signs``: statistic to `difference` and `sign`.
    """
    return [
        {
            **{str(name): value for name, value in row.items()},
            "differences": {statistic: difference(row, statistic) for statistic in statistics},
            "signs": {statistic: sign(row, statistic) for statistic in statistics},
        }
        for row in table.to_dict("records")
    ]
