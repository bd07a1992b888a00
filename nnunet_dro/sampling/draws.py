"""The draws of one batch."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray


@dataclass(frozen=True)
class Draws:
    """The draws of one batch, and the numbers they were made with; arrays of shape (size,).

    Attributes:
        indices: Positions of the drawn cases in the table.
        stale_losses: Stale losses that decided the draws; NaN at a first visit and during a warm-up, where none did.
        probabilities: How often each case was expected in the batch, divided by ``size``; at most 1 / ``size`` where
            cases are distinct. With replacement this is the probability of each case in any one draw.
        shares: Probability of each case in one draw by the rule alone (for KL the softmax), without exploration and
            without the limit of distinct cases.
        explored: Part of its probability in one draw that each case has from exploration, in [0, 1]; 1 where no rule
            decided the draw.
        betas: Robustness of each draw, 1/loss units; 0 where no softmax of stale losses decided it.
    """

    indices: NDArray[np.int64]
    stale_losses: FloatArray
    probabilities: FloatArray
    shares: FloatArray
    explored: FloatArray
    betas: FloatArray
