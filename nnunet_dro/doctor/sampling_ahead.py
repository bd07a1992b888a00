"""What the default trainer would do with a hardness that was measured: effective cases, shares of the draws."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nnunet_dro.sampling import KLBall, effective_cases, with_exploration
from nnunet_dro.sampling.spread import Spread

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
    """The draws of `nnUNetTrainerDRO` from the network that was examined, if it did not change.

    Attributes:
        probabilities: Probability of each case in one draw, shape (n,).
        beta: The beta at which the trainer's share of the cases is effective, 1/loss units.
    """

    probabilities: FloatArray
    beta: float

    @property
    def effective(self) -> float:
        """Effective number of cases, exp(entropy)."""
        return effective_cases(self.probabilities)


def expected_draws(hardness: FloatArray) -> Draws:
    """The probabilities with which `nnUNetTrainerDRO` draws cases of this hardness.

    Args:
        hardness: Shape (n,), some of it finite; what is not counts as the mean.
    """
    from nnunet_dro.trainers.options import DROOptions

    options, is_known = DROOptions(), np.isfinite(hardness)
    known = np.where(is_known, hardness, hardness[is_known].mean())
    ball = KLBall(0.0, options.share).following(known)
    return Draws(with_exploration(ball.probabilities(known), epsilon=options.exploration), ball.beta)


def trainer_name(*, epochs: int, iterations: int) -> str:
    """Name of the trainer that draws like this, as long as the plain training.

    Args:
        epochs: Number of epochs.
        iterations: Iterations per epoch.

    Example:
        >>> trainer_name(epochs=1000, iterations=250)
        'nnUNetTrainerDRO'
    """
    from nnunet_dro.trainers.options import DROOptions

    return "nnUNetTrainerDRO" + DROOptions(epochs=epochs, iterations=iterations).suffix()
