"""Rules that know the group of every case, such as its pathology or centre."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnunet_dro.sampling.divergences import FloatArray
from nnunet_dro.sampling.rules import Rule
from nnunet_dro.sampling.uncertainty_sets import check_share, kl_ball_beta

_LOWEST_LOG_WEIGHT = -np.log(
    1000.0
)  # Log of the smallest weight of a group relative to the largest, in `GroupDRO`.


class GroupRule(Rule):
    """A rule that draws a group of n_g cases in proportion to n_g^(1 - power), then any case of the group.

    Args:
        groups: The group of every case, shape (n,).
        power: 1 draws every group equally often, 0 every case, 0.5 a group by the square root of
            its size.

    Attributes:
        names: The groups, sorted.
        sizes: Number of cases of each group, shape (g,).
        shares: Share of the draws of each group, shape (g,).
    """

    needs_losses = False

    def __init__(self, groups: Sequence[str], *, power: float = 1.0) -> None:
        if len(groups) == 0:
            raise ValueError(
                "`groups` must have a group per case, got none. Check the fold's split."
            )
        if not 0 <= power <= 1:
            raise ValueError(
                f"`power` must be in [0, 1], got {power!r}. 1 draws every group equally often."
            )
        self.power = power
        self.names, self._group = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
        self.sizes = np.bincount(self._group, minlength=len(self.names))
        counted = self.sizes ** (1 - power)
        self.shares: FloatArray = counted / counted.sum()

    @property
    def weights(self) -> FloatArray:
        """What each group counts, shape (g,), summing to 1."""
        return self.shares

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, shape (n,), summing to 1.

        Equal for all cases of a group, with or without a loss.
        """
        return np.asarray((self.shares / self.sizes)[self._group])

    def group_losses(self, losses: FloatArray) -> FloatArray:
        """Mean loss of each group over its cases with a loss, shape (g,).

        NaN for a group without any.
        """
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
    """Static importance weighting (balanced risk).

    Every group is drawn equally often, whatever its losses are.

    With a smaller ``power``, a case of a group of n_g cases counts n_g^-power: between balanced and
    uniform draws.

    Example:
        >>> Balanced(["a", "b", "b", "b", "b"]).probabilities(np.zeros(5)).tolist()
        [0.5, 0.125, 0.125, 0.125, 0.125]
        >>> Balanced(["a", "b", "b", "b", "b"], power=0.5).shares.round(2).tolist()
        [0.33, 0.67]

    Source: the importance weighting that Sagawa et al. 2020 and Zhai et al. 2023 compare with, done
    by sampling; Mahajan et al. 2018 for the square root of the size.
    """

    def __str__(self) -> str:
        often = (
            "equally often"
            if self.power == 1
            else f"by its number of cases to the power of {1 - self.power:g}"
        )
        return f"each of {len(self.names)} groups {often}"


