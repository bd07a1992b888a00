"""Probabilities of draws that can be computed by hand."""

import math
from collections.abc import Iterator

import numpy as np

from nnunet_dro.sampling.divergences import effective_cases, kl_probabilities, kl_robust_loss
from nnunet_dro.sampling.uncertainty_sets import cvar_probabilities, kl_ball_beta
from nnunet_dro.selfcheck.number import Number


def sampling() -> Iterator[Number]:
    """Probabilities and robust losses of a few cases."""
    # With beta = ln 3, the case with a loss larger by 1 is drawn three times as often.
    beta = math.log(3)
    two_losses = np.array([0.0, 1.0])
    harder = float(kl_probabilities(two_losses, beta=beta)[1])
    yield Number("sampling", "probability of the harder of two cases, beta = ln 3", 3 / 4, harder)
    yield Number(
        "sampling",
        "robust loss of losses 0 and 1, beta = ln 3",
        math.log((1 + 3) / 2) / math.log(3),
        kl_robust_loss(two_losses, beta=beta),
    )

    second_hardest = float(cvar_probabilities(np.arange(4.0), alpha=0.5)[2])
    name = "probability of the second hardest of four cases, cvar 0.5"
    yield Number("sampling", name, 0.5, second_hardest)

    losses = np.linspace(0, 1, 50)
    probabilities = kl_probabilities(losses, beta=kl_ball_beta(losses, share=0.5))
    name = "effective cases of 50 with a share of 0.5"
    yield Number("sampling", name, 25, effective_cases(probabilities))
