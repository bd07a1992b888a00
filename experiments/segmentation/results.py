"""The numbers of a segmentation study, by label and stratum."""

import pandas as pd

from experiments.nnunet_runs.results import ALL_LABELS, Results
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import collapsed_trainings, without_collapsed
from experiments.segmentation.dice_table import SHOWN, dice_table, differences_of_seeds


def summary_rows(results: Results) -> pd.DataFrame:
    """One row per label, stratum and method, all numbers as fractions of Dice.

    Returns:
        For each of `SHOWN` its mean over the seeds (``mean``), the lowest and the highest of them
        (``mean_lowest``, ``mean_highest``), and the mean over the seeds of the difference to the baseline with its 95 %
        interval over the seeds (``mean_difference``, ``mean_difference_low``, ``mean_difference_high``; empty for the
        baseline, and the interval with fewer than three seeds). ``seeds_better`` counts the seeds whose mean is above
        the baseline's. ``differences`` says that these are those of the seeds; earlier tables, which lack the column,
        have differences and intervals of the cases of all seeds together.
    """
    study, dice = results.study, results.dice
    others = [label for label in dice["label"].unique() if label not in (*study.labels, ALL_LABELS)]
    parts = []
    for label in (*study.labels, *others):
        for stratum in study.strata:
            rows = dice[(dice["label"] == label) & (dice["stratum"] == stratum)]
            part = dice_table(rows, study, results.methods)
            parts.append(part.assign(label=label, stratum=stratum))
    table = pd.concat(parts, ignore_index=True)
    columns = ["method", "trainer", "stratum", "label", "n_seeds", "n_cases", "seeds_better"]
    columns += [f"{statistic}{end}" for statistic in SHOWN for end in ("", "_lowest", "_highest")]
    columns += [f"{statistic}_difference{bound}" for statistic in SHOWN for bound in ("", "_low", "_high")]
    return table.assign(differences="of seeds")[[*columns, "differences"]]


def learnt_rows(by_seed: pd.DataFrame, study: Study) -> pd.DataFrame:
    """As `summary_rows`, of the study's labels, without the trainings that have collapsed.

    A seed counts for a method where neither its training nor the baseline's has collapsed.

    Args:
        by_seed: From `seed_rows`.
        study: The study.

    Returns:
        Without the rows of a label and stratum where no seed is left.
    """
    learnt = without_collapsed(by_seed, collapsed_trainings(by_seed))
    rows: list[dict[str, object]] = []
    for (label, stratum), group in learnt[learnt["label"].isin(study.labels)].groupby(["label", "stratum"], sort=False):
        of_method = {method: of.set_index("seed") for method, of in group.groupby("method", sort=False)}
        baseline = of_method.get(BASELINE, group.iloc[:0].set_index("seed"))
        for method, of in of_method.items():
            seeds = of.index.intersection(baseline.index)
            if seeds.empty:
                continue
            before, after = baseline.loc[seeds], of.loc[seeds]
            row: dict[str, object] = {"label": label, "stratum": stratum, "method": method, "n_seeds": len(seeds)}
            row |= {name: after[name].mean() for name in SHOWN}
            row["seeds_better"] = int((after["mean"] > before["mean"]).sum())
            rows.append(row | (differences_of_seeds(before, after) if method != BASELINE else {}))
    return pd.DataFrame(rows, columns=list(rows[-1]) if rows else ["label", "stratum", "method"])