class BalancedBall(Balanced):
    """`Balanced`, with the cases of each group drawn by hardness.

    Every group has a KL ball of its own.

        p_i  =  s_g ((1 - exploration) softmax(beta_g L)_i  +  exploration / n_g)

    with s_g the share of the draws of group g, the softmax over its cases, and beta_g such that
    their effective number is ``share`` times n_g (`kl_ball_beta`). A group without losses is drawn
    uniformly.

    Args:
        groups: The group of every case, shape (n,).
        power: As in `GroupRule`.
        share: Effective number of the cases of a group over their number, in (0, 1].
        exploration: Share of uniform draws inside of each group, in [0, 1], which leaves s_g as it
            is.

    Example:
        >>> groups, losses = ["a", "a", "b", "b", "b", "b"], np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
        >>> rule = BalancedBall(groups, share=0.5, exploration=0.0).following(losses)
        >>> rule.probabilities(losses).round(3).tolist()
        [0.0, 0.5, 0.0, 0.0, 0.25, 0.25]

    Source: Tian et al. 2026, arXiv:2605.10521, who look for the hard cases inside of groups in the
    loss, not by draws.
    """

    needs_losses = True
    follows_losses = True

    def __init__(
        self,
        groups: Sequence[str],
        *,
        power: float = 1.0,
        share: float = 0.5,
        exploration: float = 0.1,
    ) -> None:
        super().__init__(groups, power=power)
        check_share(share)
        if not 0 <= exploration <= 1:
            raise ValueError(
                f"`exploration` must be in [0, 1], got {exploration!r}. The default is 0.1."
            )
        self.share = share
        self.exploration = exploration
        self.betas = np.zeros(len(self.names))

    def __str__(self) -> str:
        by_hardness = f"its cases as if from {100 * self.share:g} % of them"
        return f"{super().__str__()}, {by_hardness}, {100 * self.exploration:g} % of its draws uniformly"

    def following(self, losses: FloatArray) -> "BalancedBall":
        """The rule with the beta of each group that these losses ask for."""
        rule = copy(self)
        known = [
            losses[(self._group == group) & ~np.isnan(losses)] for group in range(len(self.names))
        ]
        rule.betas = np.array(
            [kl_ball_beta(mine, share=self.share) if len(mine) else 0.0 for mine in known]
        )
        return rule

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, shape (n,), summing to 1.

        A case without a loss is drawn by exploration only.
        """
        inside = (1 - self.exploration) * self._by_hardness(losses) + self.exploration / self.sizes[
            self._group
        ]
        return np.asarray(self.shares[self._group] * inside)

    def group_losses(self, losses: FloatArray) -> FloatArray:
        """Worst weighted mean of the losses of each group, shape (g,).

        NaN for a group without any.
        """
        worst = np.bincount(
            self._group, np.nan_to_num(self._by_hardness(losses) * losses), len(self.names)
        )
        return np.where(np.isnan(super().group_losses(losses)), np.nan, worst)

    def _by_hardness(self, losses: FloatArray) -> FloatArray:
        """Softmax of the losses inside of each group, shape (n,).

        Equal in a group without losses.
        """
        largest = np.full(len(self.names), -np.inf)
        np.fmax.at(largest, self._group, losses)  # ignores NaN
        weights = np.nan_to_num(np.exp(self.betas[self._group] * (losses - largest[self._group])))
        sums = np.bincount(self._group, weights, len(self.names))[self._group]
        return np.divide(weights, sums, out=1 / self.sizes[self._group], where=sums > 0)


class GroupDRO(GroupRule):
    """Group distributionally robust optimisation.

    Exponentiated-gradient weights of the groups, in the loss.

    Every group is drawn equally often, and the loss of a case of group g counts G q_g, which is 1
    in the mean over the draws (G groups). (Exactly, it counts q_g / (n_g p_i), with p_i the
    probability of the case at its draw: where the cases of a batch are distinct, a group with few
    cases cannot always take its share.) After each batch

        q_g  <-  q_g exp(nu (L_g + adjustment / sqrt(n_g))) / sum,    not below 1/1000 of the largest

    where L_g is the mean loss of the cases of group g in the last batch that had any, or a running
    mean of these. Because all groups are drawn equally often, L_g is at most a few batches old. If
    q decided the draws instead, a group of little weight would hardly be looked at, and its weight
    would go on falling by losses of long ago.

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
        if not (np.isfinite(nu) and nu > 0):
            raise ValueError(
                f"`nu` must be a finite number > 0, got {nu!r}. 0.01 is the paper's value."
            )
        if not (np.isfinite(adjustment) and adjustment >= 0):
            raise ValueError(
                f"`adjustment` must be a finite number >= 0, got {adjustment!r}. 0 adjusts nothing."
            )
        if not 0 <= momentum < 1:
            raise ValueError(
                f"`momentum` must be in [0, 1), got {momentum!r}. 0 keeps the last loss of each group."
            )
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
        """q_g / (n_g p_i) of each case, shape (b,).

        G q_g where its group had its full share of the draws.
        """
        return np.asarray((self.weights / self.sizes)[self._group[indices]] / probabilities)

    def learn(self, indices: NDArray[np.int64], losses: FloatArray) -> None:
        """Move the weights towards the groups with large losses."""
        if not len(indices):
            return
        of_case = self._group[indices]
        counts = np.bincount(of_case, minlength=len(self.names))
        means = np.bincount(of_case, weights=losses, minlength=len(self.names)) / np.maximum(
            counts, 1
        )
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
        """Restore the weights of the groups that the state has.

        Any other group starts with their mean.
        """
        known = dict(
            zip(state["groups"], np.asarray(state["log_weights"], dtype=np.float64), strict=True)
        )
        here = [known[name] for name in self.names.tolist() if name in known]
        start = np.logaddexp.reduce(here) - np.log(len(here)) if here else 0.0
        self._move(np.array([known.get(name, start) for name in self.names.tolist()]))
        losses = dict(zip(state["groups"], state["losses"], strict=True))
        self._fresh_losses = np.array(
            [losses.get(name, np.nan) for name in self.names.tolist()], dtype=np.float64
        )
