"""The ranks of a competition: 1, 2, 2, 4."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

#: Scores that differ by less are equal: sums in another order differ by rounding.
_DECIMALS = 10


def competition_ranks(scores: FloatArray) -> FloatArray:
    """Ranks over the last axis: one plus the number of teams that are better.

    A team without a score (NaN) where others have one has failed nowhere, and is the first: each
    of its failures would have given it a score. Where no team has a score, all ranks are NaN.
    """
    rounded = np.round(scores, _DECIMALS)
    is_nothing = np.isnan(rounded)
    rounded[is_nothing] = np.inf

    # Teams first: each is compared with all others at once.
    by_team = np.ascontiguousarray(np.moveaxis(rounded, -1, 0))
    n_teams = len(by_team)
    n_better = np.zeros(by_team.shape, dtype=np.min_scalar_type(n_teams))
    for scores_of_team in by_team:
        n_better += (scores_of_team > by_team).astype(n_better.dtype)

    ranks = np.moveaxis(n_better + 1.0, 0, -1)
    ranks[is_nothing.all(axis=-1)] = np.nan
    return ranks
