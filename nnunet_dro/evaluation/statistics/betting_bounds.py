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

from nnunet_dro.arrays import FloatArray

#: The stakes, and the share of the money that is bet with each. With the largest stake all is lost
#: at the first value of 0, and nothing is better where values are alike.
STAKES = np.arange(1, 11) / 10
SHARES = np.array([*[1 / 18] * 9, 1 / 2])

#: The most steps of Newton's method; it takes three to thirteen.
_MOST_STEPS = 100

#: So many factors are multiplied before a logarithm is taken. Each is at most 1 / m, so that their
#: product is a number for every mean m above 1e-38.
_MULTIPLIED = 8

#: A step of less than this, relative to the mean, is the last one.
_PRECISION = 1e-11


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

    K is a polynomial in 1 / m without negative coefficients, so that log K is convex in log(1 / m).
    Every step of Newton's method therefore leads to an m that is rejected: to the safe side.
    """
    n = gains.shape[1]
    widths = np.ones(n) if sizes is None else sizes
    stakes = STAKES[:, None, None]
    kept = 1 - stakes * widths
    staked = stakes * gains
    target = math.log(1 / tail)

    ratio = gains.sum(axis=1) / widths.sum()
    # Without any gain no mean is rejected, not even the least one.
    is_positive = ratio > 0
    # What the largest stake rejects alone, where no gain is 0, and else the sample's own ratio.
    with np.errstate(divide="ignore"):
        by_largest = np.log(gains).mean(axis=1) - (target - math.log(SHARES[-1])) / n
    by_ratio = np.log(np.where(is_positive, ratio, 1.0))
    log_odds = -np.where(np.isfinite(by_largest), by_largest, by_ratio)

    for _ in range(_MOST_STEPS):
        won = staked * np.exp(log_odds)[:, None]
        log_money, slope = _log_money(kept + won, won)
        step = (log_money - target) / np.where(is_positive, slope, 1.0)
        log_odds -= np.where(is_positive, step, 0.0)
        if np.abs(step[is_positive]).max(initial=0.0) < _PRECISION:
            break

    return np.where(is_positive, np.exp(-log_odds), 0.0)


def _log_money(factors: FloatArray, won: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log K and its slope in log(1 / m), shape (n_samples,), of factors and what is won in them.

    Both are of shape (n_stakes, n_samples, n).
    """
    # A factor of 0 loses all that was bet with its stake.
    with np.errstate(divide="ignore", invalid="ignore"):
        log_shares = np.log(_products(factors)).sum(axis=2) + np.log(SHARES)[:, None]
        slopes = (won / factors).sum(axis=2)

    largest = log_shares.max(axis=0)
    shares = np.exp(log_shares - largest)
    money = shares.sum(axis=0)
    slopes = np.where(shares > 0, slopes, 0.0)
    return np.log(money) + largest, (shares * slopes).sum(axis=0) / money


def _products(factors: FloatArray) -> FloatArray:
    """Products of eight of the factors each, and of the others: fewer logarithms are taken.

    The last axis is that of the factors.
    """
    n_products = factors.shape[2] // _MULTIPLIED
    taken = factors[:, :, : n_products * _MULTIPLIED]
    grouped = taken.reshape(*factors.shape[:2], _MULTIPLIED, n_products)
    return np.concatenate([grouped.prod(axis=2), factors[:, :, taken.shape[2] :]], axis=2)
