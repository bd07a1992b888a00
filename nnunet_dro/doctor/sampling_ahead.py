"""What hardness weighted sampling would do with losses that were measured: beta, effective cases, shares of draws."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.sampling import EXPLORATION, effective_cases, kl_probabilities, with_exploration
from nnunet_dro.sampling.spread import Spread

#: Length of the simulation, of which the second half counts.
_DRAWS_PER_CASE, _MOST_DRAWS = 40, 20_000

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LossSpread:
    """How much losses differ.

    Attributes:
        between: Standard deviation between the cases, without what differs from patch to patch.
        within: Standard deviation from patch to patch of a case.
    """

    between: float
    within: float

    @property
    def share_between(self) -> float:
        """Share of the variance of a single loss that is between the cases; NaN if there is none."""
        total = self.between**2 + self.within**2
        return self.between**2 / total if total else math.nan

    @property
    def beta(self) -> float | None:
        """1 / standard deviation between the cases, two digits; None if all cases are alike."""
        return float(f"{1 / self.between:.2g}") if self.between > 1e-9 else None


def loss_spread(losses: Sequence[Sequence[float]]) -> LossSpread:
    """Estimate the spread from repeated losses.

    Args:
        losses: Losses of each case, in the order in which they were measured; not finite ones are left out.

    Returns:
        The spread; ``between`` as `Spread.between_cases` estimates it, ``within`` NaN without a second loss of a case.

    Example:
        >>> spread = loss_spread([[0.0, 0.2], [1.0, 1.2]])
        >>> round(spread.within, 2)
        0.14
    """
    collected, variances = Spread(len(losses)), []
    for i, of_case in enumerate(losses):
        finite = [loss for loss in of_case if math.isfinite(loss)]
        for loss in finite:
            collected.record(i, loss)
        if len(finite) > 1:
            variances.append(float(np.var(finite, ddof=1)))
    within = math.sqrt(float(np.mean(variances))) if variances else math.nan
    return LossSpread(math.sqrt(collected.between_cases()), within)


@dataclass(frozen=True)
class Draws:
    """The draws of hardness weighted sampling from the network that was examined, if it did not change.

    Attributes:
        probabilities: Probability of each case in one draw, shape (n,), the mean over the simulated draws.
        effective: Effective number of cases, exp(entropy), likewise a mean.
    """

    probabilities: FloatArray
    effective: float

    def share_of(self, members: npt.NDArray[np.bool_]) -> float:
        """Share of the draws that go to some cases."""
        return float(self.probabilities[members].sum())


def expected_draws(losses: FloatArray, beta: float) -> Draws:
    """Simulate draws with probabilities that grow with exp(beta * stale loss), with the usual share of uniform ones.

    Each draw renews the stale loss of its case with the loss of one of the case's patches. Without that, a single bad
    patch of an easy case would get nearly all draws, which in a training last until the case is drawn again.

    Args:
        losses: Shape (n cases, k patches); a loss that is not finite counts as the mean of all.
        beta: Robustness, >= 0.
    """
    finite = np.where(np.isfinite(losses), losses, losses[np.isfinite(losses)].mean())
    n_cases, n_patches = finite.shape
    if n_patches == 1:
        only = with_exploration(kl_probabilities(finite[:, 0], beta=beta), epsilon=EXPLORATION)
        return Draws(only, effective_cases(only))
    rng = np.random.default_rng(0)
    stale = finite[np.arange(n_cases), rng.integers(n_patches, size=n_cases)]
    n_draws = min(_DRAWS_PER_CASE * n_cases, _MOST_DRAWS)
    total, effective, n_counted = np.zeros(n_cases), 0.0, 0
    for step in range(n_draws):
        probabilities = with_exploration(kl_probabilities(stale, beta=beta), epsilon=EXPLORATION)
        if 2 * step >= n_draws:
            total += probabilities
            effective += effective_cases(probabilities)
            n_counted += 1
        case = min(int(np.searchsorted(np.cumsum(probabilities), rng.random())), n_cases - 1)
        stale[case] = finite[case, rng.integers(n_patches)]
    return Draws(total / n_counted, effective / n_counted)


def trainer_name(beta: float, *, epochs: int, iterations: int) -> str:
    """Name of the trainer that draws by hardness with this beta, as long as the plain training.

    Args:
        beta: Robustness.
        epochs: Number of epochs.
        iterations: Iterations per epoch.

    Example:
        >>> trainer_name(17.0, epochs=1000, iterations=250)
        'nnUNetTrainerHWS_beta17_noIS'
    """
    from nnunet_dro.trainers.options import HWSOptions

    options: Mapping[str, Any] = {
        "beta": beta,
        "importance_sampling": False,
        "epochs": epochs,
        "iterations": iterations,
    }
    return "nnUNetTrainerHWS" + HWSOptions(**options).suffix()
