"""Importance weights, which correct the draws of cases by stale losses."""

from dataclasses import dataclass

import torch
from torch import Tensor

from nnunet_dro.bad_input import check_number


@dataclass(frozen=True)
class ImportanceWeights:
    """Weights that turn draws by stale losses into draws by fresh ones.

    w_i = clip(u_i + (1 - u_i) r_i, [low, high]),  r_i = e^d  with d = beta (1 - m) (l_i - L_i);  1
    at a first visit, where there is no L_i.

    The table then holds m L_i + (1 - m) l_i for the case, so r_i is how its softmax weight changes
    with the update, relative to the other cases. u_i is the part of its probability that is due to
    exploration, which no loss changes.

    The exact ratio of the two probabilities also takes into account that the normalising sum
    changes with the case itself (all other losses unchanged):  r_i = e^d / (1 + p_i (e^d - 1)),
    where p_i is its share of the softmax.  It differs if a case has a large share, and it never
    exceeds 1 / p_i.

    Args:
        low: Smallest weight, in [0, 1].
        high: Largest weight, >= 1.
        exact: Whether to use the exact ratio.
        momentum: m, the weight of the past in the history of losses that cases are drawn by, in [0,
            1).

    Raises:
        ValueError: If the clip does not enclose 1, or the momentum is out of range.

    Example:
        >>> weigh = ImportanceWeights(low=0.1, high=10.0)
        >>> fresh = torch.tensor([0.5, 0.9])
        >>> stale = torch.tensor([0.5, 0.1])
        >>> weights, clipped = weigh(
        ...     fresh,
        ...     stale,
        ...     shares=torch.tensor([0.2, 0.2]),
        ...     explored=torch.zeros(2),
        ...     betas=torch.tensor([100.0, 100.0]),
        ... )
        >>> weights.tolist(), clipped.tolist()
        ([1.0, 10.0], [False, True])

    Source: Fidon et al. 2022 (MELBA), Algorithm 1; clipping to [0.1, 10] is the paper's; the exact
    ratio is eq. (19). Both have m = 0 and u = 0 there.
    """

    low: float = 0.1
    high: float = 10.0
    exact: bool = False
    momentum: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 <= self.high < float("inf"):
            raise ValueError(
                f"`clip` must be two numbers with 0 <= low <= 1 <= high, got {self.low!r} and "
                f"{self.high!r}. The paper's are 0.1 and 10."
            )
        cure = "Give the one of the history of losses."
        check_number("momentum", self.momentum, "[0, 1)", cure)

    def __call__(
        self,
        losses: Tensor,
        stale_losses: Tensor,
        *,
        shares: Tensor,
        explored: Tensor,
        betas: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Compute the weights of the cases of a batch.

        Args:
            losses: Fresh losses l_i, shape (b,); no gradient flows through them.
            stale_losses: Losses L_i at the draw, shape (b,); NaN at a first visit.
            shares: Shares p_i of the softmax at the draw, shape (b,).
            explored: Parts u_i of the probabilities at the draw that are due to exploration, shape
                (b,), in [0, 1].
            betas: Robustness at the draw, 1/loss units, shape (b,).

        Returns:
            The weights, shape (b,), in [low, high], 1 where either loss is not finite; and whether
            each of them was clipped, shape (b,).
        """
        change = betas * (1 - self.momentum) * (losses.detach() - stale_losses)
        # A change that is not finite gives no information, so the weight is e^0 = 1. The clamp
        # prevents overflows (beta = 1e4).
        change = torch.nan_to_num(change, nan=0.0, posinf=0.0, neginf=0.0)
        change = change.clamp(-50.0, 50.0)

        # Exploration does not change with the losses.
        ratios = self._ratios(change, shares)
        unclipped = explored + (1 - explored) * ratios
        weights = unclipped.clamp(self.low, self.high)
        return weights, weights != unclipped

    def _ratios(self, change: Tensor, shares: Tensor) -> Tensor:
        """r_i, by the change d of the exponent and the share p of the softmax, shape (b,)."""
        if not self.exact:
            return change.exp()
        # e^d / (1 + p (e^d - 1)) = 1 / (p + (1 - p) e^-d), which is accurate for small p and large
        # d.
        return 1 / (shares + (1 - shares) * (-change).exp())
