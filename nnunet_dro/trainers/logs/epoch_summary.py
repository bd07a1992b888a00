"""The summaries that the logs give of an epoch: scalars, and one line for nnU-Net's log."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class TableSummary:
    """The table of stale losses at the end of an epoch, as far as the line in the log needs it.

    Attributes:
        n_items: Number of items, which are cases or sub-volumes.
        n_unseen: Number of items that were never seen.
        hardest: The five items with the largest stale losses, hardest first, and these losses.
        stalest: The item with the oldest stale loss, and its age in iterations; None if it is not notably old.
        outliers: The items that the rule sets aside, hardest first.
        items: Name of the items, ``cases`` or ``sub-volumes``.
    """

    n_items: int
    n_unseen: int
    hardest: tuple[tuple[str, float], ...]
    stalest: tuple[str, int] | None = None
    outliers: tuple[str, ...] = ()
    items: str = "cases"


@dataclass(frozen=True)
class HardnessSummary:
    """Hardness of the cases in one epoch.

    Attributes:
        epoch: Number of the epoch, from 0 as in nnU-Net.
        effective_cases: exp(entropy) of the sampling probabilities at the end of the epoch.
        clipped_share: Share of the epoch's importance weights that were clipped, in [0, 1]; NaN without such weights.
        refused_losses: Number of losses in the epoch that were not finite and therefore not stored.
        mean_loss: Mean of the stale losses; NaN while no case has one.
        robust_loss: The value that the table's rule minimises, for the stale losses (`Rule.robust_loss`).
        worst_5_percent_bound: Bound on the loss that 5 % of the cases exceed (`Rule.percentile_bound`); infinite if the
            rule gives no such bound.
        beta: Robustness at the end of the epoch; NaN for a rule without one.
        mean_weight: Mean importance weight of the epoch; NaN without such weights.
        mean_staleness: Mean age of the stale losses at the end of the epoch, in iterations; NaN before all were seen.
        largest_staleness: Age of the oldest stale loss, in iterations; NaN before all were seen.
        fall_of_drawn: By how much the stale loss of the cases that are drawn more often than others fell since the
            first epochs; NaN while there is nothing to compare, or where no draw depends on losses.
        fall_of_others: The same of the other cases.
        n_draws: Number of draws in the epoch.
        groups: Scalars of the groups of the case table, by their column in training.csv.
        table: The table at the end of the epoch; None for epochs from a checkpoint, which does not contain it.
    """

    epoch: int
    effective_cases: float
    clipped_share: float
    refused_losses: int
    mean_loss: float = math.nan
    robust_loss: float = math.nan
    worst_5_percent_bound: float = math.nan
    beta: float = math.nan
    mean_weight: float = math.nan
    mean_staleness: float = math.nan
    largest_staleness: float = math.nan
    fall_of_drawn: float = math.nan
    fall_of_others: float = math.nan
    n_draws: int = 0
    groups: dict[str, float] = field(default_factory=dict)
    table: TableSummary | None = None

    def state_dict(self) -> dict[str, Any]:
        """State for a checkpoint: the arguments to create the summary again, without the table."""
        return {name: value for name, value in asdict(self).items() if name != "table"}

    def scalars(self) -> dict[str, float]:
        """All scalars by their names, those of the groups last."""
        own = {name: value for name, value in self.state_dict().items() if name not in ("groups", "n_draws")}
        return {**own, **self.groups}

    def line(self) -> str:
        """One line for nnU-Net's log."""
        parts = []
        if not math.isnan(self.mean_loss):
            parts.append(f"mean loss {self.mean_loss:.3f}, robust loss {self.robust_loss:.3f}")
        if math.isfinite(self.worst_5_percent_bound):
            parts.append(f"at most 5 % of the cases above {self.worst_5_percent_bound:.3f}")
        if math.isfinite(self.beta):
            parts.append(f"beta {self.beta:.4g}")
        effective = f"{self.effective_cases:.1f}"
        parts.append(f"effective {self.table.items} {effective} of {self.table.n_items}" if self.table else effective)
        if not math.isnan(self.clipped_share):
            parts.append(f"clipped weights {100 * self.clipped_share:.1f} %")
        parts.append(f"refused losses {self.refused_losses}")
        return "Hardness: " + ", ".join([*parts, *(self._of_table(self.table) if self.table else ())])

    @staticmethod
    def _of_table(table: TableSummary) -> list[str]:
        parts = [f"never seen {table.n_unseen}"] if table.n_unseen else []
        if table.stalest:
            parts.append(f"oldest loss {table.stalest[0]} ({table.stalest[1]} iterations)")
        if table.outliers:
            more = f" and {len(table.outliers) - 20} more" if len(table.outliers) > 20 else ""
            parts.append(f"set aside as suspected outliers: {', '.join(table.outliers[:20])}{more}")
        hardest = ", ".join(f"{name} ({loss:.3f})" for name, loss in table.hardest)
        return [*parts, f"hardest: {hardest or 'none yet'}"]


