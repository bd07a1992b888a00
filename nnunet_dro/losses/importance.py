"""Importance weights: what a stale loss was wrong by, when the case was drawn."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ImportanceWeights:
    """Weights that turn draws by stale losses into draws by fresh ones.

    w_i = clip(e^d, [low, high])  with d = beta (l_i - L_i);  1 at a first visit, where there is no L_i.

    The exact ratio of the two probabilities also says how the sum they are normalised by changes with the case itself
    (all other losses as they are):  w_i = clip(e^d / (1 + p_i (e^d - 1)), [low, high]).  It differs where a case has a
    large share p_i of the draws, and is never above 1 / p_i.

    Args:
        low: Smallest weight, in [0, 1].
        high: Largest weight, >= 1.
        exact: Whether to take the exact ratio.

    Source: Fidon et al. 2022 (MELBA), Algorithm 1; clipping to [0.1, 10] is the paper's; the exact ratio is eq. (19).
    """

    low: float = 0.1
    high: float = 10.0
    exact: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 <= self.high < float("inf"):
            raise ValueError(f"`clip` must be two numbers low <= 1 <= high, got {self.low!r} and {self.high!r}.")

    def __call__(
        self, losses: Tensor, stale_losses: Tensor, probabilities: Tensor, betas: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Weights of the cases of a batch.

        Args:
            losses: Fresh losses l_i, shape (b,); no gradient flows through them.
            stale_losses: Losses L_i at the draw, shape (b,); NaN at a first visit.
            probabilities: Probabilities p_i at the draw, shape (b,); 1/b for a case that is in every batch of b cases.
            betas: Robustness at the draw, 1/loss units, shape (b,).

        Returns:
            Weights, shape (b,), in [low, high], 1 where either loss is not finite; and whether each was clipped,
            shape (b,).
        """
        ratios = self.ratios(losses, stale_losses, probabilities, betas)
        weights = ratios.clamp(self.low, self.high)
        return weights, weights != ratios

    def ratios(self, losses: Tensor, stale_losses: Tensor, probabilities: Tensor, betas: Tensor) -> Tensor:
        """The weights before they are clipped, shape (b,)."""
        change = betas * (losses.detach() - stale_losses)
        # A change that is not finite says nothing: e^0 = 1. The clamp keeps beta = 1e4 from overflowing.
        change = torch.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0).clamp(-50.0, 50.0)
        if not self.exact:
            return change.exp()
        # e^d / (1 + p (e^d - 1)) = 1 / (p + (1 - p) e^-d), which keeps small p and large d apart.
        return 1 / (probabilities + (1 - probabilities) * (-change).exp())
