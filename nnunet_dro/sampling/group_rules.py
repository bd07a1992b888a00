"""Rules that know the group of every case, such as its pathology or centre."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray
from nnunet_dro.sampling.rules import Rule

#: Log of the smallest weight of a group relative to the largest, in `GroupDRO`.
_LOWEST_LOG_WEIGHT = -np.log(1000.0)


class GroupRule(Rule):
    """A rule that draws every group equally often, then any case of the group.

    Args:
        groups: The group of every case, shape (n,).

    Attributes:
        names: The groups, sorted.
        sizes: Number of cases of each group, shape (g,).
    """

    needs_losses = False

    def __init__(self, groups: Sequence[str]) -> None:
        if len(groups) == 0:
            raise ValueError("`groups` must have a group per case, got none. Check the fold's split.")
        self.names, self._group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        self.sizes = np.bincount(self._group, minlength=len(self.names))

    @property
    def weights(self) -> FloatArray:
        """What each group counts, shape (g,), summing to 1."""
        return np.full(len(self.names), 1 / len(self.names))

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, shape (n,), summing to 1; equal for all cases of a group, with or without a loss."""
        return np.asarray((1 / (len(self.names) * self.sizes))[self._group])

    def group_losses(self, losses: FloatArray) -> FloatArray:
        """Mean loss of each group over its cases with a loss, shape (g,); NaN for a group without any."""
        known = ~np.isnan(losses)
        counts = np.bincount(self._group[known], minlength=len(self.names))
        sums = np.bincount(self._group[known], weights=losses[known], minlength=len(self.names))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts)

    def robust_loss(self, losses: FloatArray) -> float:
        """Mean of the group losses, weighted by what the groups count; NaN without losses."""
        group_losses = self.group_losses(losses)
        known = ~np.isnan(group_losses)
        if not known.any():
            return float("nan")
        weights = self.weights[known]
        return float(weights @ group_losses[known] / weights.sum())


class Balanced(GroupRule):
    """Static importance weighting (balanced risk): every group is drawn equally often, whatever its losses are.

    Example:
        >>> Balanced(["a", "b", "b", "b", "b"]).probabilities(np.zeros(5)).tolist()
        [0.5, 0.125, 0.125, 0.125, 0.125]

    Source: the importance weighting that Sagawa et al. 2020 and Zhai et al. 2023 compare with, done by sampling.
    """

    def __str__(self) -> str:
        return f"each of {len(self.names)} groups equally often"


