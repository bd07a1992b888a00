"""The numbers of the experiment with few data: Dice of groups of test cases, and the time of the trainings."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from experiments.few_data.studies import LONG, LONG_GILS
from experiments.nnunet_runs.dice_table import dice_table, pooled_columns
from experiments.nnunet_runs.results import ALL_LABELS, Results
from experiments.nnunet_runs.study import BASELINE, Study

#: The group of all test cases.
ALL_CASES = "all"


def groups(study: Study) -> Mapping[str, tuple[str, ...]]:
    """The groups of test cases that are looked at: a name, and its strata."""
    (seen,) = study.common
    unseen = f"{', '.join(study.rare)} (in no training)"
    return {ALL_CASES: study.strata, f"{seen} (as in training)": (seen,), unseen: study.rare}


def summary(results: Results, *, baseline: str = BASELINE) -> pd.DataFrame:
    """Statistics of Dice with their paired differences to the baseline, of all seeds together and of each.

    Args:
        results: The numbers of the seeds.
        baseline: The method the others are compared with.

    Returns:
        The columns of `dice_table` that describe all cases (mean over the labels) for each of `groups`, with the
        columns ``cases`` and ``seed`` ("0, 1, 2" for all together, where there is more than one) before them.
    """
    dice = results.dice[results.dice["label"] == ALL_LABELS]
    parts = []
    seeds = sorted(dice["seed"].unique())
    for name, strata in groups(results.study).items():
        of_group = dice[dice["stratum"].isin(strata)]
        for of_seeds in [seeds, *([seed] for seed in seeds if len(seeds) > 1)]:
            rows = of_group[of_group["seed"].isin(of_seeds)]
            table = dice_table(rows, results.study, results.methods, baseline=baseline)
            table = table.reindex(columns=pooled_columns())
            table.insert(0, "seed", ", ".join(map(str, of_seeds)))
            table.insert(0, "cases", name)
            parts.append(table)
    return pd.concat(parts, ignore_index=True)


def long_pair(results: Results) -> pd.DataFrame:
    """`summary` of the two long trainings alone, the differences to the plain one of them.

    Returns:
        The rows of GI-LS; none where one of the two has not finished on any seed.
    """
    if not {LONG, LONG_GILS} <= set(results.methods):
        return pd.DataFrame()
    seeds = results.dice.groupby("method")["seed"].unique()
    common = set(seeds[LONG]) & set(seeds[LONG_GILS])
    dice = results.dice[results.dice["method"].isin((LONG, LONG_GILS)) & results.dice["seed"].isin(common)]
    table = summary(replace(results, methods=(LONG, LONG_GILS), dice=dice), baseline=LONG)
    return table[table["method"] == LONG_GILS]


def training_times(results: Results) -> pd.DataFrame:
    """Processor time of the whole trainings, a row per method: mean of the seeds, and ratios to the baseline's."""
    times = results.times
    baseline = times[times["method"] == BASELINE].set_index("seed")["cpu_seconds"]
    rows = []
    for method, of_method in times.groupby("method", sort=False):
        ratios = of_method["cpu_seconds"] / of_method["seed"].map(baseline)
        row = {
            "method": method,
            "trainer": results.study.trainer(str(method)),
            "cpu, s": of_method["cpu_seconds"].mean(),
        }
        rows.append(row | {"ratio": ratios.mean(), "ratio in seeds": f"{ratios.min():.2f} to {ratios.max():.2f}"})
    return pd.DataFrame(rows)
