"""Two or more methods on the same cases: paired differences, how sure they are, and which cases changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.common_ground import CommonGround, find_common_ground, find_common_strata
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.failures import BoolArray, failed_rows
from nnunet_dro.evaluation.instances import LESION_COUNTS
from nnunet_dro.evaluation.intervals import difference_intervals
from nnunet_dro.evaluation.margins import check_margin, margin_verdicts
from nnunet_dro.evaluation.metrics import METRICS, is_bounded
from nnunet_dro.evaluation.one_sided import MethodValues, completed, method_values, notes_on_one_sided
from nnunet_dro.evaluation.patients import patient_means
from nnunet_dro.evaluation.provenance import versions
from nnunet_dro.evaluation.significance import holm, wilcoxon_p
from nnunet_dro.evaluation.statistics import STATISTICS
from nnunet_dro.evaluation.strata import ALL
from nnunet_dro.evaluation.stratum_statistics import describe, divide, percentile_notes, summarise

#: The least difference of fractions worth pointing out: five percentage points, as in Fidon et al. 2022 (MELBA).
NOTABLE = 0.05

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

#: How many cases `Comparison.changed` has in each direction, for each method, metric and label.
N_CHANGED = 5

_CHANGED_COLUMNS = ("method", "metric", "label", "case", "baseline_value", "method_value", "difference")

_FloatArray = npt.NDArray[np.float64]

#: Metric to method to the values, shape (n_cases, n_labels).
_Values = Mapping[str, Mapping[str, MethodValues]]


@dataclass(frozen=True)
class Comparison:
    """How methods differ from a baseline on the same cases.

    Attributes:
        methods: Their names, the baseline first.
        table: A row per attribute, stratum, label, metric and method, with `COLUMNS`. Differences are method minus
            baseline, over the ``n`` cases of the stratum less the ``n_undefined`` without a value; their bounds are
            95 % intervals (see `intervals`). A method that missed or invented the label, while the other did not,
            counts as the worst where it has no value: in ``n_worst_baseline`` or ``n_worst_method`` cases (see
            `one_sided.completed`). ``wins``, ``ties`` and ``losses`` count the cases where the method is better, equal
            and worse.
        strata: As from `summarise` for each method, over the cases with a value in *every* method (completed in the
            same way), with the column ``method`` first. (With three or more methods ``table`` can rest on more cases.)
        changed: The cases that changed most: for each method, metric and label up to `N_CHANGED` improvements, the
            largest first, then as many deteriorations, with the stratum of each attribute.
        scores: All methods' scores of the compared cases, with the column ``method`` first.
        stratum_of_case: Attribute to the stratum of each compared case (ordered categories, indexed by case).
        about: ``versions``, ``options``, and each method's own ``about`` under ``methods``.
        notes: Sentences for the reader.
    """

    methods: tuple[str, ...]
    table: pd.DataFrame
    strata: pd.DataFrame
    changed: pd.DataFrame
    scores: pd.DataFrame
    stratum_of_case: "Mapping[str, pd.Series[str]]"
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def compare(
    evaluations: Mapping[str, Evaluation],
    *,
    by: Sequence[str] | None = None,
    intersect: bool = False,
    margin: float | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Compare methods with the first of them, paired by case and label.

    Args:
        evaluations: Method to its evaluation; the first is the baseline.
        by: Attributes of the first evaluation, or specs over the columns of its case table (see `parse_by`). None for
            the first evaluation's attributes.
        intersect: Whether to compare only the cases that all have, instead of refusing evaluations of different cases.
        margin: How much worse the mean may be, in percentage points (mm for distances); the table then has a last
            column ``margin``, see `margin_verdicts`. None for none.
        n_resamples: Number of random draws for the intervals of means; 0 makes all intervals NaN.
        seed: Random seed of the draws, >= 0.

    Returns:
        The comparison.

    Raises:
        ValueError: If the evaluations cannot be compared; see `find_common_ground` and `find_common_strata`.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from PIL import Image
        >>> from nnunet_dro.evaluation import evaluate
        >>> study = Path(tempfile.mkdtemp())
        >>> for name, n_columns in (("reference", 4), ("erm", 1), ("dro", 3)):
        ...     label_map = np.zeros((8, 8), np.uint8)
        ...     label_map[:, :n_columns] = 1
        ...     (study / name).mkdir()
        ...     Image.fromarray(label_map).save(study / name / "case_1.png")
        >>> evaluations = {name: evaluate(study / "reference", study / name) for name in ("erm", "dro")}
        >>> compare(evaluations).table[["method", "mean_difference"]].round(3).to_dict("records")
        [{'method': 'dro', 'mean_difference': 0.457}]
    """
    if margin is not None:
        check_margin(margin)
    ground = find_common_ground(evaluations, intersect=intersect)
    strata = find_common_strata(evaluations, ground, by=by)
    values = {
        metric: {method: method_values(evaluation, ground, metric) for method, evaluation in evaluations.items()}
        for metric in ground.metrics
    }
    methods = tuple(evaluations)
    patients = _patients(evaluations[methods[0]], ground)
    notes = [*ground.notes]
    # Which percentiles are uncertain depends on the strata that are compared, and reports judge those.
    own = {m: [n for n in e.notes if n not in percentile_notes(e.strata)] for m, e in evaluations.items()}
    shared = [note for note in own[methods[0]] if all(note in notes_of for notes_of in own.values())]
    # A note that all methods share is given once.
    notes += shared + [f"{method}: {note}" for method in methods for note in own[method] if note not in shared]
    options = {"by": list(strata), "intersect": intersect, "margin": margin, "n_resamples": n_resamples, "seed": seed}
    options["patient"] = None if patients is None else patients.name
    table = _table(values, methods, ground, strata, patients, n_resamples=n_resamples, seed=seed)
    return Comparison(
        methods=methods,
        table=table if margin is None else table.assign(margin=margin_verdicts(table, margin)),
        strata=_strata_of_methods(values, evaluations, ground, strata, patients, n_resamples=n_resamples, seed=seed),
        changed=_changed(values, methods, ground, strata),
        scores=_scores(evaluations, ground),
        stratum_of_case=strata,
        about={
            "versions": versions("numpy", "pandas", "scipy"),
            "options": options,
            "definitions": {metric: METRICS[metric].definition for metric in ground.metrics},
            "methods": {method: dict(evaluation.about) for method, evaluation in evaluations.items()},
        },
        notes=(*notes, *notes_on_one_sided(values, methods, ground)),
    )


