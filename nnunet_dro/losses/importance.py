"""Importance weights: a correction for the error that the stale loss of a case had when the case was drawn."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ImportanceWeights:
    """Weights that turn draws by stale losses into draws by fresh ones.

    w_i = clip(e^d, [low, high])  with d = beta (1 - m) (l_i - L_i);  1 at a first visit, where there is no L_i.

    The table then holds m L_i + (1 - m) l_i for the case, so e^d is how its softmax weight changes with the update,
    relative to the other cases.

    The exact ratio of the two probabilities also takes into account that the normalising sum changes with the case
    itself (all other losses unchanged):  w_i = clip(e^d / (1 + p_i (e^d - 1)), [low, high]).  It differs if a case has
    a large share p_i of the draws, and it never exceeds 1 / p_i.

    Args:
        low: Smallest weight, in [0, 1].
        high: Largest weight, >= 1.
        exact: Whether to use the exact ratio.
        momentum: m, the weight of the past in the history of losses that cases are drawn by, in [0, 1).

    Raises:
        ValueError: If the clip does not enclose 1, or the momentum is out of range.

    Example:
        >>> weigh = ImportanceWeights(low=0.1, high=10.0)
        >>> fresh, stale = torch.tensor([0.5, 0.9]), torch.tensor([0.5, 0.1])
        >>> weights, clipped = weigh(fresh, stale, torch.tensor([0.2, 0.2]), torch.tensor([100.0, 100.0]))
        >>> weights.tolist(), clipped.tolist()
        ([1.0, 10.0], [False, True])

    Source: Fidon et al. 2022 (MELBA), Algorithm 1; clipping to [0.1, 10] is the paper's; the exact ratio is eq. (19).
    Both have m = 0 there.
    """

    low: float = 0.1
    high: float = 10.0
    exact: bool = False
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 <= self.high < float("inf"):
            raise ValueError(
                f"`clip` must be two numbers with 0 <= low <= 1 <= high, got {self.low!r} and {self.high!r}. "
                "The paper's are 0.1 and 10."
            )
        if not 0 <= self.momentum < 1:
            raise ValueError(
                f"`momentum` must be a number in [0, 1), got {self.momentum!r}. Give the one of the history of losses."
            )

    def __call__(
        self, losses: Tensor, stale_losses: Tensor, probabilities: Tensor, betas: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the weights of the cases of a batch.

        Args:
            losses: Fresh losses l_i, shape (b,); no gradient flows through them.
            stale_losses: Losses L_i at the draw, shape (b,); NaN at a first visit.
            probabilities: Probabilities p_i at the draw, shape (b,); 1/b for a case that is in every batch of b cases.
            betas: Robustness at the draw, 1/loss units, shape (b,).

        Returns:
            The weights, shape (b,), in [low, high], 1 where either loss is not finite; and whether each of them was
            clipped, shape (b,).
        """
        ratios = self.ratios(losses, stale_losses, probabilities, betas)
        weights = ratios.clamp(self.low, self.high)
        return weights, weights != ratios

    def ratios(self, losses: Tensor, stale_losses: Tensor, probabilities: Tensor, betas: Tensor) -> Tensor:
        """The weights before they are clipped, shape (b,)."""
        change = betas * (1 - self.momentum) * (losses.detach() - stale_losses)
        # A change that is not finite gives no information, so the weight is e^0 = 1. The clamp prevents overflows
        # (beta = 1e4).
        change = torch.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0).clamp(-50.0, 50.0)
        if not self.exact:
            return change.exp()
        # e^d / (1 + p (e^d - 1)) = 1 / (p + (1 - p) e^-d), which is accurate for small p and large d.
        return 1 / (probabilities + (1 - probabilities) * (-change).exp())
