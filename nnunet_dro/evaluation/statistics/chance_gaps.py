"""What a division of the cases by chance would show: the gap of random strata of the same sizes.

The worst and the best of several strata differ even where nothing does: a column of random letters
has a worst letter. Cases that are divided at random, into strata of the same sizes, show by how
much.

Source: Fisher 1935, The design of experiments (the randomisation test); Edgington and Onghena 2007,
Randomization Tests, section 3.3 (the observed division counts as one of the random ones).
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import PERCENTILES, enough_cases
from nnunet_dro.evaluation.statistics.samples import Sample
from nnunet_dro.evaluation.statistics.stratum_statistics import percentile
from nnunet_dro.evaluation.stratifying.stratify import ALL

OrderArray = npt.NDArray[np.int32]

#: The most random divisions, and the fewest, of many cases.
MOST_DRAWS = 1999
FEWEST_DRAWS = 99

#: So many values are drawn for an attribute and label, as far as `FEWEST_DRAWS` allow.
_VALUES_DRAWN = 1_000_000

#: Up to so many values of a label have random orders of their own; more share those of the label
#: with most, since drawing them would take longer than all that is made of them.
_MOST_OF_THEIR_OWN = _VALUES_DRAWN // MOST_DRAWS

#: So many are divided at a time: they stay in the cache.
_AT_A_TIME = 1 << 19


@dataclass(frozen=True)
class ChanceGap:
    """The gap between the worst and the best of strata, and that of random strata."""

    statistic: str  # the statistic that is compared
    gap: float  # that of the strata as they are
    typical: float  # the median of the gaps of random strata
    share: float  # the share of divisions with such a gap or a larger one, this one among them
    n_draws: int  # the number of random divisions

    @property
    def is_unmatched(self) -> bool:
        """Whether no random division has such a gap, so that the share is the least there is."""
        return self.share * (self.n_draws + 1) < 1.5

    def is_chance(self, *, n_tests: int) -> bool:
        """Whether random strata have such gaps, too, at 5 % over so many gaps (Bonferroni)."""
        return self.share * n_tests > 0.05 and not self.is_unmatched


def told_statistic(metric: Metric, sizes: Iterable[int]) -> str:
    """The statistic by which strata of these numbers of cases are compared.

    It is the metric's tail where every one has enough cases for it, and else the mean.
    """
    if all(enough_cases(metric.tail, size) for size in sizes):
        return metric.tail
    return "mean"


def chance_gaps(
    samples: Iterable[Sample], metric: Metric, *, reference: str | None = None
) -> dict[tuple[str, str], ChanceGap]:
    """The gaps by chance, by attribute and label, of the attributes with several strata.

    Args:
        samples: The values of every stratum and label by the metric; NaN is undefined.
        metric: The metric.
        reference: The stratum that the worst one is compared with, where there is one; None for the
            best one.
    """
    strata: dict[tuple[str, str], dict[str, FloatArray]] = defaultdict(dict)
    for sample in samples:
        defined = sample.values[~np.isnan(sample.values)]
        if sample.key["attribute"] != ALL and len(defined):
            place = (sample.key["attribute"], str(sample.key["label"]))
            strata[place][sample.key["stratum"]] = defined

    largest = max((sum(map(len, values.values())) for values in strata.values()), default=0)
    gaps = {}
    for place, values in strata.items():
        if len(values) < 2:
            continue
        names = list(values)
        compared = names.index(reference) if reference in names else None
        n = sum(map(len, values.values()))
        orders = _random_orders(n if n <= _MOST_OF_THEIR_OWN else largest)
        gaps[place] = _chance_gap(list(values.values()), metric, compared, orders)
    return gaps


def _chance_gap(
    values: Sequence[FloatArray], metric: Metric, reference: int | None, orders: OrderArray
) -> ChanceGap:
    """The gap of some strata, and those of random ones.

    They are divided by `_random_orders` of as many values or more.
    """
    sizes = [len(stratum) for stratum in values]
    statistic = told_statistic(metric, sizes)
    every = np.concatenate(values)
    order = np.argsort(every)
    ascending = every[order]
    # Places among the values are small numbers, which are moved and sorted in half the time.
    places = np.empty(len(every), dtype=np.min_scalar_type(len(every)))
    places[order] = np.arange(len(every))
    gap = float(_gaps(places[None], ascending, sizes, statistic, metric, reference)[0])

    n_draws, n_ordered = orders.shape
    n_rows = max(1, _AT_A_TIME // n_ordered)
    drawn = []
    for start in range(0, n_draws, n_rows):
        inside = orders[start : start + n_rows]
        # Without the places beyond its values, a random order is one of these.
        if len(every) < n_ordered:
            inside = inside[inside < len(every)].reshape(-1, len(every))
        drawn.append(_gaps(places.take(inside), ascending, sizes, statistic, metric, reference))
    by_chance = np.concatenate(drawn)

    # Sums in another order differ in the last digits.
    n_as_large = int(np.count_nonzero(by_chance >= gap - 1e-12))
    return ChanceGap(
        statistic,
        gap=gap,
        typical=float(np.median(by_chance)),
        share=(n_as_large + 1) / (n_draws + 1),
        n_draws=n_draws,
    )


@lru_cache(maxsize=4)
def _random_orders(n: int) -> OrderArray:
    """Random orders of n values, shape (n_draws, n), the same each time."""
    n_draws = min(MOST_DRAWS, max(FEWEST_DRAWS, _VALUES_DRAWN // n))
    rows = np.tile(np.arange(n, dtype=np.int32), (n_draws, 1))
    return np.random.default_rng(0).permuted(rows, axis=1, out=rows)


def _gaps(
    divided: npt.NDArray[np.unsignedinteger],
    ascending: FloatArray,
    sizes: Sequence[int],
    statistic: str,
    metric: Metric,
    reference: int | None,
) -> FloatArray:
    """By how much the best stratum, or the reference, is better than the worst of the others.

    Each row of ``divided``, shape (n_draws, n), has the places of the strata's values among the
    ``ascending`` ones, shape (n,), one stratum after the other.
    """
    lengths = np.asarray(sizes, dtype=np.intp)
    ends = np.cumsum(lengths)
    if statistic == "mean":
        sums = np.add.reduceat(ascending[divided], ends - lengths, axis=1)
        statistics = (sums / lengths).T
    else:
        strata = np.split(divided, ends[:-1], axis=1)
        percent = PERCENTILES[statistic]
        in_order = [np.sort(stratum, axis=1) for stratum in strata]
        statistics = np.array(
            [percentile(places, percent, values=ascending) for places in in_order]
        )

    goodness = np.asarray(metric.goodness(statistics))
    if reference is None:
        return np.asarray(goodness.max(axis=0) - goodness.min(axis=0))
    others = np.delete(goodness, reference, axis=0)
    return np.asarray(goodness[reference] - others.min(axis=0))
