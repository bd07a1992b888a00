"""The table of a comparison: a row per attribute, stratum, label, metric and method."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.comparing.one_sided import MethodValues, completed
from nnunet_dro.evaluation.comparing.trainings import differences_over_trainings
from nnunet_dro.evaluation.scoring.failures import BoolArray
from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.statistics.columns import GUARANTEED_DIFFERENCE, STATISTICS
from nnunet_dro.evaluation.statistics.intervals import difference_intervals, guaranteed_means
from nnunet_dro.evaluation.statistics.patients import CodeArray, patient_values
from nnunet_dro.evaluation.statistics.significance import holm, typical_value, wilcoxon_p
from nnunet_dro.evaluation.statistics.stratum_statistics import describe
from nnunet_dro.evaluation.stratifying.stratify import divide

#: The columns of the typical difference and its interval; see `typical_value`.
TYPICAL = ("typical_difference", "typical_difference_low", "typical_difference_high")

#: The columns of the comparison's table.
COLUMNS = (
    *("attribute", "stratum", "label", "metric", "baseline", "method", "n", "n_undefined"),
    *("n_left_out", "n_worst_baseline", "n_worst_method"),
    *(
        f"{statistic}_{what}"
        for statistic in STATISTICS
        for what in ("baseline", "method", "difference", "difference_low", "difference_high")
    ),
    *("wilcoxon_p", "holm_p", "wins", "ties", "losses"),
    *GUARANTEED_DIFFERENCE,
    *TYPICAL,
)

#: The further columns where methods have several trainings.
TRAINING_COLUMNS = (
    *("n_trainings_baseline", "n_trainings_method"),
    *(f"{statistic}_difference_{end}" for statistic in STATISTICS for end in ("lowest", "highest")),
)

_FloatArray = npt.NDArray[np.float64]

#: Metric to the name of a training to its values, shape (n_cases, n_labels).
Values = Mapping[str, Mapping[str, MethodValues]]


@dataclass(frozen=True, eq=False)
class _Pair:
    """What one row is about; the arrays of values and failures have a row per training, a column per case."""

    key: dict[str, Any]
    baseline: _FloatArray
    method: _FloatArray
    failed: tuple[BoolArray, BoolArray]
    patients: CodeArray

    @cached_property
    def defined(self) -> BoolArray:
        """The cases with a value in every training."""
        return np.asarray(~np.isnan(np.concatenate([self.baseline, self.method])).any(axis=0))

    @cached_property
    def values(self) -> tuple[_FloatArray, _FloatArray]:
        """The values that are compared, of the baseline and the method: of patients, in the defined cases."""
        codes = self.patients[self.defined]
        return patient_values(self.baseline[:, self.defined], codes), patient_values(
            self.method[:, self.defined], codes
        )


def comparison_table(
    values: Values,
    of_method: Mapping[str, Sequence[str]],
    ground: CommonGround,
    strata: "Mapping[str, pd.Series[str]]",
    patient_of_case: "pd.Series[str] | None",
    *,
    n_resamples: int,
    seed: int,
) -> pd.DataFrame:
    """The differences of every method from the first.

    Returns:
        `COLUMNS`, and after them `TRAINING_COLUMNS` where a method has several trainings; with patients ``n_patients``
        after ``n``.
    """
    pairs = list(_pairs(values, of_method, ground, strata, patient_of_case))
    options = {"n_resamples": n_resamples, "seed": seed}
    bounded = [is_bounded(str(pair.key["metric"])) for pair in pairs]
    repeated = any(len(names) > 1 for names in of_method.values())
    values_of = [pair.values for pair in pairs]
    if repeated:
        found = differences_over_trainings(values_of, bounded=bounded, **options)
        rows = [
            _counts(pair) | _spread(pair, found.baseline[n], found.method[n], found.lowest[n], found.highest[n])
            for n, pair in enumerate(pairs)
        ]
        bounds, guaranteed = found.bounds, found.guaranteed
    else:
        alone = [(before[0], after[0]) for before, after in values_of]
        changes = [after - before for before, after in alone]
        rows = [_counts(pair) | _of_cases(pair, with_interval=n_resamples > 0) for pair in pairs]
        bounds = difference_intervals(alone, bounded=bounded)
        guaranteed = guaranteed_means(changes, bounded=bounded, low=-1.0, **options)
    if not n_resamples:
        bounds, guaranteed = np.full_like(bounds, np.nan), np.full_like(guaranteed, np.nan)
    for row, of_row, of_mean in zip(rows, bounds, guaranteed, strict=True):
        for statistic, (low, high) in zip(STATISTICS, of_row, strict=True):
            row |= {f"{statistic}_difference_low": low, f"{statistic}_difference_high": high}
        row |= zip(GUARANTEED_DIFFERENCE, of_mean, strict=True)
    table: pd.DataFrame = pd.DataFrame(rows)
    table["holm_p"] = np.nan
    for _, family in table.groupby(["metric", "method"], sort=False):
        table.loc[family.index, "holm_p"] = holm(family["wilcoxon_p"].to_numpy(dtype=np.float64))
    columns = [*COLUMNS, *(TRAINING_COLUMNS if repeated else ())]
    if patient_of_case is not None:
        columns.insert(columns.index("n") + 1, "n_patients")
    return table[columns]


def trainings_table(
    values: Values,
    of_method: Mapping[str, Sequence[str]],
    ground: CommonGround,
    strata: "Mapping[str, pd.Series[str]]",
    patient_of_case: "pd.Series[str] | None",
) -> pd.DataFrame:
    """The statistics of every training, over the cases that the row of the comparison rests on.

    Returns:
        A row per row of the comparison and training: ``attribute``, ``stratum``, ``label``, ``metric``, ``baseline``,
        ``method`` (which two are compared), ``of`` (one of the two), ``training`` (its number, from 1), ``n`` and the
        statistics.
    """
    rows = []
    for pair in _pairs(values, of_method, ground, strata, patient_of_case):
        for which, of_which in zip(("baseline", "method"), pair.values, strict=True):
            for number, of_training in enumerate(of_which, 1):
                described = describe(of_training)
                key = pair.key | {"of": pair.key[which], "training": number, "n": int(pair.defined.sum())}
                rows.append(key | {name: described[name] for name in STATISTICS})
    table: pd.DataFrame = pd.DataFrame(rows)
    return table


def _pairs(
    values: Values,
    of_method: Mapping[str, Sequence[str]],
    ground: CommonGround,
    strata: "Mapping[str, pd.Series[str]]",
    patient_of_case: "pd.Series[str] | None",
) -> Iterator[_Pair]:
    """The rows of the table, in their order."""
    baseline, *others = of_method
    patients = np.arange(len(ground.cases)) if patient_of_case is None else pd.factorize(patient_of_case)[0]
    complete = {
        (metric, method): completed(of_metric, metric, among=(*of_method[baseline], *of_method[method]))
        for metric, of_metric in values.items()
        for method in others
    }
    for attribute, stratum_of_case in strata.items():
        codes, names = divide(stratum_of_case, ground.cases, attribute=attribute)
        for code, stratum in enumerate(names):
            inside = np.flatnonzero(codes == code)
            for position, label in enumerate(ground.labels):
                for (metric, method), filled in complete.items():
                    if not ground.reports(label, metric):
                        continue
                    key = {"attribute": attribute, "stratum": stratum, "label": label, "metric": metric}
                    key |= {"baseline": baseline, "method": method}
                    before, after = (
                        np.stack([filled[name][inside, position] for name in of_method[which]])
                        for which in (baseline, method)
                    )
                    failed = [
                        np.stack([values[metric][name].failed[inside, position] for name in of_method[which]])
                        for which in (baseline, method)
                    ]
                    yield _Pair(key, before, after, (failed[0], failed[1]), patients[inside])


def _counts(pair: _Pair) -> dict[str, Any]:
    """The key of a row, and its numbers of cases."""
    defined = pair.defined
    row = pair.key | {"n": len(defined), "n_undefined": int((~defined).sum()), "n_patients": pair.values[0].shape[1]}
    any_failed = np.concatenate(pair.failed).any(axis=0)
    row["n_left_out"] = int(np.count_nonzero(any_failed & ~defined))
    for which, failed in zip(("baseline", "method"), pair.failed, strict=True):
        row[f"n_worst_{which}"] = int(np.count_nonzero(failed[:, defined].any(axis=0)))
    return row


def _of_cases(pair: _Pair, *, with_interval: bool) -> dict[str, Any]:
    """The statistics and tests of one training of each method."""
    defined, metric = pair.defined, METRICS[pair.key["metric"]]
    baseline, method = (of_method[0] for of_method in pair.values)
    before, after = describe(baseline), describe(method)
    row: dict[str, Any] = {}
    for statistic in STATISTICS:
        row[f"{statistic}_baseline"], row[f"{statistic}_method"] = before[statistic], after[statistic]
        row[f"{statistic}_difference"] = after[statistic] - before[statistic]
    sign = 1.0 if metric.more_is_better else -1.0
    # A failure without a value has the largest rank, however bad the other method's value is.
    failed = [of_method[0, defined] for of_method in pair.failed]
    ranked = np.select(failed, [sign * np.inf, -sign * np.inf], 0.0)
    ranked = method - baseline + patient_values(ranked, pair.patients[defined])
    # A patient of whom either method failed a case has the difference of the values.
    ranked = np.where(np.isnan(ranked), method - baseline, ranked)
    ends = typical_value(method - baseline, with_interval=with_interval)
    row |= zip(TYPICAL, ends, strict=True)
    return row | {"wilcoxon_p": wilcoxon_p(ranked)} | _wins(sign * ranked)


def _spread(
    pair: _Pair, baseline: _FloatArray, method: _FloatArray, lowest: _FloatArray, highest: _FloatArray
) -> dict[str, Any]:
    """The statistics of several trainings: their means, and how far the differences lie apart."""
    row: dict[str, Any] = {"n_trainings_baseline": len(pair.baseline), "n_trainings_method": len(pair.method)}
    for n, statistic in enumerate(STATISTICS):
        row[f"{statistic}_baseline"], row[f"{statistic}_method"] = baseline[n], method[n]
        row[f"{statistic}_difference"] = method[n] - baseline[n]
        row |= {f"{statistic}_difference_lowest": lowest[n], f"{statistic}_difference_highest": highest[n]}
    sign = 1.0 if METRICS[pair.key["metric"]].more_is_better else -1.0
    before, after = pair.values
    nothing = dict.fromkeys(("wilcoxon_p", *TYPICAL), np.nan)
    return row | nothing | _wins(sign * (after.mean(axis=0) - before.mean(axis=0)))


def _wins(gains: _FloatArray) -> dict[str, int]:
    return {"wins": int((gains > 0).sum()), "ties": int((gains == 0).sum()), "losses": int((gains < 0).sum())}
