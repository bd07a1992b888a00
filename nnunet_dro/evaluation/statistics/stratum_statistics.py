"""Statistics per stratum, from rows of scores."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.bad_input import InputError
from nnunet_dro.choices import PatientScore
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE, Failure, most_failures
from nnunet_dro.evaluation.scoring.metrics import is_bounded
from nnunet_dro.evaluation.statistics.columns import (
    COUNTS,
    GUARANTEED,
    INTERVALS,
    PERCENTILES,
    STATISTICS,
    confidence_column,
    enough_cases,
    unit_of,
)
from nnunet_dro.evaluation.statistics.intervals import (
    guaranteed_means,
    intervals,
    not_inside,
    one_sided_bound,
)
from nnunet_dro.evaluation.statistics.samples import Sample, samples_of
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import name_some

#: The percentiles that are uncertain together, by the one that stands for them.
_UNCERTAIN = {"p25": "p75, p25 and iqr are", "p10": "p10 is", "p5": "p5 is"}


def describe(values: FloatArray) -> dict[str, float]:
    """``n``, ``n_undefined`` (how many of the n are NaN), and `STATISTICS` of the others.

    ``std`` is the sample standard deviation (n - 1; NaN for a single value), percentiles
    interpolate linearly. All are NaN without any value.
    """
    defined = np.sort(values[~np.isnan(values)])
    counts: dict[str, float] = {
        "n": len(values),
        "n_undefined": len(values) - len(defined),
    }
    if not len(defined):
        return counts | dict.fromkeys(STATISTICS, float("nan"))

    statistics = {name: float(percentile(defined, p)) for name, p in PERCENTILES.items()}
    statistics["iqr"] = statistics["p75"] - statistics["p25"]
    statistics["mean"] = float(defined.mean())
    statistics["std"] = float("nan")
    if len(defined) > 1:
        statistics["std"] = float(defined.std(ddof=1))
    statistics["min"] = float(defined[0])
    statistics["max"] = float(defined[-1])
    return counts | {name: statistics[name] for name in STATISTICS}


def percentile(
    ascending: npt.NDArray[Any], percent: float, *, values: FloatArray | None = None
) -> FloatArray:
    """As numpy.percentile of ascending values, shape (..., n).

    With sorting, it takes a quarter of the time, and a hundredth for few values. Where the
    ``values`` are given, the ascending numbers are places among them.
    """
    last = ascending.shape[-1] - 1
    place = last * (percent / 100)
    below = int(place)
    low = ascending.T[below]
    high = ascending.T[min(below + 1, last)]
    if values is not None:
        low = values[low]
        high = values[high]

    # From the nearer end: then the result never lies beyond the other one.
    share = place - below
    if share < 0.5:
        return low + (high - low) * share
    return high - (high - low) * (1 - share)


def summarise(
    scores: pd.DataFrame,
    strata: "Mapping[str, pd.Series[str]] | None" = None,
    *,
    metrics: Sequence[str] = ("dice",),
    patient_of_case: "pd.Series[str] | None" = None,
    patient_score: PatientScore = PatientScore.MEAN,
    one_sided: Collection[tuple[str, str, float]] = (),
    failure: str = DEFAULT_FAILURE,
    n_resamples: int = 2000,
) -> pd.DataFrame:
    """Statistics per attribute, stratum, label and metric, with their 95 % intervals.

    Args:
        scores: A row per case and label: ``case``, ``label`` and a column per metric; NaN is
            undefined. Metrics on lesions are described for the labels that have
            ``lesions_reference``.
        strata: Attribute to the stratum of each case (a series indexed by case; cases that are not
            in ``scores`` are ignored). None makes all cases one stratum, whose attribute and name
            are ``all``.
        metrics: Columns of ``scores``.
        patient_of_case: The patient of each case (indexed by case). Every patient then counts once,
            with what its cases score: all statistics and bounds are those of the patients. None
            takes every case for another patient.
        patient_score: What a patient scores: the mean of its cases, or the worst of them.
        one_sided: Exact one-sided bounds to add as last columns: the percentile, ``low`` or
            ``high``, and the confidence in per cent; see `confidence_column`.
        failure: When a case has failed; see `Failure`.
        n_resamples: 0 makes all intervals and bounds NaN. No other number has an effect: nothing is
            drawn.

    Returns:
        A row per attribute, stratum (in the order of its categories; text in natural order,
        ``missing`` last), label (in the order of ``scores``) and metric, with the columns
        ``attribute``, ``stratum``, ``label``, ``metric``, `COUNTS`, `STATISTICS`, `INTERVALS` and
        `GUARANTEED`; fractions, or mm. Where there are patients, ``n_patients``, those with a
        value, follows ``n``.

        ``n_missed`` and ``n_invented`` are the cases of the stratum whose label was missed or
        invented (for metrics on lesions, by the lesions that are counted; NaN where ``scores`` have
        no `size_columns`), and ``n_left_out`` those of them without a value, which the statistics
        leave out. ``n_failed`` are the cases (or patients, with any such case) that failed, those
        left out among them, and ``failure_high`` the upper bound of their share; NaN for other
        metrics than that of ``failure``. The other intervals are those of the defined values; see
        `intervals`.

    Raises:
        ValueError: If a metric is not in ``scores``, a value is infinite, a case has two rows of a
            label, or a case has no stratum or, where patients are given, no patient.

    Example:
        >>> scores = pd.DataFrame(
        ...     {"case": ["a", "b", "c"], "label": "liver", "dice": [0.5, 0.75, 1.0]}
        ... )
        >>> centre_of_case = pd.Series(["A", "A", "B"], index=["a", "b", "c"])
        >>> table = summarise(scores, {"centre": centre_of_case}, n_resamples=0)
        >>> table[["stratum", "n", "mean"]].to_dict("records")
        [{'stratum': 'A', 'n': 2, 'mean': 0.625}, {'stratum': 'B', 'n': 1, 'mean': 1.0}]
    """
    _check_scores(scores, metrics)
    samples = list(
        samples_of(
            scores,
            strata,
            metrics,
            patient_of_case=patient_of_case,
            patient_score=patient_score,
            failure=Failure.of(failure),
        )
    )

    rows: list[dict[str, Any]] = [
        {**sample.key, **describe(sample.values), **sample.counts} for sample in samples
    ]
    counts = list(COUNTS)
    if patient_of_case is not None:
        counts.insert(1, "n_patients")
    columns = ["attribute", "stratum", "label", "metric", *counts, *STATISTICS]
    table: pd.DataFrame = pd.DataFrame(rows, columns=columns)

    bounds = _bounds(samples, with_intervals=n_resamples > 0)
    table = table.join(pd.DataFrame(bounds, columns=[*INTERVALS, *GUARANTEED]))

    for statistic, end, confidence in one_sided:
        percent = PERCENTILES[statistic]
        table[confidence_column(statistic, end, confidence)] = [
            one_sided_bound(
                sample.values,
                percent,
                end=end,
                confidence=confidence,
            )
            for sample in samples
        ]

    return table


def _bounds(samples: Sequence[Sample], *, with_intervals: bool) -> FloatArray:
    """`INTERVALS` and `GUARANTEED` of each sample."""
    if not with_intervals:
        n_bounds = len(INTERVALS) + len(GUARANTEED)
        return np.full((len(samples), n_bounds), np.nan)

    values = [sample.values for sample in samples]
    bounded = [is_bounded(sample.key["metric"]) for sample in samples]
    to_read = intervals(values, bounded=bounded)
    mean_to_read = to_read[:, list(STATISTICS).index("mean")]
    means = not_inside(guaranteed_means(values, bounded=bounded), mean_to_read)

    n_failed = [sample.counts.get("n_failed", np.nan) for sample in samples]
    n_counted = [sample.counts.get("n_counted", np.nan) for sample in samples]
    shares = most_failures(np.array(n_failed), np.array(n_counted))
    return np.column_stack([to_read.reshape(len(samples), len(INTERVALS)), means, shares])


def _check_scores(scores: pd.DataFrame, metrics: Sequence[str]) -> None:
    for metric in metrics:
        if metric not in scores.columns:
            raise ValueError(
                f"`metrics` must be columns of the scores, got {metric!r}. Compute it first."
            )

        infinite = np.isinf(scores[metric].to_numpy(dtype=np.float64))
        if infinite.any():
            case, label = scores.loc[infinite, ["case", "label"]].iloc[0]
            raise ValueError(
                f"`{metric}` must be finite or NaN, got an infinite value for {case!r}, "
                f"{label!r}. Make it NaN if it is undefined."
            )

    check_rows(scores, cure="Remove one, or summarise the methods one by one.")


def check_rows(scores: pd.DataFrame, *, cure: str) -> None:
    """Check that there is one row per case and label."""
    is_repeated = scores.duplicated(["case", "label"]).to_numpy()
    if is_repeated.any():
        case, label = scores.loc[is_repeated, ["case", "label"]].iloc[0]
        raise InputError(
            "scores",
            must="have one row per case and label",
            got=f"two for {case!r}, {label!r}",
            cure=cure,
        )


def false_positives(scores: pd.DataFrame) -> pd.DataFrame:
    """Predictions of a label that the reference lacks: Dice is 0 there, however small they are.

    A row per label (in the order of ``scores``): ``label``, ``n_empty_references``,
    ``n_false_positives`` (those of them with a prediction), ``mean_ml`` and ``max_ml`` (of the
    false positives; NaN without any or where no volume is known) and ``max_case`` (the case of the
    largest, in voxels where no volume is known; empty without any).
    """
    rows = []
    for label, rows_of_label in scores.groupby("label", sort=False):
        without_reference = rows_of_label[rows_of_label["n_reference"] == 0]
        positives = without_reference[without_reference["n_prediction"] > 0]
        volumes = positives["prediction_ml"].astype(float)
        sizes = positives["n_prediction"] if volumes.isna().all() else volumes
        row = {
            "label": label,
            "n_empty_references": len(without_reference),
            "n_false_positives": len(positives),
            "mean_ml": volumes.mean(),
            "max_ml": volumes.max(),
            "max_case": "",
        }
        if len(positives):
            row["max_case"] = str(positives.loc[sizes.idxmax(), "case"])
        rows.append(row)

    columns = ["label", "n_empty_references", "n_false_positives", "mean_ml", "max_ml", "max_case"]
    return pd.DataFrame(rows, columns=columns)


def n_values(table: pd.DataFrame) -> "pd.Series[int]":
    """How many values the statistics of each row rest on.

    Cases with a value, or patients where they count once.
    """
    if "n_patients" in table:
        return table["n_patients"]
    return table["n"] - table["n_undefined"]


def percentile_notes(strata: pd.DataFrame) -> list[str]:
    """A sentence per attribute and percentile on the strata with too few cases for it.

    How many they have is that of the label and metric with the fewest, but at least one. P75, p25
    and iqr are one.
    """
    n_of_rows = n_values(strata)
    n_of_rows = n_of_rows[n_of_rows > 0]
    fewest = n_of_rows.groupby([strata["attribute"], strata["stratum"]], sort=False).min()
    unit = unit_of(strata)

    notes = []
    for attribute in fewest.index.unique(0):
        where = "" if attribute == ALL else f" of {attribute}"
        for statistic, subject in _UNCERTAIN.items():
            few = [
                f"{stratum} ({n})"
                for stratum, n in fewest[attribute].items()
                if not enough_cases(statistic, int(n))
            ]
            if few:
                n_needed = STATISTICS[statistic].n_needed
                rule = f"with fewer than {n_needed} {unit}s none lies beyond it"
                notes.append(f"{subject} uncertain in {name_some(few)}{where}: {rule}.")

    return notes
