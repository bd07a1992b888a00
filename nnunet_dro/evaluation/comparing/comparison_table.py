"""The table of a comparison: a row per attribute, stratum, label, metric and method."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray
from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.comparing.common_ground import CommonGround
from nnunet_dro.evaluation.comparing.one_sided import MethodValues, completed, method_values
from nnunet_dro.evaluation.comparing.trainings import Trainings, differences_over_trainings
from nnunet_dro.evaluation.scoring.metrics import METRICS, Metric, is_bounded
from nnunet_dro.evaluation.statistics.columns import (
    COMPARED,
    COMPARED_TRAININGS,
    GUARANTEED_DIFFERENCE,
    STATISTICS,
    TYPICAL,
)
from nnunet_dro.evaluation.statistics.patients import patient_values, worst_metric
from nnunet_dro.evaluation.statistics.significance import (
    holm,
    paired_differences,
    typical_value,
    wilcoxon_p,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import describe
from nnunet_dro.evaluation.stratifying.stratify import divide

#: The columns of the comparison's table.
COLUMNS = (
    "attribute",
    "stratum",
    "label",
    "metric",
    "baseline",
    "method",
    "n",
    "n_undefined",
    "n_left_out",
    "n_worst_baseline",
    "n_worst_method",
    *(f"{statistic}_{what}" for statistic in STATISTICS for what in COMPARED),
    "wilcoxon_p",
    "holm_p",
    "wins",
    "ties",
    "losses",
    *GUARANTEED_DIFFERENCE,
    *TYPICAL,
)

#: The further columns where methods have several trainings.
TRAINING_COLUMNS = (
    "n_trainings_baseline",
    "n_trainings_method",
    *(f"{statistic}_{what}" for statistic in STATISTICS for what in COMPARED_TRAININGS),
)


@dataclass(frozen=True, eq=False)
class Compared:
    """The trainings of all methods, over the cases that they have in common."""

    trainings: Trainings
    ground: CommonGround
    strata: "Mapping[str, pd.Series[str]]"
    patient_of_case: "pd.Series[str] | None"
    patient_score: PatientScore = PatientScore.MEAN

    @cached_property
    def values(self) -> dict[str, dict[str, MethodValues]]:
        """Metric to the name of a training to its values, shape (n_cases, n_labels)."""
        values: dict[str, dict[str, MethodValues]] = {}
        for metric in self.ground.metrics:
            values[metric] = {
                name: method_values(evaluation, self.ground, metric)
                for name, evaluation in self.trainings.evaluations.items()
            }
        return values

    def filled(self, metric: str, *methods: str) -> dict[str, FloatArray]:
        """The values of some methods' trainings, see `completed`."""
        names = [name for method in methods for name in self.trainings.names[method]]
        return completed(self.values[metric], metric, among=names)

    def places(
        self, strata: "Mapping[str, pd.Series[str]] | None" = None
    ) -> Iterator[tuple[dict[str, str], IndexArray, int]]:
        """Every attribute, stratum and label, with the numbers of its cases and of the label.

        Other strata may be given in place of those that are compared.
        """
        for attribute, stratum_of_case in (strata or self.strata).items():
            codes, names = divide(stratum_of_case, self.ground.cases, attribute=attribute)
            for code, stratum in enumerate(names):
                inside = np.flatnonzero(codes == code)
                for position, label in enumerate(self.ground.labels):
                    place = {"attribute": attribute, "stratum": stratum, "label": label}
                    yield place, inside, position


@dataclass(frozen=True, eq=False)
class _Pair:
    """A method and the baseline in one metric: what one row is about.

    The arrays of values and failures have a row per training, a column per case; before a stratum
    and a label are chosen, also an axis of labels between these.
    """

    key: dict[str, str]
    before: FloatArray  # the values of the baseline's trainings
    after: FloatArray  # the values of the method's trainings
    failed_before: BoolArray  # where a training of the baseline failed, and so has no value
    failed_after: BoolArray  # where a training of the method did
    patients: IndexArray | None  # the number of each case's patient, where patients count once
    patient_score: PatientScore

    def inside(self, place: dict[str, str], cases: IndexArray, label: int) -> "_Pair":
        """The row of a stratum and label, of these cases and of the label with this number."""
        patients = self.patients
        if patients is not None:
            patients = patients[cases]
        return replace(
            self,
            key=place | self.key,
            before=self.before[:, label].take(cases, axis=1),
            after=self.after[:, label].take(cases, axis=1),
            failed_before=self.failed_before[:, label].take(cases, axis=1),
            failed_after=self.failed_after[:, label].take(cases, axis=1),
            patients=patients,
        )

    @cached_property
    def defined(self) -> BoolArray:
        """The cases with a value in every training."""
        before = ~np.isnan(self.before).any(axis=0)
        after = ~np.isnan(self.after).any(axis=0)
        return np.asarray(before & after)

    @cached_property
    def values(self) -> tuple[FloatArray, FloatArray]:
        """The values that are compared, of the baseline and the method.

        They are those of patients, in the defined cases.
        """
        worst_by = worst_metric(self.key["metric"], self.patient_score)
        before = self.of_patients(self.before[:, self.defined], worst_by)
        return before, self.of_patients(self.after[:, self.defined], worst_by)

    def of_patients(self, values: FloatArray, worst_by: Metric | None = None) -> FloatArray:
        """What the patients of the defined cases have, of values of shape (..., n_defined)."""
        if self.patients is None:
            return values
        return patient_values(values, self.patients[self.defined], worst_by=worst_by)


