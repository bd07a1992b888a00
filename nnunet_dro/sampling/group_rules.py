"""Rules that know the group of every case, such as its pathology or centre."""

from collections.abc import Sequence
from copy import copy

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import check_number
from nnunet_dro.sampling.rules import Rule
from nnunet_dro.sampling.uncertainty_sets import check_share, kl_ball_beta


class GroupRule(Rule):
    """A rule that draws a group first, and then any of its cases.

    A group of n_g cases is drawn in proportion to n_g^(1 - power).

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
        check_number("power", power, "[0, 1]", "1 draws every group equally often.")

        self.power = power
        group_of_case = np.asarray(groups, dtype=str)
        self.names, self._group = np.unique(group_of_case, return_inverse=True)
        self.sizes = np.bincount(self._group, minlength=len(self.names))

        # Sizes to the power of 0 are equal shares, to the power of 1 those of uniform draws.
        counted = self.sizes ** (1 - power)
        self.shares: FloatArray = counted / counted.sum()

    @property
    def weights(self) -> FloatArray:
        """What each group counts, shape (g,), summing to 1."""
        return self.shares

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, shape (n,), summing to 1.

        They are equal for all cases of a group, with or without a loss.
        """
        share_of_case = self.shares / self.sizes
        return np.asarray(share_of_case[self._group])

    def group_losses(self, losses: FloatArray) -> FloatArray:
        """Mean loss of each group over its cases with a loss, shape (g,).

        A group without any is NaN.
        """
        n_groups = len(self.names)
        has_loss = ~np.isnan(losses)
        group = self._group[has_loss]
        counts = np.bincount(group, minlength=n_groups)
        sums = np.bincount(group, weights=losses[has_loss], minlength=n_groups)
        return np.asarray(sums / np.where(counts, counts, np.nan))

    def robust_loss(self, losses: FloatArray) -> float:
        """Mean of the group losses, weighted by what the groups count; NaN without losses."""
        group_losses = self.group_losses(losses)
        has_loss = ~np.isnan(group_losses)
        if not has_loss.any():
            return float("nan")

        weights = self.weights[has_loss]
        return float(weights @ group_losses[has_loss] / weights.sum())


class Balanced(GroupRule):
    """Static importance weighting (balanced risk).

    Every group is drawn equally often, whatever its losses are. With a ``power`` below 1, a case of
    a group of n_g cases counts n_g^-power, which lies between balanced and uniform draws.

    Example:
        >>> Balanced(["a", "b", "b", "b", "b"]).probabilities(np.zeros(5)).tolist()
        [0.5, 0.125, 0.125, 0.125, 0.125]
        >>> Balanced(["a", "b", "b", "b", "b"], power=0.5).shares.round(2).tolist()
        [0.33, 0.67]

    Source: the importance weighting that Sagawa et al. 2020 and Zhai et al. 2023 compare with, done
    by sampling; Mahajan et al. 2018 for the square root of the size.
    """

    def __str__(self) -> str:
        groups = f"each of {len(self.names)} groups"
        if self.power == 1:
            return f"{groups} equally often"
        return f"{groups} by its number of cases to the power of {1 - self.power:g}"


class BalancedBall(Balanced):
    """`Balanced`, with the cases of each group drawn by hardness.

    Every group has a KL ball of its own:

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
        >>> groups = ["a", "a", "b", "b", "b", "b"]
        >>> losses = np.array([0.0, 1.0, 0.0, 0.0, 1.0, 1.0])
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
        check_number("exploration", exploration, "[0, 1]", "The default is 0.1.")

        self.share = share
        self.exploration = exploration
        self.betas = np.zeros(len(self.names))

    def __str__(self) -> str:
        return (
            f"{super().__str__()}, "
            f"its cases as if from {100 * self.share:g} % of them, "
            f"{100 * self.exploration:g} % of its draws uniformly"
        )

    def following(self, losses: FloatArray) -> "BalancedBall":
        """The rule with the beta of each group that these losses ask for."""
        rule = copy(self)
        rule.betas = np.zeros(len(self.names))

        has_loss = ~np.isnan(losses)
        for group in range(len(self.names)):
            is_member = self._group == group
            stored = losses[has_loss & is_member]
            if len(stored):
                rule.betas[group] = kl_ball_beta(stored, share=self.share)
        return rule

    def probabilities(self, losses: FloatArray) -> FloatArray:
        """Sampling probabilities, shape (n,), summing to 1.

        A case without a loss is drawn by exploration only.
        """
        # p_i = s_g ((1 - exploration) softmax(beta_g L)_i + exploration / n_g)
        group = self._group
        by_hardness = (1 - self.exploration) * self._by_hardness(losses)
        uniformly = self.exploration / self.sizes[group]
        inside = by_hardness + uniformly
        return np.asarray(self.shares[group] * inside)

    def group_losses(self, losses: FloatArray) -> FloatArray:
        """Worst weighted mean of the losses of each group, shape (g,).

        A group without any is NaN.
        """
        weighted = self._by_hardness(losses) * losses
        terms = np.nan_to_num(weighted)
        worst = np.bincount(self._group, terms, len(self.names))

        means = super().group_losses(losses)
        return np.where(np.isnan(means), np.nan, worst)

    def _by_hardness(self, losses: FloatArray) -> FloatArray:
        """Softmax of beta_g L inside of each group, shape (n,).

        It is uniform in a group without losses.
        """
        group = self._group
        n_groups = len(self.names)
        largest = np.full(n_groups, -np.inf)
        np.fmax.at(largest, group, losses)  # ignores NaN

        # Seen from the largest loss of the group, nothing overflows.
        excess = losses - largest[group]
        weights = np.exp(self.betas[group] * excess)
        weights = np.nan_to_num(weights)

        sum_of_group = np.bincount(group, weights, n_groups)[group]
        uniform = 1 / self.sizes[group]
        return np.divide(
            weights,
            sum_of_group,
            out=uniform,
            where=sum_of_group > 0,
        )
