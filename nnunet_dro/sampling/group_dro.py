"""Group distributionally robust optimisation: a rule that learns weights of the groups."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import check_number
from nnunet_dro.sampling.changed_cases import positions_in_common, restore
from nnunet_dro.sampling.group_rules import GroupRule

#: Log of the smallest weight of a group relative to the largest.
_LOWEST_LOG_WEIGHT = -np.log(1000.0)


class GroupDRO(GroupRule):
    """Group distributionally robust optimisation, with weights of the groups in the loss.

    Every group is drawn equally often, and the loss of a case of group g counts G q_g, which is 1
    in the mean over the draws (G groups). (Exactly, it counts q_g / (n_g p_i), with p_i the
    probability of the case at its draw: where the cases of a batch are distinct, a group with few
    cases cannot always take its share.) After each batch, the weights take a step of the
    exponentiated gradient,

        q_g  <-  q_g exp(nu (L_g + adjustment / sqrt(n_g))) / sum,

    but do not fall below 1/1000 of the largest one. L_g is the mean loss of the cases of group g in
    the last batch that had any, or a running mean of these. Because all groups are drawn equally
    often, L_g is at most a few batches old. If q decided the draws instead, a group of little
    weight would hardly be looked at, and its weight would go on falling by losses of long ago.

    The published code counts the loss of a group that is absent from the batch as 0. Its q has no
    lower bound either; here the bound lets a group that was easy for a long time return within
    log(1000) / (nu * difference of the losses) batches.

    Args:
        groups: The group of every case, shape (n,).
        nu: Step size of the weights, 1/loss units, > 0.
        adjustment: Adjustment for the group sizes, loss units, >= 0; it makes small groups count as
            harder.
        momentum: Weight of the past in L_g, in [0, 1). 0 keeps the last batch that had a case of
            the group.

    Example:
        >>> rule = GroupDRO(["a", "b", "b"], nu=0.1)
        >>> rule.learn(np.array([0, 2]), np.array([0.0, 1.0]))
        >>> rule.loss_weights(np.arange(3), rule.probabilities(np.zeros(3))).round(2).tolist()
        [0.95, 1.05, 1.05]

    Source: Sagawa et al. 2020, Algorithm 1 and eq. (5).
    """

    def __init__(
        self,
        groups: Sequence[str],
        *,
        nu: float = 0.01,
        adjustment: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        super().__init__(groups)
        check_number("nu", nu, "(0, inf)", "0.01 is the paper's value.")
        check_number("adjustment", adjustment, "[0, inf)", "0 adjusts nothing.")
        check_number("momentum", momentum, "[0, 1)", "0 keeps the last loss of each group.")

        self.nu = nu
        self.adjustment = adjustment
        self.momentum = momentum
        self._log_weights = np.zeros(len(self.names))
        self._fresh_losses = np.full(len(self.names), np.nan)

    def __str__(self) -> str:
        text = (
            f"Group DRO, each of {len(self.names)} groups equally often and weighted in the loss, "
            f"step size {self.nu:g}"
        )
        if self.adjustment:
            text += f", adjustment {self.adjustment:g}"
        return text

    @property
    def weights(self) -> FloatArray:
        """The group weights q, shape (g,), summing to 1."""
        weights = np.exp(self._log_weights)
        return np.asarray(weights / weights.sum())

    def loss_weights(self, indices: NDArray[np.int64], probabilities: FloatArray) -> FloatArray:
        """q_g / (n_g p_i) of each case, shape (b,).

        It is G q_g where the group of the case had its full share of the draws.
        """
        weight_of_case = self.weights / self.sizes
        group = self._group[indices]
        return np.asarray(weight_of_case[group] / probabilities)

    def learn(self, indices: NDArray[np.int64], losses: FloatArray) -> None:
        """Move the weights towards the groups with large losses."""
        if not len(indices):
            return

        # L_g, from the groups that are in the batch.
        n_groups = len(self.names)
        group = self._group[indices]
        counts = np.bincount(group, minlength=n_groups)
        sums = np.bincount(group, weights=losses, minlength=n_groups)
        means = sums / np.maximum(counts, 1)

        # The first loss of a group has no past.
        fresh = self._fresh_losses
        old = np.where(np.isnan(fresh), means, fresh)
        new = self.momentum * old + (1 - self.momentum) * means
        fresh = np.where(counts > 0, new, fresh)
        self._fresh_losses = fresh

        # A group without a loss so far moves like the mean of the others.
        gains = fresh + self.adjustment / np.sqrt(self.sizes)
        is_missing = np.isnan(gains)
        gains[is_missing] = gains[~is_missing].mean()
        self._move(self._log_weights + self.nu * gains)

    def _move(self, log_weights: FloatArray) -> None:
        """Take over log weights up to a constant, none too far below the largest."""
        relative = log_weights - log_weights.max()
        self._log_weights = np.maximum(relative, _LOWEST_LOG_WEIGHT)

    def state_dict(self) -> dict[str, Any]:
        """The weights, the losses that move them, and the names of their groups."""
        return {
            "groups": self.names.tolist(),
            "log_weights": self._log_weights.copy(),
            "losses": self._fresh_losses.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the weights of the groups that the state has.

        Any other group starts with the mean of their weights.
        """
        here, there = positions_in_common(self.names.tolist(), state["groups"])
        restore(self._fresh_losses, np.nan, state["losses"], here, there)

        # The logarithm of the mean of the weights, not the mean of their logarithms.
        log_mean = 0.0
        if len(there):
            in_common = np.asarray(state["log_weights"])[there]
            log_mean = np.logaddexp.reduce(in_common) - np.log(len(in_common))
        restore(self._log_weights, log_mean, state["log_weights"], here, there)
        self._move(self._log_weights)