def notable(difference: float, metric: str, *, statistic: str = "mean") -> bool:
    """Whether a difference is an improvement worth pointing out.

    Args:
        difference: Method minus baseline, as a fraction; NaN is not notable.
        metric: Name of the metric. Distances in mm have no such limit: never notable.
        statistic: One of `STATISTICS`; of ``std`` and ``iqr`` less is better.

    Returns:
        Whether it is at least `NOTABLE` in the better direction.
    """
    if METRICS[metric].unit != "fraction":
        return False
    gain = difference if STATISTICS[statistic].more_is_better(METRICS[metric]) else -difference
    # 0.35 - 0.3 is a little less than 0.05.
    return bool(gain >= NOTABLE - 1e-9)


def _patients(baseline: Evaluation, ground: CommonGround) -> "pd.Series[str] | None":
    """The patient of each compared case, if the baseline was evaluated with patients."""
    column = baseline.about.get("options", {}).get("patient")
    if column is None:
        return None
    of_case = baseline.scores.drop_duplicates("case").set_index("case")[column]
    return of_case.reindex(list(ground.cases)).astype(str)


def _table(
    values: _Values,
    methods: tuple[str, ...],
    ground: CommonGround,
    strata: "Mapping[str, pd.Series[str]]",
    patient_of_case: "pd.Series[str] | None",
    *,
    n_resamples: int,
    seed: int,
) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    pairs: list[tuple[_FloatArray, _FloatArray]] = []
    numbers = np.arange(len(ground.cases)) if patient_of_case is None else pd.factorize(patient_of_case)[0]
    patients: list[npt.NDArray[np.intp]] = []
    complete = {
        (metric, method): completed(of_metric, metric, among=(methods[0], method))
        for metric, of_metric in values.items()
        for method in methods[1:]
    }
    for attribute, stratum_of_case in strata.items():
        codes, names = divide(stratum_of_case, ground.cases, attribute=attribute)
        for code, stratum in enumerate(names):
            inside = np.flatnonzero(codes == code)
            for position, label in enumerate(ground.labels):
                for metric, method in complete:
                    if not ground.reports(label, metric):
                        continue
                    key = {"attribute": attribute, "stratum": stratum, "label": label, "metric": metric}
                    both = (methods[0], method)
                    baseline, other = (complete[metric, method][name][inside, position] for name in both)
                    failed = [values[metric][name].failed[inside, position] for name in both]
                    pairs.append((baseline, other))
                    patients.append(numbers[inside])
                    key |= {"baseline": methods[0], "method": method}
                    rows.append(key | _pair_row(baseline, other, (failed[0], failed[1]), patients[-1], metric))
    bounded = [is_bounded(str(row["metric"])) for row in rows]
    of_patients = None if patient_of_case is None else patients
    bounds = difference_intervals(pairs, bounded=bounded, patients=of_patients, n_resamples=n_resamples, seed=seed)
    for row, of_row in zip(rows, bounds, strict=True):
        for statistic, (low, high) in zip(STATISTICS, of_row, strict=True):
            row |= {f"{statistic}_difference_low": low, f"{statistic}_difference_high": high}
    table: pd.DataFrame = pd.DataFrame(rows)
    table["holm_p"] = np.nan
    for _, family in table.groupby(["metric", "method"], sort=False):
        table.loc[family.index, "holm_p"] = holm(family["wilcoxon_p"].to_numpy(dtype=np.float64))
    return table[list(COLUMNS)]


