"""The ranking of the training cases: the first ones are the first to look at."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from nnunet_dro.files.case_log import WEIGHTS, EpochLog

FEW = 5  # If a case was seen less often in the epochs that count, its score is left to chance.
_MAD_TO_SD = 1.4826  # Ratio of the standard deviation to the median absolute deviation of a normal distribution.


def rank_cases(log: EpochLog, losses: EpochLog | None = None) -> pd.DataFrame:
    """Rank the cases, so that the first one is the first to look at.

    Cases with equal scores share a rank.

    The first third of the epochs does not count. With weights, the ``score`` is the mean weight
    over the epochs, weighted by the times that the case was seen, the lowest first. With stale
    losses, it is the mean over the epochs of the share of the other cases with a smaller loss,
    where equal losses count half, the highest first: a case that was very hard once has one epoch
    of rank 1, like any hardest case.

    Cases without a value come last, without a rank. ``gap`` is the difference of the mean weight or
    loss from the median of all cases, in standard deviations (1.4826 times the median absolute
    deviation; NaN if that is 0).
    """
    values = log.values.iloc[log.first_counted :]
    times = log.times_seen.iloc[log.first_counted :]
    if log.kind == WEIGHTS:
        weights = times.where(values.notna(), 0)
        score = means = (values * weights).sum() / weights.sum()
        loss = (
            losses.values.iloc[losses.first_counted :].mean()
            if losses
            else pd.Series(dtype=np.float64)
        )
    else:
        means = loss = values.mean()
        score = _ranks(values).mean()
    table = pd.DataFrame(
        {
            "score": score,
            "gap": _gap(means),
            "loss": loss.reindex(score.index),
            "times_seen": times.sum(),
            "times_seen_in_all": log.times_seen.sum(),
        }
    )
    return _in_order(table.rename_axis("case").reset_index(), 1 if log.kind == WEIGHTS else -1)


def rank_folds(logs: Sequence[tuple[EpochLog, EpochLog | None]]) -> pd.DataFrame:
    """Rank the cases of several folds together, by means of ranks within each, since networks differ in loss."""
    by_case = pd.concat([rank_cases(log, losses) for log, losses in logs]).groupby(
        "case", sort=False
    )
    table = by_case[["score", "gap", "loss"]].mean()
    table[["times_seen", "times_seen_in_all"]] = by_case[["times_seen", "times_seen_in_all"]].sum()
    table["folds"] = by_case["score"].count()
    return _in_order(table.reset_index(), 1 if logs[0][0].kind == WEIGHTS else -1)


def rank_by_dice(dice: pd.Series, losses: pd.DataFrame | None) -> pd.DataFrame:
    """Rank the cases by their out-of-fold validation Dice, the lowest first, with the losses of `rank_folds`."""
    table = pd.DataFrame({"case": dice.index.astype(str), "score": dice.to_numpy(dtype=np.float64)})
    table["gap"] = _gap(table["score"])
    columns = ["loss", "times_seen", "times_seen_in_all", "folds"]
    if losses is None:
        table = table.assign(loss=np.nan, times_seen=0, times_seen_in_all=0, folds=0)
    else:
        table = table.merge(losses[["case", *columns]], on="case", how="outer")
        table[columns[1:]] = table[columns[1:]].fillna(0).astype("int64")
    return _in_order(table, 1)


def below_most(values: pd.Series) -> pd.Series:
    """Whether a value lies more than 2 standard deviations (as in `rank_cases`) below the median.

    NaN does not.
    """
    median, spread = _centre(values)
    return values < median - 2 * spread - 1e-9


def _in_order(table: pd.DataFrame, sign: int) -> pd.DataFrame:
    """The cases with their ranks.

    The lowest score comes first if ``sign`` is 1, the highest if it is -1.
    """
    # Rounding keeps sums in another order from separating equal scores.
    keys = pd.DataFrame(
        {"score": (sign * table["score"]).round(9), "loss": -table["loss"], "case": table["case"]}
    )
    order = (
        keys.assign(seen=-table["times_seen"]).sort_values(["score", "loss", "seen", "case"]).index
    )
    table = table.assign(rank=keys["score"].rank(method="min").astype("Int64"))
    return table[["rank", *table.columns.drop("rank")]].loc[order].reset_index(drop=True)


def _ranks(values: pd.DataFrame) -> pd.DataFrame:
    """Share of the other cases with a smaller value, per epoch, where equal values count half.

    0.5 without others.
    """
    n_others = values.notna().sum(axis=1) - 1
    shares = (values.rank(axis=1) - 1).div(n_others.clip(lower=1), axis=0)
    return shares.add(0.5 * (n_others == 0), axis=0)


def _centre(values: "pd.Series[float]") -> tuple[float, float]:
    """The median and the standard deviation from the median absolute deviation.

    NaN without a value.
    """
    # The median of nothing is a warning with pandas 2.
    if (known := values.dropna()).empty:
        return np.nan, np.nan
    return float(known.median()), _MAD_TO_SD * float((known - known.median()).abs().median())


def _gap(means: "pd.Series[float]") -> "pd.Series[float]":
    median, spread = _centre(means)
    # Rounding errors are no spread.
    return (means - median) / (spread if spread > 1e-9 else np.nan)
