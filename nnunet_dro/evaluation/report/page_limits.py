"""What a page and the terminal leave out where there is too much for a reader, or for a browser."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.pages.wording import count

#: The most rows of a page's tables of strata, and of the terminal's.
MOST_STRATA_ROWS, MOST_PRINTED_ROWS = 3_000, 1_000

#: The most rows of a page's table of cases: with its names they take about 4 MB.
MOST_CASE_ROWS = 60_000


def worst_labels(strata: pd.DataFrame, worst: pd.DataFrame, attribute: str, *, most_rows: int) -> list[str]:
    """The labels of an attribute whose worst stratum is worst, by the first metric's tail.

    Args:
        strata: The strata frame.
        worst: From `worst_strata`.
        attribute: Name.
        most_rows: The most rows of all attributes together. Attributes have equal shares of it.

    Returns:
        As many labels as there is room for, but at least one, in the order of ``strata``; all where all rows fit.
    """
    inside = strata[strata["attribute"] == attribute]
    labels = [str(name) for name in inside["label"].unique()]
    if len(strata) <= most_rows:
        return labels
    room = most_rows // strata["attribute"].nunique() * len(labels) // len(inside)
    metric = METRICS[str(strata["metric"].iloc[0])]
    ranked = worst[(worst["attribute"] == attribute) & (worst["metric"] == metric.name)]
    values = ranked[ranked["statistic"] == metric.tail].set_index("label")["worst"].reindex(labels)
    order = values.sort_values(ascending=metric.more_is_better, kind="stable")
    chosen = {str(name) for name in order.index[: max(1, room)]}
    return [label for label in labels if label in chosen]


def most_changed_labels(table: pd.DataFrame, attribute: str, *, n_rows: int, most_rows: int) -> list[str]:
    """The labels of an attribute with the largest differences of a stratum's mean, by the first metric.

    Args:
        table: The table of a comparison.
        attribute: Name.
        n_rows: Rows of a page without a limit, of all attributes together.
        most_rows: The most of them. Attributes have equal shares of it.

    Returns:
        As many labels as there is room for, but at least one, in the order of ``table``; all where all rows fit.
    """
    inside = table[table["attribute"] == attribute]
    labels = [str(name) for name in inside["label"].unique()]
    if n_rows <= most_rows:
        return labels
    room = most_rows // table["attribute"].nunique() * len(labels) // len(inside)
    of_first = inside[inside["metric"] == table["metric"].iloc[0]]
    largest = of_first["mean_difference"].abs().groupby(of_first["label"].astype(str)).max().reindex(labels)
    chosen = set(largest.sort_values(ascending=False, kind="stable").index[: max(1, room)])
    return [label for label in labels if label in chosen]


def left_out_of_comparison(n_shown: int, n_labels: int, metric_name: str) -> str:
    """Which labels of a comparison are shown, in a sentence; empty where all are."""
    if n_shown == n_labels:
        return ""
    which = f"the {n_shown} are shown" if n_shown > 1 else "one is shown"
    largest = f"the largest difference of a stratum's mean {METRICS[metric_name].title}"
    return f"Of {count(n_labels, 'label')}, {which} with {largest}; comparison.csv has all."


def left_out_sentence(n_shown: int, n_labels: int, metric_name: str, *, file: str = "strata.csv") -> str:
    """Which labels are shown, in a sentence; empty where all are."""
    if n_shown == n_labels:
        return ""
    metric = METRICS[metric_name]
    extreme = "lowest" if metric.more_is_better else "highest"
    tail = f"the {extreme} {STATISTICS[metric.tail].title} of {metric.title}"
    which = f"the {n_shown} are shown" if n_shown > 1 else "one is shown"
    return f"Of {count(n_labels, 'label')}, {which} whose worst stratum has {tail}; {file} has all."


@dataclass
class CaseRows:
    """The rows of the scores that the page's table of cases has: those of dots first, then the worst others.

    Attributes:
        n_rows: Number of rows of the scores.
        at_most: Number of rows that the table may have; dots may exceed it.
    """

    n_rows: int
    at_most: int = MOST_CASE_ROWS
    _place: dict[int, int] = field(default_factory=dict, repr=False)

    @property
    def is_limited(self) -> bool:
        """Whether there are more rows than the table may have."""
        return self.n_rows > self.at_most

    def places(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows of the table for these rows of the scores, which will be in it."""
        if not self.is_limited:
            return rows
        return np.array([self._place.setdefault(int(row), len(self._place)) for row in rows], dtype=np.int64)

    def chosen(self, values: npt.NDArray[np.float64], *, more_is_better: bool) -> npt.NDArray[np.int64]:
        """The rows of the scores in the order of the table.

        Args:
            values: Of the first metric, a value per row of the scores; NaN is never among the worst.
            more_is_better: Whether large values are good.
        """
        if not self.is_limited:
            return np.arange(self.n_rows)
        room = max(self.at_most - len(self._place), 0)
        badness = np.nan_to_num(-values if more_is_better else values, nan=-np.inf)
        order = np.argsort(-badness, kind="stable")[: self.at_most]
        others = [row for row in order.tolist() if row not in self._place][:room]
        return np.array([*self._place, *others], dtype=np.int64)
