"""How much the cases differ in their losses.

That is told apart from how much the loss of a case differs from patch to patch.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.sampling.changed_cases import restore

#: Smallest weight of a loss in a running mean, so that the mean follows a loss that falls during
#: the training.
_SMALLEST_RATE = 0.1


def _weights_and_variances() -> tuple[FloatArray, FloatArray]:
    """The weight of a case's k-th loss in its running mean, and the variance of that mean.

    With the weights r_k, the variance v_k = (1 - r_k)^2 v_(k-1) + r_k^2, in units of the variance
    of one loss; both by k, from 0 to 63.
    """
    rates = np.zeros(64)
    variances = np.zeros(64)

    # After 63 losses the variance has settled at r / (2 - r).
    for k in range(1, 64):
        rate = max(1 / k, _SMALLEST_RATE)
        kept = (1 - rate) ** 2 * variances[k - 1]
        rates[k] = rate
        variances[k] = kept + rate**2
    return rates, variances


_RATES, _VARIANCES = _weights_and_variances()


class Spread:
    """Collects the losses of n cases, and estimates the variance between the cases.

    Let the loss of case i on a random patch be l = mu_i + noise with variance s^2. Stale losses
    with momentum m then have the noise variance s^2 (1 - m) / (1 + m), and often most of their
    variance is that: the variance between the cases, Var(mu), is what is left after taking it off.

    A history of one loss (m = 0) leaves a small difference of two large numbers, which only
    thousands of cases make certain. So the running mean H_i kept here has a memory of about 10
    losses, whatever the table's momentum: the plain mean of the first ten, then H <- 0.9 H + 0.1 l.
    The noise comes from losses of the same case that follow each other, E[(l' - l)^2] = 2 s^2, in
    which a loss that slowly falls during the training has little effect. It is averaged for each
    case first, so that cases that are drawn often do not dominate. With v_i the sum of the squared
    weights that the losses have in H_i (1/k after k losses, falling to 0.1 / 1.9):

        Var(mu)  ~  Var(H) - mean(s_i^2 v_i)

    This holds for losses that are independent of each other. A large beta without momentum draws a
    case until it had an easy patch, which makes the losses alike: with beta 1 / sqrt(Var(mu)) the
    estimate of beta came out a quarter larger.
    """

    def __init__(self, n: int) -> None:
        self._means = np.full(n, np.nan)
        self._last = np.full(n, np.nan)
        #: Running mean of half the squared difference between a case's last two losses.
        self._noise = np.full(n, np.nan)
        self._counts = np.zeros(n, dtype=np.uint8)
        #: What a checkpoint carries, and what a case without any loss has of it.
        self._state: dict[str, tuple[NDArray[Any], float]] = {
            "means": (self._means, np.nan),
            "last": (self._last, np.nan),
            "noise": (self._noise, np.nan),
            "counts": (self._counts, 0),
        }

    def record(self, case: int, loss: float) -> None:
        """Take one finite loss of a case."""
        k = min(int(self._counts[case]) + 1, len(_RATES) - 1)
        self._counts[case] = k

        last = self._last[case]
        self._last[case] = loss
        if k == 1:
            self._means[case] = loss
            return

        # H <- H + r_k (l - H)
        mean = self._means[case]
        self._means[case] = mean + _RATES[k] * (loss - mean)

        # The k-th loss is the (k - 1)-th that follows another.
        noise = (loss - last) ** 2 / 2
        if k > 2:
            old = self._noise[case]
            noise = old + _RATES[k - 1] * (noise - old)
        self._noise[case] = noise

    def between_cases(self) -> float:
        """Estimate of the variance between the cases, loss units squared, >= 0; NaN without losses.

        The total variance is itself uncertain by a factor of about 1 +- sqrt(2 / (n - 1)). An
        estimate below that share of it cannot be told from 0, so that share is the smallest result:
        the estimate is then too large, and a beta that follows from it is on the side of uniform
        draws. Before a case has a second loss, nothing is known of the noise, and the result is the
        total variance.
        """
        seen = self._counts > 0
        n = int(seen.sum())
        if n == 0:
            return math.nan

        total = float(self._means[seen].var())
        repeated = self._counts > 1
        if not repeated.any():
            return total

        # A case with a single loss is taken to be as noisy as the others are in the mean.
        mean_noise = self._noise[repeated].mean()
        noise = np.where(repeated, self._noise, mean_noise)[seen]

        # What of the variance of the means is due to the patches.
        variances = noise * _VARIANCES[self._counts[seen]]
        due_to_noise = float(variances.mean()) * (1 - 1 / n)

        uncertainty = math.sqrt(min(1.0, 2 / max(1, n - 1)))
        return max(total - due_to_noise, total * uncertainty)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries, one entry per case."""
        return {name: values.copy() for name, (values, _) in self._state.items()}

    def load_state_dict(
        self, state: Mapping[str, Any], here: NDArray[np.int64], there: NDArray[np.int64]
    ) -> None:
        """Restore what was collected of the cases that the state has."""
        for name, (values, unknown) in self._state.items():
            restore(values, unknown, state[name], here, there)
