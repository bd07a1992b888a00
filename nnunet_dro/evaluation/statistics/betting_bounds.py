r"""Bounds of the mean of values between two limits, proven for every distribution and any number.

Who doubts that the mean is as small as m bets on larger values. With a stake s of 0 to 1, a value x
of 0 to 1 multiplies the money by 1 + s (x / m - 1), which is never negative. If the mean is m (or
less), every factor has at most 1 as its expectation, and so has their product over independent
values. By Markov's inequality the money is then 1 / ``tail`` times what it was, or more, with a
probability of at most ``tail``; so is money that is divided among several stakes:

    K(m) = sum_s share_s prod_i (1 + s (x_i / m - 1)) >= 1 / tail

rejects m. The lower bound is the largest m that is rejected. Neither chance nor the order of the
values has a part in it, because stakes and shares are fixed beforehand.

The bound of Gaffke 2005, the conjecture of Learned-Miller and Thomas 2019, rejects m wherever a
single stake would: its p value is E min(1, exp(-S)) with S = sum_i E_i (x_i / m - 1), which is at
most E exp(-s S) = prod_i 1 / (1 + s (x_i / m - 1)) for every stake. It is therefore the shorter
one, by an amount that `benchmarks/coverage.py` shows, and is not proven.

Source: Waudby-Smith and Ramdas 2024, Estimating means of bounded random variables by betting,
section 4 (the capital process, with bets that are fixed beforehand, and mixtures of them); Orabona
and Jun 2024, Tight concentrations and confidence sequences from the regret of universal portfolio
(mixtures of stakes).
"""

import math

import numpy as np
import numpy.typing as npt

from nnunet_dro.arrays import FloatArray

#: The stakes, and the share of the money that is bet with each. With the largest stake all is lost
#: at the first value of 0, and nothing is better where values are alike.
STAKES = np.arange(1, 11) / 10
SHARES = np.array([*[1 / 18] * 9, 1 / 2])

#: The most steps of Newton's method; it takes two to eight.
_MOST_STEPS = 100

#: The error of log(1 / m) that the last step may leave.
_PRECISION = 1e-15

#: A stake is left out once its share of the money is less than e to this power, of all there is.
_NEGLIGIBLE = -40.0

#: So many factors are multiplied before a logarithm is taken.
_MULTIPLIED = 8

#: A mean is told from 0 if its log(1 / m) is less. A factor is at most 1 / m, so that the product
#: of those above is a number.
_MOST_LOG_ODDS = 85.0


def bounded_mean(samples: FloatArray, *, low: float, high: float, tail: float) -> FloatArray:
    """Bounds of the mean of values between two limits, each wrong with at most ``tail``.

    Of samples of shape (n_samples, n), n >= 1; the bounds have the shape (n_samples, 2).
    """
    span = high - low
    lower = low + span * _least_ratio((samples - low) / span, tail=tail)
    upper = high - span * _least_ratio((high - samples) / span, tail=tail)
    # Rounding must push no bound over a limit.
    return np.clip(np.stack([lower, upper], axis=1), low, high)


def bounded_share(hits: FloatArray, sizes: FloatArray, *, tail: float) -> tuple[float, float]:
    """Bounds of the share of hits among things that come in clusters: hits and sizes of each.

    The share is that of the expected hits in the expected size. The bounds hold if no cluster is
    larger than the largest one of the sample.
    """
    relative = sizes / sizes.max()
    lower = _least_ratio((hits / sizes.max())[None], relative, tail=tail)[0]
    upper = 1 - _least_ratio((relative - hits / sizes.max())[None], relative, tail=tail)[0]
    return max(float(lower), 0.0), min(float(upper), 1.0)


