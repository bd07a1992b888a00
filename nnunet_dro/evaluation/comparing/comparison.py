"""Two or more methods on the same cases.

Paired differences, how sure they are, and which cases changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.comparing.common_ground import (
    CommonGround,
    absent_strata,
    check_methods,
    find_common_ground,
    find_common_strata,
    shared_notes,
)
from nnunet_dro.evaluation.comparing.comparison_table import (
    Compared,
    comparison_table,
    trainings_table,
)
from nnunet_dro.evaluation.comparing.one_sided import notes_on_one_sided
from nnunet_dro.evaluation.comparing.trainings import Trainings
from nnunet_dro.evaluation.evaluation_result import Evaluation, versions
from nnunet_dro.evaluation.judging.outcomes import Outcome, check_requirements, without_intervals
from nnunet_dro.evaluation.judging.requirements import COMPARISON, Requirement, parse_requirement
from nnunet_dro.evaluation.judging.verdicts import margin_verdicts
from nnunet_dro.evaluation.options import CompareOptions
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE, failed_rows, size_columns
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.statistics.columns import GUARANTEED, INTERVALS, STATISTICS
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.stratifying.division import with_absent
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import name_some

#: The least difference of fractions worth pointing out: five percentage points, as in Fidon et al.
#: 2022 (MELBA).
NOTABLE = 0.05

N_CHANGED = 5  # How many cases `Comparison.changed` has in each direction, for each method, metric and label.

_CHANGED_COLUMNS = (
    "method",
    "metric",
    "label",
    "case",
    "baseline_value",
    "method_value",
    "difference",
)

#: The counts that are sums over the trainings of a method; the others are those of its cases.
_SUMS = ("n_missed", "n_invented", "n_left_out", "n_failed")


@dataclass(frozen=True)
class Comparison:
    """How methods differ from a baseline on the same cases.

    Attributes:
        methods: Their names, the baseline first.
        table: A row per attribute, stratum, label, metric and method, with `COLUMNS`. Differences
            are method minus baseline, over the ``n`` cases of the stratum less the ``n_undefined``
            without a value (in ``n_left_out`` of them the label was missed or invented); their
            bounds are 95 % intervals (see `intervals`). A method that missed or invented the label,
            while the other did not, counts as the worst where it has no value: in
            ``n_worst_baseline`` or ``n_worst_method`` cases (see `one_sided.completed`). ``wins``,
            ``ties`` and ``losses`` count the cases where the method is better, equal and worse.
            With several trainings of a method the numbers are means over them, `TRAINING_COLUMNS`
            follow, intervals hold for other trainings as well (see `differences_over_trainings`),
            and there are no p values.
        strata: As from `summarise` for each method, over the cases with a value in *every* method
            (completed in the same way), with the column ``method`` first. (With three or more
            methods ``table`` can rest on more cases.)
        changed: The cases that changed most: for each method, metric and label up to `N_CHANGED`
            improvements, the largest first, then as many deteriorations, with the stratum of each
            attribute.
        trainings: The statistics of every training, see `trainings_table`; None where no method has
            several.
        scores: All methods' scores of the compared cases, with the column ``method`` first.
        stratum_of_case: Attribute to the stratum of each compared case (ordered categories, indexed
            by case).
        outcomes: The outcomes of the requirements.
        options: How the methods were compared.
        failure: When a case has failed, as in the baseline.
        about: ``versions``, ``options``, ``requirements``, and each method's own ``about`` under
            ``methods``.
        notes: Sentences for the reader.
    """

    methods: tuple[str, ...]
    table: pd.DataFrame
    strata: pd.DataFrame
    changed: pd.DataFrame
    scores: pd.DataFrame
    stratum_of_case: "Mapping[str, pd.Series[str]]"
    trainings: pd.DataFrame | None = None
    outcomes: tuple[Outcome, ...] = ()
    options: CompareOptions = field(default_factory=CompareOptions)
    failure: str = DEFAULT_FAILURE
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def compare(
    evaluations: Mapping[str, Evaluation | Sequence[Evaluation]],
    options: CompareOptions | None = None,
    **given: Any,
) -> Comparison:
    """Compare methods with the first of them, paired by case and label.

    Args:
        evaluations: Method to its evaluation, or to those of several trainings of it, of the same
            cases; the first is the baseline. Trainings are paired by their position where two
            methods have equally many, see `trainings`.
        options: How to compare; None for the defaults.
        **given: Fields of `CompareOptions`, in place of those in ``options``.

    Returns:
        The comparison.

    Raises:
        ValueError: If the evaluations cannot be compared; see `find_common_ground` and
            `find_common_strata`.
        TypeError: If there is no such option.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> import numpy as np
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
    options = replace(options or CompareOptions(), **given)
    requirements = [parse_requirement(text, COMPARISON) for text in options.requirements]
    trainings = Trainings.of(evaluations)
    check_methods(list(trainings.of_method))
    ground = find_common_ground(trainings.evaluations, intersect=options.intersect)
    strata = find_common_strata(trainings.evaluations, ground, by=options.by)
    patient_of_case = next(iter(trainings.evaluations.values())).patient_of_case
    if patient_of_case is not None:
        patient_of_case = patient_of_case.reindex(list(ground.cases))
    return _compared(Compared(trainings, ground, strata, patient_of_case), options, requirements)


