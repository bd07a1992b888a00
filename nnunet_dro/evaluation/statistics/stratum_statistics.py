"""Statistics per stratum, from rows of scores."""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.scoring.failures import (
    DEFAULT_FAILURE,
    BoolArray,
    Failure,
    failed_rows,
    most_failures,
)
from nnunet_dro.evaluation.scoring.instances import labels_with_lesions, lesion_metrics
from nnunet_dro.evaluation.scoring.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.statistics.columns import (
    COUNTS,
    GUARANTEED,
    INTERVALS,
    PERCENTILES,
    STATISTICS,
    confidence_column,
    enough_cases,
)
from nnunet_dro.evaluation.statistics.intervals import guaranteed_means, intervals, one_sided_bound
from nnunet_dro.evaluation.statistics.patients import patient_values
from nnunet_dro.evaluation.stratifying.stratify import ALL, divide
from nnunet_dro.naming import name_some


def describe(values: npt.NDArray[np.float64]) -> dict[str, float]:
    """``n``, ``n_undefined`` (NaN among them), and `STATISTICS` of the others.

    Std of n - 1, linear percentiles.
    """
    defined = np.sort(values[~np.isnan(values)])
    counts: dict[str, float] = {"n": len(values), "n_undefined": len(values) - len(defined)}
    if not len(defined):
        return counts | dict.fromkeys(STATISTICS, float("nan"))
    found = {name: _percentile(defined, percent) for name, percent in PERCENTILES.items()}
    found |= {
        "mean": float(defined.mean()),
        "std": float(defined.std(ddof=1)) if len(defined) > 1 else float("nan"),
    }
    found |= {
        "iqr": found["p75"] - found["p25"],
        "min": float(defined[0]),
        "max": float(defined[-1]),
    }
    return counts | {name: found[name] for name in STATISTICS}


def _percentile(ascending: npt.NDArray[np.float64], percent: float) -> float:
    """As numpy.percentile, which takes a hundred times as long for few values."""
    place = (len(ascending) - 1) * (percent / 100)
    below = int(place)
    low = float(ascending[below])
    high = float(ascending[min(below + 1, len(ascending) - 1)])
    share = place - below
    # From the nearer end: then the result never lies beyond the other one.
    return low + (high - low) * share if share < 0.5 else high - (high - low) * (1 - share)


