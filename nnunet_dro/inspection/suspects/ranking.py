"""The ranking of the training cases: the first ones are the first to look at."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from nnunet_dro.files.case_log import LOSSES, WEIGHTS, EpochLog

#: What the cases can be ranked by: the stale loss, the learnt weight, or the out-of-fold validation
#: Dice.
LOSS = LOSSES.value
WEIGHT = WEIGHTS.value
DICE = "dice"

#: If a case was seen less often in the epochs that count, its score is left to chance.
FEW = 5

#: Ratio of the standard deviation to the median absolute deviation of a normal distribution.
_MAD_TO_SD = 1.4826


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
    times_seen = log.times_seen.iloc[log.first_counted :]
    if log.kind == WEIGHTS:
        counts = times_seen.where(values.notna(), 0)
        means = (values * counts).sum() / counts.sum()
        score = means
        loss = pd.Series(dtype=np.float64)
        if losses is not None:
            loss = losses.values.iloc[losses.first_counted :].mean()
    else:
        means = values.mean()
        score = _ranks(values).mean()
        loss = means

    table = pd.DataFrame(
        {
            "score": score,
            "gap": _gap(means),
            "loss": loss.reindex(score.index),
            "times_seen": times_seen.sum(),
            "times_seen_in_all": log.times_seen.sum(),
        }
    )
    by_case = table.rename_axis("case").reset_index()
    return _in_order(by_case, lowest_first=log.kind == WEIGHTS)


def rank_folds(logs: Sequence[tuple[EpochLog, EpochLog | None]]) -> pd.DataFrame:
    """Rank the cases of several folds of a model together.

    Each fold is ranked by itself, because the losses of one network may lie above those of another.
    Score, gap and loss are the means over the ``folds`` that have scored a case, the visits those
    of all together.
    """
    rankings = [rank_cases(log, losses) for log, losses in logs]
    by_case = pd.concat(rankings).groupby("case", sort=False)
    table = by_case[["score", "gap", "loss"]].mean()

    counts = ["times_seen", "times_seen_in_all"]
    table[counts] = by_case[counts].sum()
    table["folds"] = by_case["score"].count()

    first, _ = logs[0]
    return _in_order(table.reset_index(), lowest_first=first.kind == WEIGHTS)


def rank_by_dice(dice: pd.Series, losses: pd.DataFrame | None) -> pd.DataFrame:
    """Rank the cases by their out-of-fold validation Dice, the lowest first.

    ``losses`` are those of `rank_folds`, if there are any.
    """
    scores = dice.to_numpy(dtype=np.float64)
    table = pd.DataFrame({"case": dice.index.astype(str), "score": scores})
    table["gap"] = _gap(table["score"])

    if losses is None:
        table["loss"] = np.nan
        table[["times_seen", "times_seen_in_all", "folds"]] = 0
    else:
        counts = ["times_seen", "times_seen_in_all", "folds"]
        table = table.merge(losses[["case", "loss", *counts]], on="case", how="outer")
        table[counts] = table[counts].fillna(0).astype("int64")

    return _in_order(table, lowest_first=True)


def below_most(values: pd.Series) -> pd.Series:
    """Whether a value lies more than 2 standard deviations (as in `rank_cases`) below the median.

    NaN does not.
    """
    median, deviation = _centre(values)
    return values < median - 2 * deviation - 1e-9


def _in_order(table: pd.DataFrame, *, lowest_first: bool) -> pd.DataFrame:
    """The cases with their ranks, the first one first.

    Of equal scores, the case with the larger loss comes first, then the one that was seen more
    often.
    """
    # Rounding keeps sums in another order from separating equal scores.
    score = table["score"].round(9)
    keys = pd.DataFrame(
        {
            "score": score if lowest_first else -score,
            "loss": -table["loss"],
            "seen": -table["times_seen"],
            "case": table["case"],
        }
    )
    order = keys.sort_values(["score", "loss", "seen", "case"]).index
    columns = ["rank", *table.columns]
    ranked = table.assign(rank=keys["score"].rank(method="min").astype("Int64"))
    return ranked.loc[order, columns].reset_index(drop=True)


def _ranks(values: pd.DataFrame) -> pd.DataFrame:
    """Share of the other cases with a smaller value, per epoch, where equal values count half.

    It is (rank - 1) / (n - 1), with mean ranks of equal values, and 0.5 without others.
    """
    n_others = values.notna().sum(axis=1) - 1
    shares = (values.rank(axis=1) - 1).div(n_others.clip(lower=1), axis=0)
    return shares.add(0.5 * (n_others == 0), axis=0)


def _centre(values: "pd.Series[float]") -> tuple[float, float]:
    """The median, and the standard deviation from the median absolute deviation.

    NaN without a value.
    """
    present = values.dropna()
    # The median of nothing is a warning with pandas 2.
    if present.empty:
        return np.nan, np.nan

    median = float(present.median())
    deviation = _MAD_TO_SD * float((present - median).abs().median())
    return median, deviation


def _gap(means: "pd.Series[float]") -> "pd.Series[float]":
    """How far each mean is from the median, in standard deviations; NaN if these are 0."""
    median, deviation = _centre(means)
    # Rounding errors are no spread.
    if not deviation > 1e-9:
        deviation = np.nan
    return (means - median) / deviation