def _compared(
    compared: Compared, options: CompareOptions, requirements: Sequence[Requirement]
) -> Comparison:
    """The comparison, once everything fits."""
    trainings = compared.trainings
    ground = compared.ground
    strata = compared.strata
    failure = next(iter(trainings.evaluations.values())).options.failure or DEFAULT_FAILURE
    draws = {"n_resamples": options.n_resamples, "seed": options.seed}
    patients = compared.patient_of_case
    of_run: dict[str, Any] = {
        "by": list(strata),
        "intersect": options.intersect,
        "margin": options.margin,
        **draws,
    }
    of_run |= {"patient": None if patients is None else patients.name, "failure": failure}
    table = comparison_table(compared, **draws)
    scores = _scores_of_methods(trainings, ground)
    absent = absent_strata(trainings.evaluations, strata, by=options.by)
    checked = with_absent(table, {name: dict.fromkeys(names, 0) for name, names in absent.items()})
    checked = checked.assign(n_absent=ground.n_absent)
    known = checked if options.n_resamples else without_intervals(checked)
    outcomes = tuple(check_requirements(known, requirements, in_pixels=in_pixels(scores)))
    return Comparison(
        methods=tuple(trainings.of_method),
        table=table
        if options.margin is None
        else table.assign(margin=margin_verdicts(table, options.margin)),
        strata=_strata_of_methods(compared, failure=failure, **draws),
        changed=_changed_cases(compared),
        scores=scores,
        stratum_of_case=strata,
        trainings=trainings_table(compared) if trainings.are_repeated else None,
        outcomes=outcomes,
        options=options,
        failure=failure,
        about=_about(trainings, ground, of_run)
        | {"requirements": [outcome.record for outcome in outcomes]},
        notes=(
            *ground.notes,
            *trainings.notes(),
            *shared_notes(trainings.evaluations),
            *(
                f"No case of {attribute} {name_some(names)} is compared."
                for attribute, names in absent.items()
            ),
            *notes_on_one_sided(compared.values, trainings.of_method, ground),
        ),
    )