def _pair_row(
    baseline: _FloatArray,
    method: _FloatArray,
    failed: tuple[BoolArray, BoolArray],
    patients: npt.NDArray[np.intp],
    metric: str,
) -> dict[str, Any]:
    """The row of one stratum, label, metric and method, but for intervals and correction."""
    both = ~np.isnan(baseline) & ~np.isnan(method)
    before, after = describe(baseline[both]), describe(method[both])
    row: dict[str, Any] = {"n": len(both), "n_undefined": int((~both).sum())}
    row |= {f"n_worst_{which}": int((of[both]).sum()) for which, of in zip(("baseline", "method"), failed, strict=True)}
    for statistic in STATISTICS:
        row[f"{statistic}_baseline"], row[f"{statistic}_method"] = before[statistic], after[statistic]
        row[f"{statistic}_difference"] = after[statistic] - before[statistic]
    sign = 1.0 if METRICS[metric].more_is_better else -1.0
    # A failure without a value has the largest rank, however bad the other method's value is.
    differences = np.select([failed[0], failed[1]], [sign * np.inf, -sign * np.inf], method - baseline)[both]
    gains = sign * differences
    counts = {"wins": int((gains > 0).sum()), "ties": int((gains == 0).sum()), "losses": int((gains < 0).sum())}
    return row | {"wilcoxon_p": wilcoxon_p(patient_means(differences, patients[both]))} | counts


def _strata_of_methods(
    values: _Values,
    evaluations: Mapping[str, Evaluation],
    ground: CommonGround,
    strata: "Mapping[str, pd.Series[str]]",
    patient_of_case: "pd.Series[str] | None",
    *,
    n_resamples: int,
    seed: int,
) -> pd.DataFrame:
    pairs = pd.MultiIndex.from_product([ground.cases, ground.labels], names=["case", "label"])
    complete = {metric: completed(of_metric, metric, among=evaluations) for metric, of_metric in values.items()}
    everywhere = {m: ~np.isnan(list(of_metric.values())).any(axis=0) for m, of_metric in complete.items()}
    parts = []
    for method, evaluation in evaluations.items():
        columns = {m: np.where(everywhere[m], complete[m][method], np.nan).ravel() for m in ground.metrics}
        if failed_rows(evaluation.scores) is not None:
            columns |= {c: ground.align(evaluation.scores, c).ravel() for c in ("n_reference", "n_prediction")}
        if ground.with_lesions:
            columns |= {c: ground.align(evaluation.scores, c).ravel() for c in LESION_COUNTS[:1]}
        scores = pd.DataFrame(columns, index=pairs).reset_index()
        part = summarise(
            scores, strata, metrics=ground.metrics, patient_of_case=patient_of_case, n_resamples=n_resamples, seed=seed
        )
        part.insert(0, "method", method)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _changed(
    values: _Values, methods: tuple[str, ...], ground: CommonGround, strata: "Mapping[str, pd.Series[str]]"
) -> pd.DataFrame:
    # An attribute may have the name of a column.
    attributes = [a for a in strata if a != ALL] or list(strata)
    column_of = {a: f"{a} (stratum)" if a in _CHANGED_COLUMNS else a for a in attributes}
    stratum_of = {column_of[a]: strata[a].astype(str).to_dict() for a in attributes}
    rows = []
    for method in methods[1:]:
        for metric in ground.metrics:
            filled = completed(values[metric], metric, among=(methods[0], method))
            before, after = filled[methods[0]], filled[method]
            for position, label in enumerate(ground.labels):
                differences = after[:, position] - before[:, position]
                gains = differences if METRICS[metric].more_is_better else -differences
                # A stable sort keeps the first of equal changes first.
                better = [i for i in np.argsort(-gains, kind="stable") if gains[i] > 0][:N_CHANGED]
                worse = [i for i in np.argsort(gains, kind="stable") if gains[i] < 0][:N_CHANGED]
                for i in (*better, *worse):
                    case, pair = ground.cases[i], (before[i, position], after[i, position])
                    fixed = (method, metric, label, case, *pair, differences[i])
                    stratum = {column: of_case[case] for column, of_case in stratum_of.items()}
                    rows.append(dict(zip(_CHANGED_COLUMNS, fixed, strict=True)) | stratum)
    return pd.DataFrame(rows, columns=[*_CHANGED_COLUMNS, *stratum_of])


def _scores(evaluations: Mapping[str, Evaluation], ground: CommonGround) -> pd.DataFrame:
    parts = []
    for method, evaluation in evaluations.items():
        part = evaluation.scores[evaluation.scores["case"].isin(ground.cases)]
        # The case table may have a column of this name.
        part = part.rename(columns={"method": "method (case table)"})
        part.insert(0, "method", method)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)
