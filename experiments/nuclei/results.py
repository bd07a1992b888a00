"""The numbers of the experiment: Dice by modality, and differences to plain training of the same seed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from experiments.nuclei.training import Run

#: The method that the others are compared with, and the one that is told the modalities.
PLAIN, TOLD = "plain", "told"
#: Method to the trainer whose way of drawing it takes.
METHODS = {
    PLAIN: "nnUNetTrainerDRO_beta0",
    "share0.5": "nnUNetTrainerDRO",
    TOLD: "nnUNetTrainerIW_modality",
    "share0.5_IS": "nnUNetTrainerDRO_IS",
}
#: The common modality, and those that are rare in training.
COMMON, RARE = "fluorescence", ("purple", "purple_white", "gray_smear")


def scores_of(made: Mapping[str, tuple[Run, Mapping[str, Any]]]) -> pd.DataFrame:
    """One row per training, moment and modality.

    Args:
        made: Name of each training, ``<method>-seed<seed>``, to its run and its result.

    Returns:
        Columns ``method``, ``trainer``, ``seed``, ``iteration``, ``modality``, ``n`` (test images), ``mean`` and
        ``p10`` of their Dice in [0, 1], ``share`` of the modality in the draws so far, and ``clipped_share``.
    """
    rows = []
    for name, (run, result) in made.items():
        dice = pd.DataFrame(result["dice"], columns=["iteration", "modality", "case", "dice"])
        shares = {(iteration, modality): share for iteration, modality, share in result["share"]}
        for (iteration, modality), of in dice.groupby(["iteration", "modality"], sort=False)["dice"]:
            rows.append(
                {
                    "method": name.rsplit("-", 1)[0],
                    "trainer": run.trainer,
                    "seed": run.seed,
                    "iteration": iteration,
                    "modality": modality,
                    "n": len(of),
                    "mean": of.mean(),
                    "p10": np.percentile(of, 10),
                    "share": shares[iteration, modality],
                    "clipped_share": result["clipped_share"],
                }
            )
    return pd.DataFrame(rows)


def differences(scores: pd.DataFrame) -> pd.DataFrame:
    """Means over the seeds of each method, moment and modality, and differences to plain training of the same seed.

    Returns:
        Columns ``iteration``, ``modality``, ``method``, ``seeds``, ``mean``, ``p10`` and ``share`` (means over the
        seeds), and ``difference`` of the mean with ``low`` and ``high``, the 95 % t-interval over the seeds (NaN for
        plain training and for a single seed); Dice in points of 100.
    """
    keys = ["iteration", "modality", "seed"]
    plain = scores[scores["method"] == PLAIN].set_index(keys)["mean"]
    rows = []
    for (iteration, modality, method), of in scores.groupby(["iteration", "modality", "method"], sort=False):
        paired = of.set_index(keys)["mean"].sub(plain).dropna() * 100
        low = high = np.nan
        if method != PLAIN and len(paired) > 1:
            half = stats.t.ppf(0.975, len(paired) - 1) * stats.sem(paired)
            low, high = paired.mean() - half, paired.mean() + half
        rows.append(
            {
                "iteration": iteration,
                "modality": modality,
                "method": method,
                "seeds": of["seed"].nunique(),
                "mean": 100 * of["mean"].mean(),
                "p10": 100 * of["p10"].mean(),
                "share": 100 * of["share"].mean(),
                "difference": paired.mean() if method != PLAIN else np.nan,
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(rows)


def decision(found: pd.DataFrame) -> pd.DataFrame:
    """What the rule of docs/default.md asks of each method, one row each.

    Returns:
        Columns ``method``; ``worst_at_end``, its smallest difference of any modality at the end, in points;
        ``lowest_on_the_way``, its smallest Dice of any modality after a tenth, over plain training's; ``gain`` and
        ``gain_early``, the mean difference of the rare modalities at the end and after a tenth, over that of the method
        that is told them; and ``passes``, whether no modality loses more than a point and none is below half.
    """
    first, last = found["iteration"].min(), found["iteration"].max()
    tables = {moment: found[found["iteration"] == moment] for moment in (first, last)}
    means = {moment: table.pivot(index="method", columns="modality", values="mean") for moment, table in tables.items()}
    rows = []
    for method in means[last].index.drop(PLAIN):
        lost = (means[last].loc[method] - means[last].loc[PLAIN]).min()
        ratio = (means[first].loc[method] / means[first].loc[PLAIN].clip(lower=1e-9)).min()
        gains = {}
        for name, moment in (("gain", last), ("gain_early", first)):
            gained = means[moment][list(RARE)].sub(means[moment].loc[PLAIN, list(RARE)]).mean(axis=1)
            gains[name] = gained[method] / gained[TOLD] if TOLD in gained else np.nan
        rows.append(
            {
                "method": method,
                "worst_at_end": lost,
                "lowest_on_the_way": ratio,
                **gains,
                "passes": bool(lost >= -1 and ratio >= 0.5),
            }
        )
    return pd.DataFrame(rows)


def results_table(found: pd.DataFrame) -> pd.DataFrame:
    """The table of the page."""
    numbers = found[["difference", "low", "high"]].to_numpy()
    return found.drop(columns=["difference", "low", "high"]).assign(**{f"- {PLAIN}": [_shown(*row) for row in numbers]})


def _shown(difference: float, low: float, high: float) -> str:
    if np.isnan(difference):
        return ""
    return f"{difference:+.1f}" + ("" if np.isnan(low) else f" [{low:+.1f}, {high:+.1f}]")
