"""The table of a comparison: a row per attribute, stratum, label, metric and method."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.common_ground import CommonGround
from nnunet_dro.evaluation.failures import BoolArray
from nnunet_dro.evaluation.intervals import difference_intervals
from nnunet_dro.evaluation.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.one_sided import MethodValues, completed
from nnunet_dro.evaluation.patients import CodeArray, patient_means
from nnunet_dro.evaluation.significance import holm, wilcoxon_p
from nnunet_dro.evaluation.statistics import STATISTICS
from nnunet_dro.evaluation.stratum_statistics import describe, divide
from nnunet_dro.evaluation.trainings import differences_over_trainings

#: The columns of the comparison's table.
COLUMNS = (
    *("attribute", "stratum", "label", "metric", "baseline", "method", "n", "n_undefined"),
    *("n_worst_baseline", "n_worst_method"),
    *(
        f"{statistic}_{what}"
        for statistic in STATISTICS
        for what in ("baseline", "method", "difference", "difference_low", "difference_high")
    ),
    *("wilcoxon_p", "holm_p", "wins", "ties", "losses"),
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

    @property
    def defined(self) -> BoolArray:
        """The cases with a value in every training."""
        return np.asarray(~np.isnan(np.concatenate([self.baseline, self.method])).any(axis=0))


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

    Args:
        values: The values of every training.
        of_method: Method, the baseline first, to the names of its trainings.
        ground: The cases, labels and metrics.
        strata: Attribute to the stratum of each case.
        patient_of_case: The patient of each case; None takes all cases for independent.
        n_resamples: Number of random draws for the intervals; 0 for none.
        seed: Random seed of the draws.

    Returns:
        `COLUMNS`, and after them `TRAINING_COLUMNS` where a method has several trainings.
    """
    pairs = list(_pairs(values, of_method, ground, strata, patient_of_case))
    options = {"n_resamples": n_resamples, "seed": seed}
    of_patients = None if patient_of_case is None else [pair.patients for pair in pairs]
    bounded = [is_bounded(str(pair.key["metric"])) for pair in pairs]
    repeated = any(len(names) > 1 for names in of_method.values())
    if repeated:
        samples = [(pair.baseline, pair.method) for pair in pairs]
        found = differences_over_trainings(samples, bounded=bounded, patients=of_patients, **options)
        rows = [
            _counts(pair) | _spread(pair, found.baseline[n], found.method[n], found.lowest[n], found.highest[n])
            for n, pair in enumerate(pairs)
        ]
        bounds = found.bounds
    else:
        alone = [(pair.baseline[0], pair.method[0]) for pair in pairs]
        rows = [_counts(pair) | _of_cases(pair) for pair in pairs]
        bounds = difference_intervals(alone, bounded=bounded, patients=of_patients, **options)
    for row, of_row in zip(rows, bounds, strict=True):
        for statistic, (low, high) in zip(STATISTICS, of_row, strict=True):
            row |= {f"{statistic}_difference_low": low, f"{statistic}_difference_high": high}
    table: pd.DataFrame = pd.DataFrame(rows)
    table["holm_p"] = np.nan
    for _, family in table.groupby(["metric", "method"], sort=False):
        table.loc[family.index, "holm_p"] = holm(family["wilcoxon_p"].to_numpy(dtype=np.float64))
    return table[[*COLUMNS, *(TRAINING_COLUMNS if repeated else ())]]


def trainings_table(
    values: Values,
    of_method: Mapping[str, Sequence[str]],
    ground: CommonGround,
    strata: "Mapping[str, pd.Series[str]]",
) -> pd.DataFrame:
    """The statistics of every training, over the cases that the row of the comparison rests on.

    Returns:
        A row per row of the comparison and training: ``attribute``, ``stratum``, ``label``, ``metric``, ``baseline``,
        ``method`` (which two are compared), ``of`` (one of the two), ``training`` (its number, from 1), ``n`` and the
        statistics.
    """
    rows = []
    for pair in _pairs(values, of_method, ground, strata, None):
        for which, of_which in (("baseline", pair.baseline), ("method", pair.method)):
            for number, of_training in enumerate(of_which[:, pair.defined], 1):
                described = describe(of_training)
                key = pair.key | {"of": pair.key[which], "training": number, "n": len(of_training)}
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
    row = pair.key | {"n": len(defined), "n_undefined": int((~defined).sum())}
    for which, failed in zip(("baseline", "method"), pair.failed, strict=True):
        row[f"n_worst_{which}"] = int(np.count_nonzero(failed[:, defined].any(axis=0)))
    return row


def _of_cases(pair: _Pair) -> dict[str, Any]:
    """The statistics and tests of one training of each method."""
    defined, metric = pair.defined, METRICS[pair.key["metric"]]
    baseline, method = pair.baseline[0, defined], pair.method[0, defined]
    before, after = describe(baseline), describe(method)
    row: dict[str, Any] = {}
    for statistic in STATISTICS:
        row[f"{statistic}_baseline"], row[f"{statistic}_method"] = before[statistic], after[statistic]
        row[f"{statistic}_difference"] = after[statistic] - before[statistic]
    sign = 1.0 if metric.more_is_better else -1.0
    # A failure without a value has the largest rank, however bad the other method's value is.
    failed = [of_method[0, defined] for of_method in pair.failed]
    differences = np.select(failed, [sign * np.inf, -sign * np.inf], method - baseline)
    p = wilcoxon_p(patient_means(differences, pair.patients[defined]))
    return row | {"wilcoxon_p": p} | _wins(sign * differences)


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
    gains = sign * (pair.method.mean(axis=0) - pair.baseline.mean(axis=0))[pair.defined]
    return row | {"wilcoxon_p": np.nan} | _wins(gains)


def _wins(gains: _FloatArray) -> dict[str, int]:
    return {"wins": int((gains > 0).sum()), "ties": int((gains == 0).sum()), "losses": int((gains < 0).sum())}