class GroupDRO(GroupRule):
    """Group distributionally robust optimisation: exponentiated-gradient weights of the groups, in the loss.

    Every group is drawn equally often, and the loss of a case of group g counts G q_g, which is 1 in the mean over the
    draws (G groups). (Exactly, it counts q_g / (n_g p_i), with p_i the probability of the case at its draw: where the
    cases of a batch are distinct, a group with few cases cannot always take its share.) After each batch

        q_g  <-  q_g exp(nu (L_g + adjustment / sqrt(n_g))) / sum,    not below 1/1000 of the largest

    where L_g is the mean loss of the cases of group g in the last batch that had any, or a running mean of these.
    Because all groups are drawn equally often, L_g is at most a few batches old. If q decided the draws instead, a
    group of little weight would hardly be looked at, and its weight would go on falling by losses of long ago.

    The published code counts the loss of a group that is absent from the batch as 0. Its q has no lower bound either;
    here the bound lets a group that was easy for a long time return within log(1000) / (nu * difference of the losses)
    batches.

    Args:
        groups: The group of every case, shape (n,).
        nu: Step size of the weights, 1/loss units, > 0.
        adjustment: Adjustment for the group sizes, loss units, >= 0; it makes small groups count as harder.
        momentum: Weight of the past in L_g, in [0, 1). 0 keeps the last batch that had a case of the group.

    Example:
        >>> rule = GroupDRO(["a", "b", "b"], nu=0.1)
        >>> rule.learn(np.array([0, 2]), np.array([0.0, 1.0]))
        >>> rule.loss_weights(np.arange(3), rule.probabilities(np.zeros(3))).round(2).tolist()
        [0.95, 1.05, 1.05]

    Source: Sagawa et al. 2020, Algorithm 1 and eq. (5).
    """

    def __init__(
        self, groups: Sequence[str], *, nu: float = 0.01, adjustment: float = 0.0, momentum: float = 0.0
    ) -> None:
        super().__init__(groups)
        if not (np.isfinite(nu) and nu > 0):
            raise ValueError(f"`nu` must be a finite number > 0, got {nu!r}. 0.01 is the paper's value.")
        if not (np.isfinite(adjustment) and adjustment >= 0):
            raise ValueError(f"`adjustment` must be a finite number >= 0, got {adjustment!r}. 0 adjusts nothing.")
        if not 0 <= momentum < 1:
            raise ValueError(f"`momentum` must be in [0, 1), got {momentum!r}. 0 keeps the last loss of each group.")
        self.nu = nu
        self.adjustment = adjustment
        self.momentum = momentum
        self._log_weights = np.zeros(len(self.names))
        self._fresh_losses = np.full(len(self.names), np.nan)

    def __str__(self) -> str:
        adjusted = f", adjustment {self.adjustment:g}" if self.adjustment else ""
        return (
            f"Group DRO, each of {len(self.names)} groups equally often and weighted in the loss, "
            f"step size {self.nu:g}{adjusted}"
        )

    @property
    def weights(self) -> FloatArray:
        """The group weights q, shape (g,), summing to 1."""
        weights = np.exp(self._log_weights)
        return np.asarray(weights / weights.sum())

    def loss_weights(self, indices: NDArray[np.int64], probabilities: FloatArray) -> FloatArray:
        """q_g / (n_g p_i) of each case, shape (b,): G q_g where its group had its full share of the draws."""
        return np.asarray((self.weights / self.sizes)[self._group[indices]] / probabilities)

    def learn(self, indices: NDArray[np.int64], losses: FloatArray) -> None:
        """Move the weights towards the groups with large losses."""
        if not len(indices):
            return
        of_case = self._group[indices]
        counts = np.bincount(of_case, minlength=len(self.names))
        means = np.bincount(of_case, weights=losses, minlength=len(self.names)) / np.maximum(counts, 1)
        old = np.where(np.isnan(self._fresh_losses), means, self._fresh_losses)
        new = self.momentum * old + (1 - self.momentum) * means
        self._fresh_losses = np.where(counts > 0, new, self._fresh_losses)
        gains = self._fresh_losses + self.adjustment / np.sqrt(self.sizes)
        known = ~np.isnan(gains)
        # A group without a loss so far moves like the mean of the others.
        self._move(self._log_weights + self.nu * np.where(known, gains, gains[known].mean()))

    def _move(self, log_weights: FloatArray) -> None:
        self._log_weights = np.maximum(log_weights - log_weights.max(), _LOWEST_LOG_WEIGHT)

    def state_dict(self) -> dict[str, Any]:
        """The weights, the losses that move them, and the names of their groups."""
        return {
            "groups": self.names.tolist(),
            "log_weights": self._log_weights.copy(),
            "losses": self._fresh_losses.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the weights of the groups that the state has; any other group starts with their mean."""
        known = dict(zip(state["groups"], np.asarray(state["log_weights"], dtype=np.float64), strict=True))
        here = [known[name] for name in self.names.tolist() if name in known]
        start = np.logaddexp.reduce(here) - np.log(len(here)) if here else 0.0
        self._move(np.array([known.get(name, start) for name in self.names.tolist()]))
        losses = dict(zip(state["groups"], state["losses"], strict=True))
        self._fresh_losses = np.array([losses.get(name, np.nan) for name in self.names.tolist()], dtype=np.float64)
