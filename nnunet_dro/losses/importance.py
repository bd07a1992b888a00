"""Importance weights: what a stale loss was wrong by, when the case was drawn."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ImportanceWeights:
    """Weights that turn draws by stale losses into draws by fresh ones.

    w_i = clip(exp(beta (l_i - L_i)), [low, high]);  1 at a first visit, where there is no L_i.

    Args:
        beta: Robustness, 1/loss units, as in the sampling.
        low: Smallest weight, in [0, 1].
        high: Largest weight, >= 1.

    Source: Fidon et al. 2022 (MELBA), Algorithm 1; clipping to [0.1, 10] is the paper's.
    """

    beta: float
    low: float = 0.1
    high: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 <= self.high < float("inf"):
            raise ValueError(f"`clip` must be two numbers low <= 1 <= high, got {self.low!r} and {self.high!r}.")

    def __call__(self, losses: Tensor, stale_losses: Tensor) -> Tensor:
        """Weights of the cases of a batch.

        Args:
            losses: Fresh losses l_i, shape (b,); no gradient flows through them.
            stale_losses: Losses L_i at the draw, shape (b,); NaN at a first visit.

        Returns:
            Weights, shape (b,), in [low, high]; 1 where either loss is not finite.
        """
        change = self.beta * (losses.detach() - stale_losses)
        # A change that is not finite says nothing: e^0 = 1. The clamp keeps beta = 1e4 from overflowing.
        change = torch.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0)
        return change.clamp(-50.0, 50.0).exp().clamp(self.low, self.high)
