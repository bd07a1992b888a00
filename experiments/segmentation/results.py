"""The numbers of a segmentation study, by label and stratum."""

import numpy as np
import pandas as pd

from experiments.nnunet_runs.dice_table import dice_table
from experiments.nnunet_runs.results import ALL_LABELS, Results
from nnunet_dro.evaluation.significance import holm

#: The statistics of Dice on the page.
STATISTICS = ("mean", "p10", "p5")


def summary_rows(results: Results) -> pd.DataFrame:
    """One row per label, stratum and method, all numbers as fractions of Dice.

    Returns:
        For each of `STATISTICS` its mean over the seeds (``mean``), the lowest and the highest of them
        (``mean_lowest``, ``mean_highest``), and the difference to the baseline over the pooled cases with its 95 %
        interval (``mean_difference``, ``mean_difference_low``, ``mean_difference_high``; empty for the baseline).
        ``seeds_better`` counts the seeds whose mean is above the baseline's. ``holm_p`` is the p value of Wilcoxon's
        test of the paired differences, corrected for the labels and strata of the method.
    """
    study, dice = results.study, results.dice
    others = [label for label in dice["label"].unique() if label not in (*study.labels, ALL_LABELS)]
    parts = []
    for label in (*study.labels, *others):
        for stratum in study.strata:
            rows = dice[(dice["label"] == label) & (dice["stratum"] == stratum)]
            part = dice_table(rows, study, results.methods, statistics=STATISTICS)
            parts.append(part.assign(label=label, stratum=stratum))
    table = pd.concat(parts, ignore_index=True)
    table["holm_p"] = np.nan
    for _, family in table.groupby("method", sort=False):
        table.loc[family.index, "holm_p"] = holm(family["wilcoxon_p"].to_numpy(dtype=np.float64))
    columns = ["method", "trainer", "stratum", "label", "n_seeds", "n_cases", "seeds_better"]
    for statistic in STATISTICS:
        # The page compares the seeds, and so their mean stands for all of them.
        table[statistic] = table[f"{statistic}_of_seeds"]
        columns += [statistic, f"{statistic}_lowest", f"{statistic}_highest"]
    columns += [f"{statistic}_difference{bound}" for statistic in STATISTICS for bound in ("", "_low", "_high")]
    return table[[*columns, "holm_p"]]