def summarise(
    scores: pd.DataFrame,
    strata: "Mapping[str, pd.Series[str]] | None" = None,
    *,
    metrics: Sequence[str] = ("dice",),
    patient_of_case: "pd.Series[str] | None" = None,
    one_sided: Collection[tuple[str, str, float]] = (),
    failure: str = DEFAULT_FAILURE,
    n_resamples: int = 2000,
    seed: int = 0,
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
            with the mean of its cases: all statistics and bounds are those of the patients. None
            takes every case for another patient.
        one_sided: Exact one-sided bounds to add as last columns: the percentile, ``low`` or
            ``high``, and the confidence in per cent; see `confidence_column`.
        failure: When a case has failed; see `Failure`.
        n_resamples: Number of random draws for the bounds of means for verdicts; 0 makes all
            intervals NaN.
        seed: Random seed of the draws, >= 0.

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
            label, or a case has no stratum.

    Example:
        >>> scores = pd.DataFrame({"case": ["a", "b", "c"], "label": "liver", "dice": [0.5, 0.75, 1.0]})
        >>> centre_of_case = pd.Series(["A", "A", "B"], index=["a", "b", "c"])
        >>> table = summarise(scores, {"centre": centre_of_case}, n_resamples=0)
        >>> table[["stratum", "n", "mean"]].to_dict("records")
        [{'stratum': 'A', 'n': 2, 'mean': 0.625}, {'stratum': 'B', 'n': 1, 'mean': 1.0}]
    """
    _check_scores(scores, metrics)
    cases: list[str] = scores["case"].unique().tolist()
    groups = list(_groups(scores, strata or {ALL: pd.Series(ALL, index=cases)}, cases))
    values = {metric: scores[metric].to_numpy(dtype=np.float64) for metric in metrics}
    patient_of_row = None
    if patient_of_case is not None:
        patient_of_row = pd.factorize(patient_of_case.reindex(pd.Index(scores["case"])))[0]
    on_lesions = set(lesion_metrics(metrics))
    with_lesions = set(labels_with_lesions(scores))
    places = [
        (key | {"metric": metric}, inside)
        for key, inside in groups
        for metric in metrics
        if metric not in on_lesions or key["label"] in with_lesions
    ]
    failed = {metric: failed_rows(scores, metric) for metric in metrics}
    rows, samples = _described(places, values, patient_of_row, failed, Failure.of(failure))
    bounded = [is_bounded(str(key["metric"])) for key, _ in places]
    counts = [COUNTS[0], *(["n_patients"] if patient_of_row is not None else []), *COUNTS[1:]]
    columns = ["attribute", "stratum", "label", "metric", *counts, *STATISTICS]
    table: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    bounds = np.full((len(rows), len(INTERVALS) + len(GUARANTEED)), np.nan)
    if n_resamples:
        bounds[:, : len(INTERVALS)] = intervals(samples, bounded=bounded).reshape(len(rows), -1)
        guaranteed = guaranteed_means(samples, bounded=bounded, n_resamples=n_resamples, seed=seed)
        n_counted = pd.DataFrame(rows, columns=["n_counted"]).to_numpy(dtype=np.float64)[:, 0]
        of_failures = most_failures(table["n_failed"].to_numpy(dtype=np.float64), n_counted)
        bounds[:, len(INTERVALS) :] = np.column_stack([guaranteed, of_failures])
    table = table.join(pd.DataFrame(bounds, columns=[*INTERVALS, *GUARANTEED]))
    for statistic, end, confidence in one_sided:
        percent = PERCENTILES[statistic]
        table[confidence_column(statistic, end, confidence)] = [
            one_sided_bound(sample, percent, end=end, confidence=confidence) for sample in samples
        ]
    return table


def _groups(
    scores: pd.DataFrame, strata: "Mapping[str, pd.Series[str]]", cases: Sequence[str]
) -> Iterator[tuple[dict[str, object], npt.NDArray[np.intp]]]:
    """Attribute, stratum and label, and the rows of ``scores`` that belong there, in the order of the table."""
    case_of_row = pd.Index(cases).get_indexer(pd.Index(scores["case"]))
    label_of_row, labels = pd.factorize(scores["label"])
    for attribute, stratum_of_case in strata.items():
        codes, names = divide(stratum_of_case, cases, attribute=attribute)
        group_of_row = codes[case_of_row] * len(labels) + label_of_row
        # Sorted once and cut, instead of searched once per stratum and label.
        order = np.argsort(group_of_row, kind="stable")
        ends = np.searchsorted(
            group_of_row[order], np.arange(len(names) * len(labels)), side="right"
        )
        for group, inside in enumerate(np.split(order, ends[:-1])):
            stratum = names[group // len(labels)]
            label = labels[group % len(labels)]
            yield {"attribute": attribute, "stratum": stratum, "label": label}, inside


def _described(
    places: "Sequence[tuple[dict[str, object], npt.NDArray[np.intp]]]",
    values: Mapping[str, npt.NDArray[np.float64]],
    patient_of_row: npt.NDArray[np.intp] | None,
    failed_of: Mapping[str, Mapping[str, BoolArray] | None],
    failure: Failure,
) -> tuple[list[dict[str, object]], list[npt.NDArray[np.float64]]]:
    """The rows of the table without bounds, with how many can fail (``n_counted``), and the values they rest on."""
    rows: list[dict[str, object]] = []
    samples = []
    for key, inside in places:
        of_cases = values[str(key["metric"])][inside]
        failed = failed_of[str(key["metric"])]
        here = {kind: of_kind[inside] for kind, of_kind in failed.items()} if failed else None
        codes = None if patient_of_row is None else patient_of_row[inside]
        sample = of_cases if codes is None else patient_values(of_cases, codes)
        counts: dict[str, float] = {"n": len(inside), "n_undefined": int(np.isnan(of_cases).sum())}
        counts |= {
            f"n_{kind}": int(np.count_nonzero(of_kind)) for kind, of_kind in (here or {}).items()
        }
        counts |= {"n_patients": int(np.count_nonzero(~np.isnan(sample)))}
        if key["metric"] == failure.metric:
            bad = failure.of_cases(of_cases, here)
            bad = bad if codes is None else patient_values(bad, codes)
            counts |= {
                "n_failed": int(np.count_nonzero(bad > 0)),
                "n_counted": int(np.count_nonzero(~np.isnan(bad))),
            }
        rows.append(key | describe(sample) | counts)
        samples.append(sample)
    return rows, samples


def _check_scores(scores: pd.DataFrame, metrics: Sequence[str]) -> None:
    for metric in metrics:
        if metric not in scores.columns:
            raise ValueError(
                f"`metrics` must be columns of the scores, got {metric!r}. Compute it first."
            )
        if (infinite := np.isinf(scores[metric].to_numpy(dtype=np.float64))).any():
            case, label = scores.loc[infinite, ["case", "label"]].iloc[0]
            cure = "Make it NaN if it is undefined."
            raise ValueError(
                f"`{metric}` must be finite or NaN, got an infinite value for {case!r}, {label!r}. {cure}"
            )
    if (twice := scores.duplicated(["case", "label"]).to_numpy()).any():
        case, label = scores.loc[twice, ["case", "label"]].iloc[0]
        cure = "Remove one, or summarise the methods one by one."
        raise ValueError(
            f"`scores` must have one row per case and label, got two for {case!r}, {label!r}. {cure}"
        )


def worst_strata(strata: pd.DataFrame, *, reference: str | None = None) -> pd.DataFrame:
    """The worst and the best stratum of each attribute, label and metric, and the gap between them.

    Args:
        strata: From `summarise`.
        reference: A stratum to compare with in place of the best, in the attributes that have it.

    Returns:
        Rows in the order of ``strata``, for the mean and for the metric's `Metric.tail`:
        ``attribute``, ``label``, ``metric``, ``statistic``, ``worst_stratum``, ``worst``,
        ``best_stratum``, ``best``, and ``gap``, by how much the best is better, of signed errors
        nearer to 0 (negative if even the worst of the others is better than the reference).
        ``gap_low`` and ``gap_high`` reach from bound to bound of the two strata, NaN where one is
        missing; they hold for two strata that are chosen beforehand, and the largest of several
        gaps is biased upwards. Of equal strata the first is named. Strata without a value are left
        out, and so are rows without any stratum.
    """
    rows = []
    for (attribute, label, metric), group in strata.groupby(
        ["attribute", "label", "metric"], sort=False
    ):
        names = group["stratum"].tolist()
        known = METRICS[str(metric)]
        for statistic in dict.fromkeys(("mean", known.tail)):
            values = group[statistic].to_numpy(dtype=np.float64)
            if np.isnan(values).all():
                continue
            goodness = known.goodness(values)
            best = int(np.nanargmax(goodness))
            if reference in names and not np.isnan(values[names.index(reference)]):
                best = names.index(reference)
            is_other = (np.arange(len(values)) != best) | (names[best] != reference)
            others = np.where(is_other, goodness, np.nan)
            worst = int(np.nanargmin(others)) if not np.isnan(others).all() else best
            key = {"attribute": attribute, "label": label, "metric": metric, "statistic": statistic}
            found = {"worst_stratum": names[worst], "worst": values[worst]}
            found |= {
                "best_stratum": names[best],
                "best": values[best],
                "gap": goodness[best] - goodness[worst],
            }
            bounds = group.reindex(columns=[f"{statistic}_low", f"{statistic}_high"]).to_numpy(
                dtype=np.float64
            )
            more, less = (best, worst) if known.more_is_better else (worst, best)
            has_bounds = worst != best and not known.is_signed
            gap = bounds[more] - bounds[less][::-1] if has_bounds else (np.nan, np.nan)
            rows.append(key | found | {"gap_low": gap[0], "gap_high": gap[1]})
    columns = [
        "attribute",
        "label",
        "metric",
        "statistic",
        "worst_stratum",
        "worst",
        "best_stratum",
        "best",
    ]
    columns += ["gap", "gap_low", "gap_high"]
    return pd.DataFrame(rows, columns=columns)


def false_positives(scores: pd.DataFrame) -> pd.DataFrame:
    """Predictions of a label that the reference lacks: Dice is 0 there, however small they are.

    A row per label (in the order of ``scores``): ``label``, ``n_empty_references``,
    ``n_false_positives`` (those of them with a prediction), ``mean_ml`` and ``max_ml`` (of the
    false positives; NaN without any or where no volume is known) and ``max_case`` (the case of the
    largest, in voxels where no volume is known; empty without any).
    """
    rows = []
    for label, of_label in scores.groupby("label", sort=False):
        empty = of_label[of_label["n_reference"] == 0]
        found = empty[empty["n_prediction"] > 0]
        volumes = found["prediction_ml"].astype(float)
        sizes = found["n_prediction"] if volumes.isna().all() else volumes
        largest = str(found.loc[sizes.idxmax(), "case"]) if len(found) else ""
        rows.append((label, len(empty), len(found), volumes.mean(), volumes.max(), largest))
    columns = ["label", "n_empty_references", "n_false_positives", "mean_ml", "max_ml", "max_case"]
    return pd.DataFrame(rows, columns=columns)


def n_values(table: pd.DataFrame) -> "pd.Series[int]":
    """How many values the statistics of each row rest on.

    Cases with a value, or patients where they count once.
    """
    return table["n_patients"] if "n_patients" in table else table["n"] - table["n_undefined"]


def percentile_notes(strata: pd.DataFrame) -> list[str]:
    """A sentence per attribute and percentile (p75, p25 and iqr are one) on the strata with too few cases for it."""
    n_defined = n_values(strata)
    fewest = (
        n_defined[n_defined > 0].groupby([strata["attribute"], strata["stratum"]], sort=False).min()
    )
    notes = []
    for attribute in fewest.index.unique(0):
        for names, statistic in (
            ("p75, p25 and iqr are", "p25"),
            ("p10 is", "p10"),
            ("p5 is", "p5"),
        ):
            few = [
                f"{s} ({n})"
                for s, n in fewest[attribute].items()
                if not enough_cases(statistic, int(n))
            ]
            if few:
                where = "" if attribute == ALL else f" of {attribute}"
                rule = f"with fewer than {STATISTICS[statistic].n_needed} cases no case lies beyond"
                notes.append(f"{names} uncertain in {name_some(few)}{where}: {rule}.")
    return notes
