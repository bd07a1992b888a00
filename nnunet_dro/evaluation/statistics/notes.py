"""What readers of an evaluation need to know of its scores and patients, in sentences."""

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.grid import Rules
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.scoring.score_cases import ScoredPairs
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.statistics.patients import (
    note_on_divided_patients,
    note_on_patients,
    note_on_repeated_patients,
)
from nnunet_dro.evaluation.stratifying.division import Division
from nnunet_dro.naming import count, name_some

#: What is said of cases whose headers say two things of where the voxels lie.
_SENTENCES_ON_RULES = {
    Rules.ONLY_OTHER: (
        "Reference and prediction fit only where the headers of both are read as the other of ITK "
        "and nibabel reads them, which was done: {}. Their sform and their qform or voxel size "
        "differ."
    ),
    Rules.DIFFER: (
        "ITK and nibabel lay other voxels of the prediction on those of the reference, since sform "
        "and qform differ: {}. The rule of nnU-Net's reader for the dataset was used; "
        '"overwrite_image_reader_writer" in dataset.json names another.'
    ),
}


def notes_on_patients(division: Division, options: EvaluateOptions) -> Sequence[str]:
    """What readers need to know of patients: how they count, or that some may be several cases."""
    patient_of_case = division.patient_of_case
    if patient_of_case is None:
        return note_on_repeated_patients(division.cases)
    return [
        *note_on_patients(patient_of_case, options.patient_score),
        *note_on_divided_patients(patient_of_case, division.strata),
    ]


def notes_on_scores(scored: ScoredPairs, scoring: Scoring) -> Iterator[str]:
    """What readers of the scores need to know: what has no score, and in which unit they are."""
    scores = scored.table
    if scored.only_predicted:
        names = name_some(scored.only_predicted)
        yield (
            f"Values that occur only in predictions are not scored: {names}. "
            "A dataset.json would name them."
        )

    has_none = scores[list(scoring.metrics)].isna().all(axis=1)
    is_without = has_none.groupby(scores["case"], sort=False).all()
    without = [str(case) for case in is_without.index[is_without]]
    if without:
        yield (
            f"{count(len(without), 'case')} without any score, because neither map has a label "
            f"(voxels to ignore do not count): {name_some(without)}."
        )

    yield from _notes_on_lacking_distances(scores, scoring)
    yield from _notes_on_rules(scored.rules)
    if in_pixels(scores):
        metrics = [METRICS[name] for name in scoring.metrics if METRICS[name].needs_voxel_size]
        sizes = {"volumes" if metric.unit == "ml" else "distances" for metric in metrics}
        if sizes:
            named = " and ".join(sorted(sizes))
            yield f"The images have no voxel size: {named} are in pixels (px)."


def _notes_on_lacking_distances(scores: pd.DataFrame, scoring: Scoring) -> Iterator[str]:
    """A sentence for each distance that has no value where one map lacks a label."""
    is_one_sided = (scores["n_reference"] == 0) != (scores["n_prediction"] == 0)
    for name in scoring.metrics:
        metric = METRICS[name]
        # Of lesions that are missed or invented, the distance is known.
        if metric.unit != "mm" or metric.on_lesions:
            continue
        n_left_out = int((is_one_sided & scores[name].isna()).sum())
        if n_left_out:
            rows = count(n_left_out, "row")
            yield (
                f"{metric.title} leaves out {rows} of scores.csv where only the reference or only "
                "the prediction has the label; Dice counts them as 0."
            )


def _notes_on_rules(rules: Mapping[str, Rules | str]) -> Iterator[str]:
    """Sentences on cases whose headers say two things of where the voxels lie."""
    for rule, sentence in _SENTENCES_ON_RULES.items():
        cases = [case for case, rule_of_case in rules.items() if rule_of_case == rule]
        if cases:
            yield sentence.format(name_some(cases))
