"""Whether requirements and options name strata and labels that exist.

This is checked before the long work of scoring.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.judging.outcomes import (
    check_requirements,
    metric_meant,
    without_intervals,
)
from nnunet_dro.evaluation.judging.requirement_parts import refusal
from nnunet_dro.evaluation.judging.requirements import Requirement, one_sided_of
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS
from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.stratifying.division import Division, with_absent
from nnunet_dro.naming import name_some, spelt_like


def reported_stratum(name: str | None, strata: "Mapping[str, pd.Series[str]]") -> str | None:
    """The stratum that others are compared with, if any, which must be one of those reported.

    It may differ from the name in Unicode's form.
    """
    if name is None:
        return None

    names: dict[str, None] = {}
    for stratum_of_case in strata.values():
        names |= dict.fromkeys(map(str, stratum_of_case.cat.categories))
    (spelt,) = spelt_like({name: None}, names)
    if spelt not in names:
        raise InputError(
            "reference_stratum",
            must="be a stratum of --by",
            got=repr(name),
            cure=f"Choose from: {name_some(names, at_most=20)}.",
        )
    return spelt


def check_requirements_apply(
    requirements: Sequence[Requirement],
    division: Division,
    labels: Labels | None,
    options: EvaluateOptions,
) -> None:
    """Check, before the long work, that every requirement is about something that there will be.

    That is a stratum, a label and a statistic: the statistics of cases without a value have the
    same rows and columns as those of the scores.
    """
    if not requirements:
        return

    if labels is None:
        # The labels are not known before the references are read; the rest can be checked.
        requirements = [replace(requirement, label=None) for requirement in requirements]

    statistics = summarise(
        _scores_without_values(division.cases, labels, options.scoring),
        division.strata,
        metrics=options.scoring.metrics,
        patient_of_case=division.patient_of_case,
        one_sided=one_sided_of(requirements),
        n_resamples=0,
    )
    if options.n_resamples == 0:
        statistics = without_intervals(statistics)
    check_requirements(with_absent(statistics, division.absent), requirements)
    _check_failing_metric(requirements, options)


def _scores_without_values(
    cases: Sequence[str], labels: Labels | None, scoring: Scoring
) -> pd.DataFrame:
    """The rows and columns that the scores will have, as far as statistics need them."""
    names = labels.values if labels else ["any"]
    rows = pd.MultiIndex.from_product([cases, names], names=["case", "label"])
    scores = rows.to_frame(index=False).assign(**dict.fromkeys(scoring.metrics, math.nan))
    # Without names of labels any label may be one whose lesions are compared.
    with_lesions = [labels is None or scoring.has_lesions(label) for label in scores["label"]]
    scores[LESION_COUNTS[0]] = [0.0 if has_lesions else math.nan for has_lesions in with_lesions]
    return scores


def _check_failing_metric(requirements: Sequence[Requirement], options: EvaluateOptions) -> None:
    """Check that requirements on failed cases are about the metric by which cases fail."""
    failing = options.failed_if.metric
    for requirement in requirements:
        is_of_failures = requirement.statistic in ("n_failed", "failure_high")
        if is_of_failures and metric_meant(requirement, options.scoring.metrics) != failing:
            raise refusal(
                f"be about {failing}, by which cases fail",
                requirement.text,
                f"Write metric={failing}, or give another --failure.",
            )
