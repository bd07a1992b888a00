"""What a batch was drawn with."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray


@dataclass(frozen=True)
class Draws:
    """What one batch was drawn with, each of shape (size,).

    Attributes:
        indices: Positions of the drawn cases in the table.
        stale_losses: The stale losses that decided the draw; NaN where none did: at a first visit, and in a warm-up.
        probabilities: The probability each case had in its draw.
        betas: The robustness of the draw, 1/loss units; 0 where no softmax of stale losses decided it.
    """

    indices: NDArray[np.int64]
    stale_losses: FloatArray
    probabilities: FloatArray
    betas: FloatArray