@dataclass(frozen=True)
class WeightsSummary:
    """Learnt weights of one epoch.

    Attributes:
        epoch: Number of the epoch, from 0 as in nnU-Net.
        n_steps: Number of iterations that made a step.
        n_without_step: Number of iterations that made no step, because all weights were 0.
        zero_share: Share of the epoch's weights that were 0, in [0, 1]; NaN without any weight.
        lowest: The five cases with the lowest mean weights over all epochs so far, lowest first, and these weights.
    """

    epoch: int
    n_steps: int
    n_without_step: int
    zero_share: float
    lowest: tuple[tuple[str, float], ...] = ()

    def scalars(self) -> dict[str, float]:
        """All scalars by their names."""
        return {name: value for name, value in asdict(self).items() if name != "lowest"}

    def line(self) -> str:
        """One line for nnU-Net's log."""
        parts = [f"{self.n_steps} of {self.n_steps + self.n_without_step} iterations made a step"]
        if not math.isnan(self.zero_share):
            parts.append(f"zero weights {100 * self.zero_share:.1f} %")
        lowest = ", ".join(f"{case} ({weight:.3f})" for case, weight in self.lowest)
        return "Weights: " + ", ".join([*parts, f"lowest so far: {lowest or 'none yet'}"])


@dataclass(frozen=True)
class PerturbationSummary:
    """Perturbations of one epoch, over the cases of this process.

    Attributes:
        epoch: Number of the epoch, from 0 as in nnU-Net.
        mean_change: Mean over cases of the root mean square change of a voxel, in units of the normalised images
            (standard deviations, for most of nnU-Net's normalisations).
        max_change: Largest of these changes.
        mean_feature_distance: Mean over cases of the root mean square of ||z - z_0|| over voxels.
        surrogate_before: Mean of l at the original images.
        surrogate_after: Mean of l - gamma/2 ||z - z_0||^2 at the generated images.
        rejected_share: Share of the steps that were taken back, in [0, 1].
        non_finite: Number of cases for which a loss, feature or gradient was not finite.
    """

    epoch: int
    mean_change: float
    max_change: float
    mean_feature_distance: float
    surrogate_before: float
    surrogate_after: float
    rejected_share: float
    non_finite: int

    def line(self) -> str:
        """One line for nnU-Net's log."""
        if math.isnan(self.mean_change) and not self.non_finite:
            return "Perturbation: no batch was generated in this epoch"
        return (
            f"Perturbation: root mean square change of the images {self.mean_change:.3g}, at most "
            f"{self.max_change:.3g}, of the features {self.mean_feature_distance:.3g}, "
            f"surrogate {self.surrogate_before:.3f} -> {self.surrogate_after:.3f}, "
            f"steps taken back {100 * self.rejected_share:.0f} %, not finite {self.non_finite}"
        )
