"""Two or more methods on the same cases: paired differences, and how sure they are."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.changed_cases import changed_cases
from nnunet_dro.evaluation.comparing.changed_failures import (
    ChangedFailures,
    changed_failures,
    named_failures,
    with_failures,
)
from nnunet_dro.evaluation.comparing.common_ground import (
    check_methods,
    shared_notes,
)
from nnunet_dro.evaluation.comparing.common_strata import absent_strata, find_common_strata
from nnunet_dro.evaluation.comparing.comparability import comparable_ground
from nnunet_dro.evaluation.comparing.comparison_table import (
    Compared,
    table_of_differences,
    trainings_table,
)
from nnunet_dro.evaluation.comparing.method_tables import scores_of_methods, strata_of_methods
from nnunet_dro.evaluation.comparing.one_sided import lacking_values
from nnunet_dro.evaluation.comparing.options import CompareOptions
from nnunet_dro.evaluation.comparing.trainings import Trainings
from nnunet_dro.evaluation.comparing.words import sentences
from nnunet_dro.evaluation.judging.outcomes import Outcome, check_requirements, without_intervals
from nnunet_dro.evaluation.judging.requirements import Requirement, parse_requirement
from nnunet_dro.evaluation.judging.subjects import COMPARISON
from nnunet_dro.evaluation.judging.verdicts import margin_verdicts
from nnunet_dro.evaluation.scoring.failures import DEFAULT_FAILURE, Failure
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.statistics.columns import N_FOR_SPREAD, STATISTICS
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation, versions
from nnunet_dro.evaluation.stratifying.division import with_absent
from nnunet_dro.evaluation.stratifying.stratify import stratify_all
from nnunet_dro.naming import name_some

#: The least difference of fractions worth pointing out: five percentage points, as in Fidon et al.
#: 2022 (MELBA).
NOTABLE = 0.05


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
            and there are no p values. Where the metric is that of ``failure``,
            `changed_failures.COLUMNS` say how many cases (or patients) of ``n_counted`` fail with
            each method, how many fail with the method only (``new_failures``) and with the baseline
            only (``recoveries``), and the p value of McNemar's exact test; NaN for other metrics.
        strata: As from `summarise` for each method, over the cases with a value in *every* method
            (completed in the same way), with the column ``method`` first. (With three or more
            methods ``table`` can rest on more cases.)
        changed: The cases that changed most: for each method, metric and label up to `N_CHANGED`
            improvements, the largest first, then as many deteriorations, with the stratum of each
            attribute.
        failures: Every failure by its name: ``attribute``, ``stratum``, ``label``, ``method``,
            ``case`` (or ``patient``) and ``change``: ``new failure``, ``recovery`` or ``fails with
            both``. Empty where a method has several trainings.
        failing: What fails among all cases together, for each label and method. The strata do not
            add up to it where a patient has cases in several.
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
    failures: pd.DataFrame
    scores: pd.DataFrame
    stratum_of_case: "Mapping[str, pd.Series[str]]"
    failing: Sequence[ChangedFailures] = ()
    trainings: pd.DataFrame | None = None
    outcomes: tuple[Outcome, ...] = ()
    options: CompareOptions = field(default_factory=CompareOptions)
    failure: str = DEFAULT_FAILURE
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    #: What several reports need, by name: the first of them computes it.
    computed: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


def compare(
    evaluations: Mapping[str, Evaluation | Sequence[Evaluation]],
    options: CompareOptions | None = None,
    **fields: Any,
) -> Comparison:
    """Compare methods with the first of them, paired by case and label.

    Args:
        evaluations: Method to its evaluation, or to those of several trainings of it, of the same
            cases; the first is the baseline. Trainings are paired by their position where two
            methods have equally many, see `trainings`.
        options: How to compare; None for the defaults.
        **fields: Fields of `CompareOptions`, in place of those in ``options``.

    Returns:
        The comparison.

    Raises:
        ValueError: If the evaluations cannot be compared; see `comparable_ground` and
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
        >>> evaluations = {
        ...     name: evaluate(study / "reference", study / name) for name in ("erm", "dro")
        ... }
        >>> compare(evaluations).table[["method", "mean_difference"]].round(3).to_dict("records")
        [{'method': 'dro', 'mean_difference': 0.457}]
    """
    options = replace(options or CompareOptions(), **fields)
    requirements = [parse_requirement(text, COMPARISON) for text in options.requirements]
    trainings = Trainings.of(evaluations)
    check_methods(list(trainings.names))
    ground = comparable_ground(trainings.evaluations, intersect=options.intersect)
    strata = find_common_strata(trainings.evaluations, ground, by=options.by)
    patient_of_case = trainings.first.patient_of_case
    if patient_of_case is not None:
        patient_of_case = patient_of_case.reindex(list(ground.cases))
    score = trainings.first.options.patient_score
    compared = Compared(trainings, ground, strata, patient_of_case, score)
    return _compared(compared, options, requirements)


def _compared(
    compared: Compared, options: CompareOptions, requirements: Sequence[Requirement]
) -> Comparison:
    """The comparison, once everything fits."""
    trainings = compared.trainings
    failure = trainings.first.options.failure or DEFAULT_FAILURE
    scores = scores_of_methods(trainings, compared.ground)
    absent = absent_strata(trainings.evaluations, compared.strata, by=options.by)
    has_intervals = options.n_resamples > 0
    all_cases = stratify_all(None, [], compared.ground.cases)

    failure_changes = changed_failures(compared, Failure.of(failure))
    table = table_of_differences(compared, with_intervals=has_intervals)
    table = with_failures(table, failure_changes)
    judged = _judged(table, absent, compared.ground.n_absent, with_intervals=has_intervals)
    outcomes = check_requirements(judged, requirements, in_pixels=in_pixels(scores))
    table_of_trainings = trainings_table(compared) if trainings.are_repeated else None
    if options.margin is not None:
        table["margin"] = margin_verdicts(
            table,
            options.margin,
            bound=options.margin_bound,
            n_absent=compared.ground.n_absent,
        )
    return Comparison(
        methods=tuple(trainings.names),
        table=table,
        strata=strata_of_methods(compared, failure=failure, n_resamples=options.n_resamples),
        changed=changed_cases(compared),
        failures=named_failures(compared, failure_changes),
        failing=changed_failures(compared, Failure.of(failure), all_cases),
        scores=scores,
        stratum_of_case=compared.strata,
        trainings=table_of_trainings,
        outcomes=tuple(outcomes),
        options=options,
        failure=failure,
        about=_about(compared, options, failure, outcomes),
        notes=tuple(_notes(compared, absent)),
    )


def _judged(
    table: pd.DataFrame,
    absent: Mapping[str, Collection[str]],
    n_absent: int,
    *,
    with_intervals: bool,
) -> pd.DataFrame:
    """The table as requirements look at it: with the strata that have no case, and what is absent.

    Without intervals, requirements on their bounds are refused.
    """
    n_of_absent = {attribute: dict.fromkeys(names, 0) for attribute, names in absent.items()}
    judged = with_absent(table, n_of_absent).assign(n_absent=n_absent)
    return judged if with_intervals else without_intervals(judged)


def _about(
    compared: Compared, options: CompareOptions, failure: str, outcomes: Sequence[Outcome]
) -> dict[str, Any]:
    """How the comparison was made, as its files have it."""
    evaluations = compared.trainings.evaluations
    definitions = compared.trainings.first.about.get("definitions", {})
    patient = None
    if compared.patient_of_case is not None:
        patient = compared.patient_of_case.name
    return {
        "versions": versions("numpy", "pandas", "scipy"),
        "options": {
            "by": list(compared.strata),
            "intersect": options.intersect,
            "margin": options.margin,
            "margin_bound": options.margin_bound,
            "n_resamples": options.n_resamples,
            "seed": options.seed,
            "patient": patient,
            "patient_score": compared.patient_score.value,
            "failure": failure,
        },
        "definitions": {
            metric: definitions.get(metric, METRICS[metric].definition)
            for metric in compared.ground.metrics
        },
        "n_absent": compared.ground.n_absent,
        "methods": {name: dict(evaluation.about) for name, evaluation in evaluations.items()},
        "requirements": [outcome.record for outcome in outcomes],
    }


def _notes(compared: Compared, absent: Mapping[str, Sequence[str]]) -> list[str]:
    """The sentences for the reader."""
    trainings = compared.trainings
    notes = [
        *compared.ground.notes,
        *sentences("trainings", of=trainings, n_for_spread=N_FOR_SPREAD),
        *shared_notes(trainings.evaluations),
        *(f"No case of {name} {name_some(strata)} is compared." for name, strata in absent.items()),
    ]
    for lacking in lacking_values(compared.values, trainings.names, compared.ground):
        notes += sentences("lacking", of=lacking)
    return notes


def notable(difference: float, metric: str, *, statistic: str = "mean") -> bool:
    """Whether a difference is an improvement worth pointing out."""
    described = METRICS[metric]
    if described.unit != "fraction":
        return False
    more_is_better = STATISTICS[statistic].more_is_better(described)
    gain = difference if more_is_better else -difference
    # 0.35 - 0.3 is a little less than 0.05.
    return bool(gain >= NOTABLE - 1e-9)