def _strata_of_methods(
    compared: Compared, *, failure: str, n_resamples: int, seed: int
) -> pd.DataFrame:
    """The statistics of every method, over the cases with a value in every training of every method.

    Of a method with several trainings they are the means of their statistics without intervals;
    missed and invented labels are counted over all of them.
    """
    trainings = compared.trainings
    ground = compared.ground
    pairs = pd.MultiIndex.from_product([ground.cases, ground.labels], names=["case", "label"])
    complete = {m: compared.filled(m, *trainings.of_method) for m in ground.metrics}
    everywhere = {
        m: ~np.isnan(list(of_metric.values())).any(axis=0) for m, of_metric in complete.items()
    }
    parts = []
    for method, names in trainings.of_method.items():
        tables = []
        for name in names:
            columns = {
                m: np.where(everywhere[m], complete[m][name], np.nan).ravel()
                for m in ground.metrics
            }
            own = trainings.evaluations[name].scores
            counts = [*size_columns("dice")] if failed_rows(own) is not None else []
            counts += [column for column in LESION_COUNTS if ground.with_lesions and column in own]
            columns |= {column: ground.align(own, column).ravel() for column in counts}
            of_training = summarise(
                pd.DataFrame(columns, index=pairs).reset_index(),
                compared.strata,
                metrics=ground.metrics,
                patient_of_case=compared.patient_of_case,
                failure=failure,
                n_resamples=n_resamples if len(names) == 1 else 0,
                seed=seed,
            )
            tables.append(of_training)
        part = tables[0]
        if len(tables) > 1:
            for statistic in STATISTICS:
                part[statistic] = np.mean([table[statistic] for table in tables], axis=0)
            for count in _SUMS:
                part[count] = np.sum([table[count] for table in tables], axis=0)
            part[[*INTERVALS, *GUARANTEED]] = np.nan
            part["n_trainings"] = len(tables)
        part.insert(0, "method", method)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _changed_cases(compared: Compared) -> pd.DataFrame:
    """The cases that changed most, by the mean over the trainings; see `Comparison.changed`."""
    trainings = compared.trainings
    ground = compared.ground
    strata = compared.strata
    # An attribute may have the name of a column.
    attributes = [a for a in strata if a != ALL] or list(strata)
    column_of = {a: f"{a} (stratum)" if a in _CHANGED_COLUMNS else a for a in attributes}
    stratum_of = {column_of[a]: strata[a].astype(str).to_dict() for a in attributes}
    baseline, *others = trainings.of_method
    rows = []
    for method in others:
        for metric in ground.metrics:
            filled = compared.filled(metric, baseline, method)
            # NaN where any training has no value.
            before, after = (
                np.mean([filled[name] for name in trainings.of_method[which]], axis=0)
                for which in (baseline, method)
            )
            for position, label in enumerate(ground.labels):
                differences = after[:, position] - before[:, position]
                gains = METRICS[metric].sign * differences
                # A stable sort keeps the first of equal changes first.
                better = [i for i in np.argsort(-gains, kind="stable") if gains[i] > 0][:N_CHANGED]
                worse = [i for i in np.argsort(gains, kind="stable") if gains[i] < 0][:N_CHANGED]
                for i in (*better, *worse):
                    pair = before[i, position], after[i, position]
                    rows.append((method, metric, label, ground.cases[i], *pair, differences[i]))
    changed: pd.DataFrame = pd.DataFrame(rows, columns=list(_CHANGED_COLUMNS))
    return changed.assign(
        **{column: changed["case"].map(of_case) for column, of_case in stratum_of.items()}
    )


def _scores_of_methods(trainings: Trainings, ground: CommonGround) -> pd.DataFrame:
    """All methods' scores of the compared cases, with the column ``method`` first.

    Means over their trainings.
    """
    parts = []
    for method, names in trainings.of_method.items():
        evaluations = [trainings.evaluations[name] for name in names]
        part = evaluations[0].scores[evaluations[0].scores["case"].isin(ground.cases)]
        if len(evaluations) > 1:
            keys = pd.MultiIndex.from_frame(part[["case", "label"]])
            others = [evaluation.scores.set_index(["case", "label"]) for evaluation in evaluations]
            predicted = ("n_prediction", "n_intersection", "prediction_ml")
            shared = [
                c
                for c in (*ground.metrics, *predicted)
                if all(c in other.columns for other in others)
            ]
            means = {
                c: np.mean([other[c].reindex(keys).to_numpy() for other in others], axis=0)
                for c in shared
            }
            part = part.assign(**means)
        # The case table may have a column of this name.
        part = part.rename(columns={"method": "method (case table)"})
        part.insert(0, "method", method)
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _about(
    trainings: Trainings, ground: CommonGround, options: Mapping[str, Any]
) -> dict[str, Any]:
    known = next(iter(trainings.evaluations.values())).about.get("definitions", {})
    return {
        "versions": versions("numpy", "pandas", "scipy"),
        "options": dict(options),
        "definitions": {
            metric: known.get(metric, METRICS[metric].definition) for metric in ground.metrics
        },
        "methods": {
            name: dict(evaluation.about) for name, evaluation in trainings.evaluations.items()
        },
    }


def notable(difference: float, metric: str, *, statistic: str = "mean") -> bool:
    """Whether a difference is an improvement worth pointing out."""
    if METRICS[metric].unit != "fraction":
        return False
    gain = difference if STATISTICS[statistic].more_is_better(METRICS[metric]) else -difference
    # 0.35 - 0.3 is a little less than 0.05.
    return bool(gain >= NOTABLE - 1e-9)
