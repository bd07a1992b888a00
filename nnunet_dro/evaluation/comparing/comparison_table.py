"""The table of a comparison: a row per attribute, stratum, label, metric and method."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.comparing.one_sided import MethodValues, completed, method_values
from nnunet_dro.evaluation.comparing.trainings import (
    OF_STATISTIC,
    Trainings,
    differences_over_trainings,
)
from nnunet_dro.evaluation.scoring.failures import BoolArray
from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.statistics.columns import GUARANTEED_DIFFERENCE, STATISTICS
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
    *(f"{statistic}_{what}" for statistic in STATISTICS for what in OF_STATISTIC[:5]),
    *("wilcoxon_p", "holm_p", "wins", "ties", "losses"),
    *GUARANTEED_DIFFERENCE,
    *TYPICAL,
)

#: The further columns where methods have several trainings.
TRAINING_COLUMNS = (
    *("n_trainings_baseline", "n_trainings_method"),
    *(f"{statistic}_{what}" for statistic in STATISTICS for what in OF_STATISTIC[5:]),
)

_FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Compared:
    """The trainings of all methods, over the cases that they have in common."""

    trainings: Trainings
    ground: CommonGround
    strata: "Mapping[str, pd.Series[str]]"
    patient_of_case: "pd.Series[str] | None"

    @cached_property
    def values(self) -> dict[str, dict[str, MethodValues]]:
        """Metric to the name of a training to its values, shape (n_cases, n_labels)."""
        evaluations = self.trainings.evaluations.items()
        return {
            m: {name: method_values(one, self.ground, m) for name, one in evaluations}
            for m in self.ground.metrics
        }

    def filled(self, metric: str, *methods: str) -> dict[str, _FloatArray]:
        """The values of some methods' trainings, see `completed`."""
        names = [name for method in methods for name in self.trainings.of_method[method]]
        return completed(self.values[metric], metric, among=names)


@dataclass(frozen=True, eq=False)
class _Pair:
    """What one row is about.

    The arrays of values and failures have a row per training, a column per case.
    """

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
        """The values that are compared, of the baseline and the method.

        Of patients, in the defined cases.
        """
        baseline, method = (of[:, self.defined] for of in (self.baseline, self.method))
        codes = self.patients[self.defined]
        return patient_values(baseline, codes), patient_values(method, codes)


def comparison_table(compared: Compared, *, n_resamples: int, seed: int) -> pd.DataFrame:
    """The differences of every method from the first.

    `COLUMNS`, and `TRAINING_COLUMNS` where one has several.
    """
    pairs = list(_pairs(compared))
    repeated = compared.trainings.are_repeated
    counted: pd.DataFrame = pd.DataFrame(
        _counts(pair) | (_of_trainings(pair) if repeated else _of_cases(pair, n_resamples > 0))
        for pair in pairs
    )
    families = counted.groupby(["metric", "method"], sort=False)["wilcoxon_p"]
    counted["holm_p"] = families.transform(
        lambda p_values: holm(p_values.to_numpy(dtype=np.float64))
    )
    bounded = [is_bounded(str(pair.key["metric"])) for pair in pairs]
    values = [pair.values for pair in pairs]
    table = counted.join(
        differences_over_trainings(values, bounded=bounded, n_resamples=n_resamples, seed=seed)
    )
    columns = [*COLUMNS, *(TRAINING_COLUMNS if repeated else ())]
    if compared.patient_of_case is not None:
        columns.insert(columns.index("n") + 1, "n_patients")
    return table[columns]


def trainings_table(compared: Compared) -> pd.DataFrame:
    """The statistics of every training, over the cases that the row of the comparison rests on.

    A row per row of the comparison and training: ``of`` says which of the two methods it is of,
    ``training`` its number from 1, ``n`` how many cases have a value.
    """
    rows = []
    for pair in _pairs(compared):
        for which, of_which in zip(("baseline", "method"), pair.values, strict=True):
            for number, of_training in enumerate(of_which, 1):
                described = describe(of_training)
                key = pair.key | {
                    "of": pair.key[which],
                    "training": number,
                    "n": int(pair.defined.sum()),
                }
                rows.append(key | {name: described[name] for name in STATISTICS})
    return pd.DataFrame(rows)


