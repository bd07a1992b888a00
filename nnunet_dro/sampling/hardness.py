"""The table of stale losses in shared memory: draw by hardness, update, save and restore."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import check_number
from nnunet_dro.naming import repeated
from nnunet_dro.sampling.blocks import Blocks
from nnunet_dro.sampling.changed_cases import change_of_cases, positions_in_common
from nnunet_dro.sampling.divergences import with_exploration
from nnunet_dro.sampling.draws import Draws, draws_of_weight_one, first_visits
from nnunet_dro.sampling.rules import KL, UNIFORM, Rule, RuleWithBeta
from nnunet_dro.sampling.stale_losses import StaleLosses
from nnunet_dro.sampling.systematic import draw_distinct

#: Share of the uniform distribution in every draw, so that every stale loss is renewed: each case
#: is then drawn at least once in 20 passes over the data on average. In nnU-Net's training, 250,000
#: batches of 2, that is 250 times for 100 cases and 25 times for 1,000, and the loss that waits
#: longest is about (log(n) + 0.58) / 0.05 passes old: 104 passes for 100 cases, 150 of the 500
#: passes for 1,000. With a share of 0.01 these would be 750 passes, longer than the training, and
#: with the 1e-4 of the published code there are 50 uniform draws in all.
EXPLORATION = 0.05
#: A rule that looks at all cases does so after one update per so many cases.
_CASES_PER_LOOK = 4096
#: A rule whose numbers follow the losses does so after one new loss per so many cases, but not
#: before so many new losses, or one of each case: a search among few cases costs as much as among a
#: hundred.
_CASES_PER_NEW_LOSS = 8
_LEAST_NEW_LOSSES = 32
#: Stands for the probability by exploration where there is none.
_SMALLEST_FLOOR = 1e-300


class HardnessTable:
    """One stale loss per case, shared by the process that trains and the processes that draw.

    The training process calls `update`; any process, including a forked or spawned worker, calls
    `draw` and sees every update. No lock is taken: only the training process writes the numbers of
    a case, and a draw that meets a half-written block still returns a valid case, at worst with the
    probability of a moment ago.

    Cases are kept in blocks of about sqrt(n). A draw walks along the sums of the blocks' weights,
    then along one block; an update weighs its own cases, and adds up their blocks. So the cost of a
    draw and an update is O(sqrt(n)) with a small constant. A rule whose weights depend on each
    other looks at all cases, in O(n log n). To keep its cost per update constant, it does so after
    every n // 4096 updates if that is more than one, so that the probabilities are at most that
    many updates old.

    Unless the rule needs no losses, cases that were never seen are drawn first, uniformly (the
    warm-start epoch of Fidon et al. 2020): those that were not drawn yet before those whose loss is
    still on its way. A case whose losses were all refused because they were not finite counts as
    seen and is drawn by exploration only.

    Args:
        cases: Names of the cases, unique.
        beta: Robustness, 1/loss units, >= 0: p = softmax(beta * stale losses). 0 is uniform
            sampling.
        rule: The rule to draw by, instead of `KL` with ``beta``. A rule that learns must not be
            shared with other tables.
        momentum: Weight of the past in the history, in [0, 1): L <- momentum L + (1 - momentum) l.
            0 keeps the last loss.
        exploration: Share of the uniform distribution in every draw, in [0, 1].
        replace: Whether to draw with replacement, once every case was seen. If not, the cases of a
            batch are distinct: a case can then take one place in a batch at most, whatever its
            probability. With fewer cases than places, each comes as often as the others, or once
            more.
        auto_beta: Whether `estimate_beta` will be called. The table then keeps some more numbers
            per case.

    Attributes:
        cases: Names of the cases, in the order of the indices.
        rule: The rule that decides how likely each case is to be drawn; valid in the training
            process.

    Raises:
        ValueError: If there is no case, a name is duplicated, or a number is out of range.

    Example:
        >>> table = HardnessTable(["a", "b", "c"], beta=10.0)
        >>> table.update([0, 1, 2], [0.1, 0.9, 0.2])
        >>> table.probabilities().round(3).tolist()
        [0.017, 0.965, 0.018]
        >>> draws = table.draw(2, rng=np.random.default_rng(0))
        >>> "b" in [table.cases[i] for i in draws.indices]  # the cases of a batch are distinct
        True

    Source: Fidon et al. 2022 (MELBA), Algorithm 1.
    """

    def __init__(
        self,
        cases: Sequence[str],
        *,
        beta: float = 0.0,
        rule: Rule | None = None,
        momentum: float = 0.0,
        exploration: float = EXPLORATION,
        replace: bool = False,
        auto_beta: bool = False,
    ) -> None:
        self.cases = tuple(str(case) for case in cases)
        _check_names(self.cases)
        check_number("momentum", momentum, "[0, 1)", "0 keeps the last loss of each case.")
        check_number("exploration", exploration, "[0, 1]", f"The default is {EXPLORATION:g}.")
        self.rule: Rule = KL(beta) if rule is None else rule
        self.momentum = momentum
        self.exploration = exploration
        self.replace = replace
        # Number of updates since the rule last looked at the losses, and of new losses since its
        # numbers last followed them.
        self._n_updates = 0
        self._n_not_followed = 0
        n_least = min(_LEAST_NEW_LOSSES, len(cases))
        self._n_new_losses_to_follow = max(n_least, len(cases) // _CASES_PER_NEW_LOSS)

        self._blocks = Blocks(len(cases))
        self._shared = self._blocks.shared
        self._stale = StaleLosses(self._blocks, momentum=momentum, auto_beta=auto_beta)
        self._look()
        self._blocks.count(self._blocks.all())

    @property
    def losses(self) -> FloatArray:
        """A copy of the stale losses, shape (n,); NaN for a case that has none yet."""
        return self._shared.losses.copy()

    @property
    def staleness(self) -> FloatArray:
        """Age of each stale loss in updates, shape (n,); NaN for a case without one.

        Valid in the training process.
        """
        return self._stale.ages()

    @property
    def refused(self) -> int:
        """Number of losses that were not finite and therefore not stored."""
        return self._stale.refused

    @property
    def n_unseen(self) -> int:
        """Number of cases that were never seen."""
        return int(self._shared.unseen.sum())

    @property
    def warming_up(self) -> bool:
        """Whether cases are drawn uniformly to collect losses; the training process sets it."""
        return bool(self._shared.warming_up[0])

    @warming_up.setter
    def warming_up(self, value: bool) -> None:
        self._shared.warming_up[0] = value

    def estimate_beta(self) -> float | None:
        """Set beta to 1 / standard deviation between the cases, once every case was seen.

        The deviation is that of `Spread.between_cases`: how much the losses of a case differ from
        patch to patch does not count. Only the training process may call this. Workers use the new
        beta from their next draw on.

        Returns:
            The new beta, or None if it was not changed because cases are unseen or all losses are
            equal.

        Raises:
            TypeError: If the rule has no beta.
            ValueError: If the table was made without ``auto_beta``.

        Source: Fidon et al. 2022 (MELBA), section 5, on the choice of beta.
        """
        if not isinstance(self.rule, RuleWithBeta):
            raise TypeError(
                f"`rule` must have a beta to estimate, got {self.rule}. Use KL or Chi2."
            )
        deviation = self._stale.deviation()
        if self.n_unseen or deviation is None:
            return None

        beta = 1 / deviation
        self.rule = replace(self.rule, beta=beta)
        self._look()
        return beta

    def probabilities(self) -> FloatArray:
        """Probability of each case in the next draw, shape (n,), summing to 1.

        It is that of a single draw. In a batch of b distinct cases no case has a larger share of
        the draws than 1 / b, see `expected_draws`. Valid in the training process.
        """
        shared = self._shared
        if self.n_unseen and self.rule.needs_losses:
            # Cases that were drawn come again only if all were.
            candidates = ~shared.seen & ~shared.claimed
            if not candidates.any():
                candidates = ~shared.seen
            return np.asarray(candidates / candidates.sum())

        n = len(self)
        probabilities = np.full(n, 1 / n)
        if not self.warming_up and self.rule != UNIFORM:
            by_rule = self.rule.probabilities(shared.losses)
            if by_rule.any():
                probabilities = by_rule
        return with_exploration(probabilities, epsilon=self.exploration)

    def draw(self, size: int, *, rng: np.random.Generator) -> Draws:
        """Draw the cases of a batch.

        Args:
            size: Number of cases.
            rng: Source of randomness; every worker needs its own.

        Returns:
            The draws, and the stale losses, probabilities and beta that they were made with.
        """
        blocks = self._blocks
        shared = self._shared
        is_uniform = self.warming_up
        exploration = 1.0 if is_uniform else self.exploration
        beta = float(shared.beta[0])
        if self.rule.needs_losses and shared.any_unseen[0]:
            indices = first_visits(blocks, size, rng, exploration=exploration)
            return draws_of_weight_one(indices, len(self))

        if self.replace:
            indices, probabilities = blocks.draw_by_weight(size, rng, exploration=exploration)
        else:
            indices, expected = draw_distinct(blocks, size, rng, exploration=exploration)
            probabilities = expected / size
        if is_uniform:
            return draws_of_weight_one(indices, len(self))

        # Without weights and exploration all draws are uniform, as they are with exploration alone.
        shares = blocks.shares(indices)
        floor = exploration / len(self) or _SMALLEST_FLOOR
        explored = floor / ((1 - exploration) * shares + floor)
        return Draws(
            indices=indices,
            stale_losses=shared.losses[indices],
            probabilities=probabilities,
            shares=shares,
            explored=explored,
            betas=np.array([beta] * size),
        )

    def update(self, indices: ArrayLike, losses: ArrayLike) -> None:
        """Store the losses of a batch, shape (b,): L_i <- l_i, or the running mean with momentum.

        Only the training process may call this. A duplicated case takes its losses in their order.
        A loss that is not finite is refused: it is counted, and the case keeps its old loss.
        """
        positions = np.asarray(indices, dtype=np.int64)
        losses = np.asarray(losses, dtype=np.float64)
        self._stale.store(positions.tolist(), losses.tolist())

        is_finite = np.isfinite(losses)
        with_loss = positions[is_finite]
        if not self.warming_up:
            self.rule.learn(with_loss, losses[is_finite])

        # Weights before counts: a worker that finds all cases seen must find their weights as well.
        any_unseen = self._shared.any_unseen[0]
        is_last_first_visit = bool(any_unseen and self._shared.seen.all())
        self._n_updates += 1
        self._n_not_followed += len(positions)
        self._weigh(with_loss, must_look=is_last_first_visit)
        if any_unseen:
            self._blocks.count(self._blocks.containing(positions.tolist()))

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed training needs, by the names of the cases."""
        return {
            "cases": list(self.cases),
            "rule": self.rule.state_dict(),
            **self._stale.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> str | None:
        """Restore the losses of an earlier training, by the names of the cases.

        Cases that are not in the state start unseen; cases that are only in the state are dropped.

        Returns:
            One line for the log if the cases changed, otherwise None.
        """
        here, there = positions_in_common(self.cases, state["cases"])
        self._shared.claimed[:] = False
        self._stale.load_state_dict(state, here, there)
        self.rule.load_state_dict(state["rule"])
        self._look()
        self._blocks.count(self._blocks.all())
        return change_of_cases(self.cases, state["cases"])

    def __len__(self) -> int:
        return len(self.cases)

    def __repr__(self) -> str:
        return f"HardnessTable({len(self)} cases, {self.rule}, {self.n_unseen} unseen)"

    def _weigh(self, positions: NDArray[np.int64], *, must_look: bool) -> None:
        """Weigh the cases with new losses, or all of them if it is time to."""
        rule = self.rule
        is_time = self._n_not_followed >= self._n_new_losses_to_follow
        if must_look or (is_time and rule.follows_losses):
            self._look()
        elif rule.is_separable:
            if not self._blocks.weigh(rule, positions):
                self._look()
        elif rule.needs_losses and self._n_updates >= len(self) // _CASES_PER_LOOK:
            self._n_updates = 0
            self._blocks.weigh_all(rule)

    def _look(self) -> None:
        """Weigh all cases, by a rule that follows their losses once all were seen."""
        shared = self._shared
        self._n_updates = 0
        self._n_not_followed = 0
        if not self.rule.follows_losses or shared.seen.all():
            self.rule = self.rule.following(shared.losses)

        # Only the draws of a softmax can be corrected by importance weights, and these need its
        # beta.
        shared.beta[0] = self.rule.beta if isinstance(self.rule, KL) else 0.0
        self._blocks.weigh_all(self.rule)


def _check_names(cases: Sequence[str]) -> None:
    if len(cases) == 0:
        raise ValueError(
            "`cases` must name at least one training case, got none. Check the fold's split."
        )
    duplicated = sorted(repeated(cases))
    if duplicated:
        raise ValueError(
            f"`cases` must be unique, got {', '.join(duplicated[:5])} twice. Check the fold's "
            "split."
        )