def table_of_differences(compared: Compared, *, with_intervals: bool) -> pd.DataFrame:
    """The differences of every method from the first.

    `COLUMNS`, and `TRAINING_COLUMNS` where a method has several. With patients, ``n_patients``
    comes after ``n``.
    """
    are_repeated = compared.trainings.are_repeated
    rows = []
    values = []
    for pair in _pairs(compared):
        # Only the values of all pairs are in memory together: the pairs themselves hold more.
        values.append(pair.values)
        row: dict[str, Any] = {**pair.key, **_counts(pair)}
        if are_repeated:
            row |= _without_tests(pair)
        else:
            (before,), (after,) = pair.values
            ranked = _ranked(pair)
            row["wilcoxon_p"] = wilcoxon_p(ranked)
            typical = typical_value(after - before, with_interval=with_intervals)
            row |= dict(zip(TYPICAL, typical, strict=True)) | _wins(pair, ranked)
        rows.append(row)

    table: pd.DataFrame = pd.DataFrame(rows)
    families = table.groupby(["metric", "method"], sort=False)["wilcoxon_p"]
    table["holm_p"] = families.transform(lambda column: holm(column.to_numpy(dtype=np.float64)))
    differences = differences_over_trainings(
        values,
        bounded=[is_bounded(str(row["metric"])) for row in rows],
        with_intervals=with_intervals,
    )

    columns = list(COLUMNS)
    if are_repeated:
        columns += TRAINING_COLUMNS
    if compared.patient_of_case is not None:
        columns.insert(columns.index("n") + 1, "n_patients")
    return table.join(differences)[columns]


def trainings_table(compared: Compared) -> pd.DataFrame:
    """The statistics of every training, over the cases that the row of the comparison rests on.

    A row per row of the comparison and training: ``of`` says which of the two methods it is of,
    ``training`` its number from 1, ``n`` how many cases have a value.
    """
    rows = []
    for pair in _pairs(compared):
        n = int(pair.defined.sum())
        for which, values in zip(("baseline", "method"), pair.values, strict=True):
            for number, values_of_training in enumerate(values, 1):
                described = describe(values_of_training)
                place = {"of": pair.key[which], "training": number, "n": n}
                statistics = {name: described[name] for name in STATISTICS}
                rows.append(pair.key | place | statistics)
    return pd.DataFrame(rows)


def _pairs(compared: Compared) -> Iterator[_Pair]:
    """The rows of the table, in their order."""
    contrasts = list(_contrasts(compared))
    for place, cases, label in compared.places():
        for contrast in contrasts:
            if compared.ground.reports(place["label"], contrast.key["metric"]):
                yield contrast.inside(place, cases, label)


def _contrasts(compared: Compared) -> Iterator[_Pair]:
    """Every metric and method over all labels and cases, in the order of the table."""
    names = compared.trainings.names
    baseline, *others = names
    patients = None
    if compared.patient_of_case is not None:
        patients = pd.factorize(compared.patient_of_case)[0]

    for metric in compared.ground.metrics:
        values = compared.values[metric]
        for method in others:
            filled = compared.filled(metric, baseline, method)
            yield _Pair(
                {"metric": metric, "baseline": baseline, "method": method},
                before=np.array([filled[name].T for name in names[baseline]]),
                after=np.array([filled[name].T for name in names[method]]),
                failed_before=np.array([values[name].failed.T for name in names[baseline]]),
                failed_after=np.array([values[name].failed.T for name in names[method]]),
                patients=patients,
                patient_score=compared.patient_score,
            )


def _counts(pair: _Pair) -> dict[str, int]:
    """The numbers of cases and patients of a row."""
    defined = pair.defined
    any_failed = pair.failed_before.any(axis=0) | pair.failed_after.any(axis=0)
    worst_before = pair.failed_before[:, defined].any(axis=0)
    worst_after = pair.failed_after[:, defined].any(axis=0)
    return {
        "n": len(defined),
        "n_undefined": int(np.count_nonzero(~defined)),
        "n_patients": pair.values[0].shape[1],
        "n_left_out": int(np.count_nonzero(any_failed & ~defined)),
        "n_worst_baseline": int(np.count_nonzero(worst_before)),
        "n_worst_method": int(np.count_nonzero(worst_after)),
    }


def _ranked(pair: _Pair) -> FloatArray:
    """The differences of one training of each method, as their test ranks them."""
    (before,), (after,) = pair.values
    differences = paired_differences(before, after)

    # A failure without a value has the largest rank, however bad the other method's value is.
    gain = METRICS[pair.key["metric"]].sign * np.inf
    failed_before = pair.failed_before[0, pair.defined]
    failed_after = pair.failed_after[0, pair.defined]
    if not (failed_before.any() or failed_after.any()):
        return differences
    decided = pair.of_patients(np.select([failed_before, failed_after], [gain, -gain], 0.0))
    # Not so of a patient of whom both methods failed a case (NaN), or whose other cases weigh more.
    is_decided = np.sign(decided) * differences >= 0
    return np.where(is_decided, differences + decided, differences)


def _without_tests(pair: _Pair) -> dict[str, Any]:
    """Several trainings of each method, of which there is no test."""
    before, after = pair.values
    row: dict[str, Any] = dict.fromkeys((*TYPICAL, "wilcoxon_p"), np.nan)
    row["n_trainings_baseline"] = len(before)
    row["n_trainings_method"] = len(after)
    return row | _wins(pair, paired_differences(before.mean(axis=0), after.mean(axis=0)))


def _wins(pair: _Pair, differences: FloatArray) -> dict[str, int]:
    gains = METRICS[pair.key["metric"]].sign * differences
    return {
        "wins": int((gains > 0).sum()),
        "ties": int((gains == 0).sum()),
        "losses": int((gains < 0).sum()),
    }