def _pairs(compared: Compared) -> Iterator[_Pair]:
    """The rows of the table, in their order."""
    ground, (baseline, *others) = compared.ground, compared.trainings.of_method
    patients = np.arange(len(ground.cases))
    if compared.patient_of_case is not None:
        patients = pd.factorize(compared.patient_of_case)[0]
    complete = {
        (m, method): compared.filled(m, baseline, method)
        for m in ground.metrics
        for method in others
    }
    failed = {
        m: {name: one.failed for name, one in of_metric.items()}
        for m, of_metric in compared.values.items()
    }
    for attribute, stratum_of_case in compared.strata.items():
        codes, names = divide(stratum_of_case, ground.cases, attribute=attribute)
        for code, stratum in enumerate(names):
            inside = np.flatnonzero(codes == code)
            for position, label in enumerate(ground.labels):
                for (metric, method), filled in complete.items():
                    if not ground.reports(label, metric):
                        continue
                    key = {
                        "attribute": attribute,
                        "stratum": stratum,
                        "label": label,
                        "metric": metric,
                    }
                    key |= {"baseline": baseline, "method": method}
                    before, after, of_before, of_after = (
                        np.stack(
                            [
                                of[name][inside, position]
                                for name in compared.trainings.of_method[which]
                            ]
                        )
                        for of in (filled, failed[metric])
                        for which in (baseline, method)
                    )
                    yield _Pair(key, before, after, (of_before, of_after), patients[inside])


def _counts(pair: _Pair) -> dict[str, Any]:
    """The key of a row, and its numbers of cases."""
    defined = pair.defined
    row = pair.key | {
        "n": len(defined),
        "n_undefined": int((~defined).sum()),
        "n_patients": pair.values[0].shape[1],
    }
    any_failed = np.concatenate(pair.failed).any(axis=0)
    row["n_left_out"] = int(np.count_nonzero(any_failed & ~defined))
    for which, failed in zip(("baseline", "method"), pair.failed, strict=True):
        row[f"n_worst_{which}"] = int(np.count_nonzero(failed[:, defined].any(axis=0)))
    return row


def _of_cases(pair: _Pair, with_interval: bool) -> dict[str, Any]:
    """The tests of one training of each method, and the typical difference."""
    (baseline,), (method,) = pair.values
    sign = METRICS[pair.key["metric"]].sign
    # A failure without a value has the largest rank, however bad the other method's value is.
    failed = [of_method[0, pair.defined] for of_method in pair.failed]
    ranked = np.select(failed, [sign * np.inf, -sign * np.inf], 0.0)
    ranked = method - baseline + patient_values(ranked, pair.patients[pair.defined])
    # A patient of whom either method failed a case has the difference of the values.
    ranked = np.where(np.isnan(ranked), method - baseline, ranked)
    typical = dict(
        zip(TYPICAL, typical_value(method - baseline, with_interval=with_interval), strict=True)
    )
    return typical | {"wilcoxon_p": wilcoxon_p(ranked)} | _wins(sign * ranked)


def _of_trainings(pair: _Pair) -> dict[str, Any]:
    """Several trainings of each method, of which there is no test."""
    row: dict[str, Any] = {
        "n_trainings_baseline": len(pair.baseline),
        "n_trainings_method": len(pair.method),
    }
    sign = METRICS[pair.key["metric"]].sign
    before, after = pair.values
    nothing = dict.fromkeys(("wilcoxon_p", *TYPICAL), np.nan)
    return row | nothing | _wins(sign * (after.mean(axis=0) - before.mean(axis=0)))


def _wins(gains: _FloatArray) -> dict[str, int]:
    return {
        "wins": int((gains > 0).sum()),
        "ties": int((gains == 0).sum()),
        "losses": int((gains < 0).sum()),
    }
