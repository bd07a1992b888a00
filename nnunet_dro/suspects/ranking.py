"""The training cases in the order in which to look at them."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.suspects.epoch_log import WEIGHTS, EpochLog

#: A case that was seen less often in the epochs that count has a score of chance.
FEW = 5

#: Median absolute deviation to standard deviation, of a normal distribution.
_MAD_TO_SD = 1.4826


def rank_cases(log: EpochLog, losses: EpochLog | None = None) -> pd.DataFrame:
    """Rank the cases, the first one being the first to look at.

    The first third of the epochs does not count. What makes a suspect is not one bad epoch but what stays:

    - Of weights, the score is the mean weight over the epochs, weighted by the times seen. The lowest comes first.
    - Of stale losses, the score is the mean rank over the epochs at whose end the case had a loss. The rank in one
      epoch is the share of the other cases with a smaller loss, equal ones counting half: 1 is the hardest, 0 the
      easiest, 0.5 if there are no others. The highest comes first. Ranks do not know by how much a loss is larger:
      a case that was very hard once has one epoch of rank 1, no more than any hardest case.

    Equal scores have the same rank; of these the larger mean loss comes first, then the more often seen, then the name.

    Args:
        log: The log to rank by.
        losses: The stale losses of the same training, where ``log`` holds weights.

    Returns:
        A row per case: ``rank`` from 1 (missing without a score); ``case``; ``score``, NaN for a case that has no
        value in the epochs that count, such cases come last; ``gap``, how far its mean weight or mean loss lies from
        the median of all, in standard deviations (1.4826 times the median absolute deviation), NaN where that is 0;
        ``loss``, the mean stale loss, NaN where it is not known; ``times_seen`` in the epochs that count, and
        ``times_seen_in_all``.
    """
    start = log.first_counted
    values, times = log.values[start:], log.times_seen[start:]
    with np.errstate(invalid="ignore"):
        if log.kind == WEIGHTS:
            weights = np.where(np.isnan(values), 0, times)
            means = np.nansum(values * weights, axis=0, dtype=np.float64) / weights.sum(axis=0)
            score, sign, loss = means, 1, _losses_of(log.cases, losses)
        else:
            means = loss = _mean(values)
            score, sign = _mean(_ranks(values)), -1
    table = pd.DataFrame(
        {
            "case": log.cases,
            "score": score,
            "gap": _gap(means),
            "loss": loss,
            "times_seen": times.sum(axis=0, dtype=np.int64),
            "times_seen_in_all": log.times_seen.sum(axis=0, dtype=np.int64),
        }
    )
    # Rounded, or sums in another order would part equal scores.
    keys = pd.DataFrame({"score": (sign * table["score"]).round(9), "loss": -table["loss"], "case": table["case"]})
    order = keys.assign(seen=-table["times_seen"]).sort_values(["score", "loss", "seen", "case"]).index
    table.insert(0, "rank", keys["score"].rank(method="min").astype("Int64"))
    return table.loc[order].reset_index(drop=True)


def _ranks(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Share of the other cases with a smaller value, per epoch; equal ones count half."""
    ranks = pd.DataFrame(values).rank(axis=1).to_numpy()
    n_others = (~np.isnan(values)).sum(axis=1, keepdims=True) - 1
    return np.where(n_others > 0, (ranks - 1) / np.maximum(n_others, 1), np.where(np.isnan(values), np.nan, 0.5))


def _mean(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Mean over the epochs that have a value, NaN where none has."""
    n = (~np.isnan(values)).sum(axis=0)
    return np.asarray(np.where(n > 0, np.nansum(values, axis=0, dtype=np.float64) / np.maximum(n, 1), np.nan))


def _losses_of(cases: tuple[str, ...], losses: EpochLog | None) -> npt.NDArray[np.float64]:
    if losses is None:
        return np.full(len(cases), np.nan)
    known = pd.Series(_mean(losses.values[losses.first_counted :]), index=list(losses.cases))
    return known.reindex(list(cases)).to_numpy(dtype=np.float64)


def _gap(means: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    known = means[~np.isnan(means)]
    if not len(known):
        return means
    median = np.median(known)
    spread = _MAD_TO_SD * float(np.median(np.abs(known - median)))
    # Equal values differ in their last digit at most.
    return (means - median) / spread if spread > 1e-9 else np.full(len(means), np.nan)