def _least_ratio(gains: FloatArray, sizes: FloatArray | None = None, *, tail: float) -> FloatArray:
    """The lower bound of E gain / E size, shape (n_samples,), of gains of shape (n_samples, n).

    Gains are between 0 and the sizes, shape (n,), and these at most 1; None for sizes of 1.
    """
    widths = np.ones(gains.shape[1]) if sizes is None else sizes
    ratios = np.zeros(len(gains))
    # Without any gain no mean is rejected, not even the least one.
    has_gain = gains.any(axis=1)
    log_odds = _least_log_odds(gains[has_gain], widths, math.log(1 / tail))
    ratios[has_gain] = np.where(log_odds < _MOST_LOG_ODDS, np.exp(-log_odds), 0.0)
    return ratios


def _least_log_odds(gains: FloatArray, sizes: FloatArray, target: float) -> FloatArray:
    """The least log(1 / m) with a log K of ``target``, of samples with a gain; see `_least_ratio`.

    K is a polynomial in 1 / m without negative coefficients, so that log K is convex in log(1 / m).
    Every step of Newton's method therefore leads to an m that is rejected: to the safe side, from
    where the next steps lead back. The slope of log K is the mean of the powers of 1 / m, each of
    the n at most, and its derivative their variance, at most n times the mean. A step thus leaves
    an error of no more than its square times n / 2.
    """
    n = gains.shape[1]
    bets = np.arange(len(STAKES))
    log_odds = _first_log_odds(gains, sizes, target)
    for _ in range(_MOST_STEPS):
        log_money, slopes = _log_money(gains, sizes, log_odds, bets)
        log_sum = np.logaddexp.reduce(log_money, axis=0)
        slope = (np.exp(log_money - log_sum) * slopes).sum(axis=0)
        reached = np.minimum(log_odds + (target - log_sum) / slope, _MOST_LOG_ODDS)
        steps = reached - log_odds
        log_odds = reached
        if n / 2 * np.square(steps).max(initial=0.0) < _PRECISION:
            break

        # No later step leads beyond the larger of the two places, and K is the target at the end.
        most_money = log_money + n * np.maximum(steps, 0.0)
        bets = bets[(most_money > target + _NEGLIGIBLE).any(axis=1)]

    return log_odds


def _first_log_odds(gains: FloatArray, sizes: FloatArray, target: float) -> FloatArray:
    """About where a single stake reaches the target: the least log(1 / m) of all stakes.

    The logarithm of its money is taken for a polynomial of second degree in the gains.
    """
    ratio = gains.sum(axis=1) / sizes.sum()
    relative = gains / ratio[:, None]
    variance = np.square(relative - sizes).mean(axis=1)
    needed = (target - np.log(SHARES)) / len(sizes)
    beyond = STAKES[:, None] * variance / 2 + (needed / STAKES)[:, None]
    return np.log1p(beyond.min(axis=0) / sizes.mean()) - np.log(ratio)


def _log_money(
    gains: FloatArray, sizes: FloatArray, log_odds: FloatArray, bets: npt.NDArray[np.intp]
) -> tuple[FloatArray, FloatArray]:
    """The log of the money of some of the stakes, and its slope in log(1 / m).

    Both are of shape (n_bets, n_samples).
    """
    stakes = STAKES[bets, None, None]
    won = stakes * (gains * np.exp(log_odds)[:, None])
    factors = won + (1 - stakes * sizes)
    log_shares = np.log(SHARES[bets])[:, None]
    # A factor of 0 loses all that was bet with its stake.
    with np.errstate(divide="ignore", invalid="ignore"):
        log_money = np.log(_products(factors)).sum(axis=2) + log_shares
        slopes = np.divide(won, factors, out=won).sum(axis=2)
    return log_money, np.where(np.isneginf(log_money), 0.0, slopes)


def _products(factors: FloatArray) -> FloatArray:
    """Products of eight of the factors each, and of the others: fewer logarithms are taken.

    The last axis is that of the factors.
    """
    n_products = factors.shape[2] // _MULTIPLIED
    taken = factors[:, :, : n_products * _MULTIPLIED]
    grouped = taken.reshape(*factors.shape[:2], _MULTIPLIED, n_products)
    return np.concatenate([grouped.prod(axis=2), factors[:, :, taken.shape[2] :]], axis=2)
