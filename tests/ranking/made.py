"""Made-up evaluations of several teams."""

import numpy as np
import pandas as pd

from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.ranking import submissions


def evaluation_of(
    team, values, *, columns=None, patient=None, missed=(), absent=(), attributes=(), options=None
):
    """The evaluation of a team: ``values`` maps metric to label to numbers, ``columns`` are those
    of the case table.

    In ``missed`` cases (by number) the team has no voxel of any label, and in ``absent`` ones the
    reference has none; ``attributes`` are what the evaluation is by.
    """
    of_label = next(iter(values.values()))
    cases = [f"case_{number:03}" for number in range(len(next(iter(of_label.values()))))]
    rows = [
        {
            "case": case,
            "label": label,
            "n_reference": 0 if number in absent else 100,
            "n_prediction": 0 if number in missed else 90,
        }
        | {"n_intersection": 80, "reference_ml": 0.1, "prediction_ml": 0.09}
        | {metric: of_metric[label][number] for metric, of_metric in values.items()}
        | {name: entries[number] for name, entries in (columns or {}).items()}
        for number, case in enumerate(cases)
        for label in of_label
    ]
    scores = pd.DataFrame(rows)
    of_attribute = {}
    for name in attributes:
        entries = pd.Categorical(columns[name], categories=sorted(set(columns[name])), ordered=True)
        of_attribute[name] = pd.Series(entries, index=pd.Index(cases, name="case"), name=name)
    patients = None
    if patient:
        patients = pd.Series(columns[patient], index=pd.Index(cases, name="case"), name=patient)
    strata = summarise(
        scores,
        of_attribute or None,
        metrics=list(values),
        patient_of_case=patients,
        n_resamples=0,
    )
    options = {"empty": "undefined", "missing": "error", "patient": patient, **(options or {})}
    about = {
        "versions": {},
        "options": options,
        "definitions": {},
        "inputs": {},
        "requirements": [],
    }
    return Evaluation(
        team, scores, strata, of_attribute, worst_strata(strata), false_positives(scores), about
    )


def random_evaluations(
    n_teams=4, n_cases=12, *, metrics=("dice",), labels=("liver",), seed=0, names=None, **options
):
    """Evaluations in which the first teams are the best; centres A, B and C, and two cases of every
    patient."""
    rng = np.random.default_rng(seed)
    centres = [("A", "A", "B", "C")[n % 4] for n in range(n_cases)]
    columns = {"centre": centres, "patient": [f"p{n // 2}" for n in range(n_cases)]}
    hardness = rng.normal(0, 0.05, n_cases)
    evaluations = {}
    for team in range(n_teams):
        values = {}
        # A team has strong and weak centres.
        of_centre = dict(zip("ABC", rng.normal(0, 0.012, 3), strict=True))
        at_centre = np.array([of_centre[centre] for centre in centres])
        for metric in metrics:
            values[metric] = {}
            for label in labels:
                fractions = np.clip(
                    0.85 - 0.003 * team + hardness + at_centre + rng.normal(0, 0.04, n_cases), 0, 1
                )
                values[metric][label] = (
                    40 * (1 - fractions) if metric in ("hd95", "assd") else fractions
                )
        name = names[team] if names else f"team {team + 1:02}"
        evaluations[name] = evaluation_of(name, values, columns=columns, **options)
    return evaluations


def recorded(monkeypatch, stop_at=None):
    """The names of the submissions that are scored from now on; the first time that it comes to
    one, it is stopped."""
    scored = []
    evaluate = submissions.evaluate

    def recording(reference, prediction, options, **given):
        scored.append(prediction.name)
        if prediction.name == stop_at and scored.count(stop_at) == 1:
            raise KeyboardInterrupt
        return evaluate(reference, prediction, options, **given)

    monkeypatch.setattr(submissions, "evaluate", recording)
    return scored
