"""Rules that know the group of every case, such as its pathology or centre."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnunet_dro.sampling.divergences import FloatArray
from nnunet_dro.sampling.rules import Rule


class GroupRule(Rule):
    """A rule that first draws a group, then any case of the group.

    Args:
        groups: The group of every case, shape (n,).

    Attributes:
        names: The groups, sorted.
        sizes: Number of cases of each group, shape (g,).
    """

    def __init__(self, groups: Sequence[str]) -> None:
        if len(groups) == 0:
            raise ValueError("`groups` must have a group per case, got none. Check the fold's split.")
        self.names, self._group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        self.sizes = np.bincount(self._group, minlength=len(self.names))

    @property
    def weights(self) -> FloatArray:
        """Probabilities of the groups, shape (g,), summing to 1."""
        return np.full(len(self.names), 1 / len(self.names))

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, shape (n,), summing to 1; equal for all cases of a group, with or without a loss."""
        weights = self.weights
        return np.asarray((weights / self.sizes)[self._group])

    def group_losses(self, losses: FloatArray) -> FloatArray:
        """Mean loss of each group over its cases with a loss, shape (g,); NaN for a group without any."""
        known = ~np.isnan(losses)
        counts = np.bincount(self._group[known], minlength=len(self.names))
        sums = np.bincount(self._group[known], weights=losses[known], minlength=len(self.names))
        with np.errstate(invalid="ignore"):
            return np.asarray(sums / counts)

    def robust_loss(self, losses: FloatArray) -> float:
        """Mean of the group losses, weighted by the probabilities of the groups; NaN without losses."""
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

    Source: the importance weighting that Sagawa et al. 2020 and Zhai et al. 2022 compare with, done by sampling.
    """

    needs_losses = False

    def __str__(self) -> str:
        return f"each of {len(self.names)} groups equally often"


class GroupDRO(GroupRule):
    """Group distributionally robust optimisation: exponentiated-gradient weights over the groups.

    After each update, q_g <- q_g exp(nu (L_g + adjustment / sqrt(n_g))), normalised. L_g is the mean of the *stale*
    losses of all n_g cases of the group. A group that is absent from a small batch therefore keeps its loss, whereas
    the published code counts its loss as 0.

    Args:
        groups: The group of every case, shape (n,).
        nu: Step size of the weights, 1/loss units, > 0.
        adjustment: Adjustment for the group sizes, loss units, >= 0; it makes small groups count as harder.

    Source: Sagawa et al. 2020, Algorithm 1 and eq. (5).
    """

    def __init__(self, groups: Sequence[str], *, nu: float = 0.01, adjustment: float = 0.0) -> None:
        super().__init__(groups)
        if not (np.isfinite(nu) and nu > 0):
            raise ValueError(f"`nu` must be a finite number > 0, got {nu!r}. 0.01 is the paper's value.")
        if not (np.isfinite(adjustment) and adjustment >= 0):
            raise ValueError(f"`adjustment` must be a finite number >= 0, got {adjustment!r}. 0 adjusts nothing.")
        self.nu = nu
        self.adjustment = adjustment
        self._log_weights = np.zeros(len(self.names))

    def __str__(self) -> str:
        adjusted = f", adjustment {self.adjustment:g}" if self.adjustment else ""
        return f"Group DRO over {len(self.names)} groups, step size {self.nu:g}{adjusted}"

    @property
    def weights(self) -> FloatArray:
        """The group weights q, shape (g,), summing to 1."""
        weights = np.exp(self._log_weights - self._log_weights.max())
        return np.asarray(weights / weights.sum())

    def learn(self, losses: FloatArray, n_updates: int) -> None:
        """Move the weights towards the groups with large losses."""
        gains = self.group_losses(losses) + self.adjustment / np.sqrt(self.sizes)
        known = ~np.isnan(gains)
        if known.any():
            # A group whose losses were all refused moves like the mean of the others.
            gains = np.where(known, gains, gains[known].mean())
            self._log_weights += n_updates * self.nu * gains
            self._log_weights -= self._log_weights.max()

    def state_dict(self) -> dict[str, Any]:
        """The weights and the names of their groups."""
        return {"groups": self.names.tolist(), "log_weights": self._log_weights.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the weights of the groups that the state has; any other group starts with their mean."""
        known = dict(zip(state["groups"], np.asarray(state["log_weights"], dtype=np.float64), strict=True))
        here = [known[name] for name in self.names.tolist() if name in known]
        start = np.logaddexp.reduce(here) - np.log(len(here)) if here else 0.0
        log_weights = np.array([known.get(name, start) for name in self.names.tolist()])
        self._log_weights = log_weights - log_weights.max()
