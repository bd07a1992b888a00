"""Cases that fail with one method and not with the other: new failures first, and recoveries."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray
from nnunet_dro.evaluation.comparing.comparison_table import Compared
from nnunet_dro.evaluation.scoring.failures import Failure, most_failures, most_failures_added
from nnunet_dro.evaluation.statistics.columns import FAILURE_BOUNDS
from nnunet_dro.evaluation.statistics.patients import patient_values
from nnunet_dro.evaluation.statistics.significance import mcnemar_p

#: The columns of `Comparison.table` on failures; empty for other metrics than that of the failure.
COLUMNS = (
    "n_counted",
    "n_failed_baseline",
    "n_failed_method",
    "n_failed_difference",
    "new_failures",
    "recoveries",
    "mcnemar_p",
    *FAILURE_BOUNDS,
)

NEW_FAILURE = "new failure"
RECOVERY = "recovery"
STILL_FAILS = "fails with both"

#: The columns of `Comparison.failures`; with patients, ``patient`` stands in place of ``case``.
NAMED_COLUMNS = (
    "attribute",
    "stratum",
    "label",
    "method",
    "case",
    "change",
)


@dataclass(frozen=True, eq=False)
class ChangedFailures:
    """What fails with a method and with the baseline, in one stratum and label."""

    key: dict[str, str]  # the columns of the comparison's table from ``attribute`` to ``method``
    #: Whether each case that counts fails in each training, shape (n_trainings, n_counted); of
    #: patients, whether any of their cases does.
    before: BoolArray
    after: BoolArray
    names: npt.NDArray[np.object_]  # the cases or patients that count

    @property
    def is_new(self) -> BoolArray:
        """Which cases fail with the method only."""
        return np.asarray(self.after[0] & ~self.before[0])

    @property
    def is_recovered(self) -> BoolArray:
        """Which cases fail with the baseline only."""
        return np.asarray(self.before[0] & ~self.after[0])

    @property
    def are_repeated(self) -> bool:
        """Whether a method has several trainings, of which cases are no pairs."""
        return len(self.before) > 1 or len(self.after) > 1

    @property
    def counts(self) -> dict[str, float]:
        """`COLUMNS`; of several trainings, only how many fail in all of them together."""
        counts = dict.fromkeys(COLUMNS, float("nan"))
        counts["n_counted"] = len(self.names)
        counts["n_failed_baseline"] = int(self.before.sum())
        counts["n_failed_method"] = int(self.after.sum())
        if len(self.before) == len(self.after):
            counts["n_failed_difference"] = int(self.after.sum()) - int(self.before.sum())
        if self.are_repeated:
            return counts

        n_new = int(self.is_new.sum())
        n_recovered = int(self.is_recovered.sum())
        counts["new_failures"] = n_new
        counts["recoveries"] = n_recovered
        if len(self.names):
            counts["mcnemar_p"] = mcnemar_p(n_new, n_recovered)
        counts["new_failures_high"] = float(most_failures(n_new, len(self.names)))
        counts["failure_difference_high"] = most_failures_added(
            n_new,
            n_recovered,
            len(self.names),
        )
        return counts

    def named(self) -> Iterator[dict[str, str]]:
        """A row with `NAMED_COLUMNS` per failure, the new ones first."""
        if self.are_repeated:
            return
        changes = {
            NEW_FAILURE: self.is_new,
            RECOVERY: self.is_recovered,
            STILL_FAILS: self.before[0] & self.after[0],
        }
        place = {name: self.key[name] for name in ("attribute", "stratum", "label", "method")}
        for change, is_meant in changes.items():
            for name in self.names[is_meant]:
                yield {**place, "case": str(name), "change": change}


def changed_failures(
    compared: Compared,
    failure: Failure,
    strata: "Mapping[str, pd.Series[str]] | None" = None,
) -> list[ChangedFailures]:
    """The failures of every stratum, label and method against those of the baseline.

    Other strata may be given in place of those that are compared.

    A label that one method rightly left out, and another one invented, has not failed with the
    former. Cases whose failure is not known of every training do not count. There are none where
    the metric of the failure is not compared.
    """
    if failure.metric not in compared.ground.metrics:
        return []

    baseline, *others = compared.trainings.names
    failed = {method: _failed(compared, failure, baseline, method) for method in others}
    units = np.asarray(compared.ground.cases, dtype=object)
    if compared.patient_of_case is not None:
        units = compared.patient_of_case.to_numpy(dtype=object)

    changes = []
    for place, inside, position in compared.places(strata):
        if not compared.ground.reports(place["label"], failure.metric):
            continue
        for method, (before, after) in failed.items():
            key = place | {"metric": failure.metric, "baseline": baseline, "method": method}
            change = _of_units(
                key,
                before[:, inside, position],
                after[:, inside, position],
                units[inside],
                have_patients=compared.patient_of_case is not None,
            )
            changes.append(change)
    return changes


def _failed(
    compared: Compared, failure: Failure, baseline: str, method: str
) -> tuple[FloatArray, FloatArray]:
    """Which cases fail in each training of both methods: 1, 0, or NaN where it is not known.

    Shape (n_trainings, n_cases, n_labels).
    """
    values = compared.values[failure.metric]
    names = compared.trainings.names
    before = [values[name] for name in names[baseline]]
    after = [values[name] for name in names[method]]
    failed = np.stack(
        [
            failure.of_cases(training.values, {"left_out": training.failed})
            for training in (*before, *after)
        ]
    )

    # Where both rightly left out the label there is nothing to fail in.
    right = np.stack([training.right for training in (*before, *after)])
    is_known_of_some = ~np.isnan(failed).all(axis=0)
    failed = np.where(np.isnan(failed) & right & is_known_of_some, 0.0, failed)
    return failed[: len(before)], failed[len(before) :]


def _of_units(
    key: dict[str, str],
    before: FloatArray,
    after: FloatArray,
    units: npt.NDArray[np.object_],
    *,
    have_patients: bool,
) -> ChangedFailures:
    """The failures of the cases, or patients, that count in a stratum and label."""
    both = np.concatenate([before, after])
    is_counted = ~np.isnan(both).any(axis=0)
    names = units[is_counted]
    values = both[:, is_counted]
    if have_patients:
        codes: IndexArray
        codes, names = pd.factorize(names)
        values = patient_values(values, codes)
    failed = values > 0
    return ChangedFailures(
        key,
        before=failed[: len(before)],
        after=failed[len(before) :],
        names=np.asarray(names, dtype=object),
    )


def with_failures(table: pd.DataFrame, changes: list[ChangedFailures]) -> pd.DataFrame:
    """The comparison's table with `COLUMNS` as last columns."""
    keys = ["attribute", "stratum", "label", "metric", "baseline", "method"]
    rows = [change.key | change.counts for change in changes]
    counts: pd.DataFrame = pd.DataFrame(rows, columns=[*keys, *COLUMNS])
    return table.merge(counts.astype(dict.fromkeys(COLUMNS, float)), how="left", on=keys)


def named_failures(compared: Compared, changes: list[ChangedFailures]) -> pd.DataFrame:
    """Every failure by its name; see `Comparison.failures`."""
    rows: list[dict[str, str]] = []
    for change in changes:
        rows += change.named()

    failures: pd.DataFrame = pd.DataFrame(rows, columns=list(NAMED_COLUMNS))
    if compared.patient_of_case is not None:
        failures = failures.rename(columns={"case": "patient"})
    return failures
