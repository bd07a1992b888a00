"""From files to an evaluation.

Score every case, divide the cases into strata, describe the strata.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.evaluation_result import Evaluation, about_evaluation, column_in_scores
from nnunet_dro.evaluation.inputs import Inputs, find_inputs, matched_inputs, read_summary
from nnunet_dro.evaluation.judging.outcomes import check_requirements, without_intervals
from nnunet_dro.evaluation.judging.requirements import Requirement, one_sided_of, parse_requirement
from nnunet_dro.evaluation.options import EvaluateOptions
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS
from nnunet_dro.evaluation.scoring.kept_scores import KeptScores
from nnunet_dro.evaluation.scoring.label_maps import Labels, list_label_maps, read_labels
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.scoring.score_files import ScoredPairs, score_pairs, sha256_of
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.statistics.lesion_sizes import lesion_sizes
from nnunet_dro.evaluation.statistics.patients import note_on_patients, note_on_repeated_patients
from nnunet_dro.evaluation.statistics.stratum_statistics import (
    false_positives,
    percentile_notes,
    summarise,
)
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.evaluation.stratifying.division import Division, with_absent
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import find_dataset_json

Progress = Callable[[int, int], None]

#: The units that are pixels where no voxel size is known, and what is measured in them.
_SIZES = {"mm": "distances", "ml": "volumes"}


def evaluate(
    reference: Path | str,
    prediction: Path | str,
    options: EvaluateOptions | None = None,
    *,
    kept: KeptScores | None = None,
    progress: Progress = lambda n_done, n_cases: None,
    **given: Any,
) -> Evaluation:
    """Evaluate predictions per stratum of the cases.

    Args:
        reference: Folder of reference label maps.
        prediction: Folder of predicted label maps; or a model folder of nnU-Net (its folds'
            validation predictions together); or a summary.json of nnU-Net (then no label map is
            read).
        options: How to evaluate; None for the defaults.
        kept: Where to keep finished cases, and where those of an interrupted run are; see
            `keeping`. Those whose files and options are unchanged are taken over, and a note says
            how many.
        progress: Called with the number of finished cases and the number of all cases.
        **given: Fields of `EvaluateOptions`, in place of those in ``options``.

    Returns:
        The scores, and their statistics per stratum.

    Raises:
        FileNotFoundError: If a file is missing; the message names it or its case.
        ValueError: If an input cannot be used; the message names it.
        TypeError: If there is no such option.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from PIL import Image
        >>> study = Path(tempfile.mkdtemp())
        >>> for name, n_columns in (("reference", 2), ("prediction", 1)):
        ...     label_map = np.zeros((8, 8), np.uint8)
        ...     label_map[:, :n_columns] = 1
        ...     (study / name).mkdir()
        ...     Image.fromarray(label_map).save(study / name / "case_1.png")
        >>> evaluation = evaluate(study / "reference", study / "prediction")
        >>> evaluation.strata[["label", "n", "mean"]].round(3).to_dict("records")
        [{'label': '1', 'n': 1, 'mean': 0.667}]
    """
    reference = Path(reference)
    prediction = Path(prediction)
    options = replace(options or EvaluateOptions(), **given)
    options.check()
    options = replace(options, dataset_json=options.dataset_json or find_dataset_json(reference))
    requirements = [parse_requirement(text) for text in options.requirements]
    scoring = options.scoring
    labels = read_labels(options.dataset_json) if options.dataset_json else None
    if scoring.instances and labels:
        scoring.instances.check_labels(list(labels.values))
    # Whatever does not fit is reported before the long work.
    references = list_label_maps(reference)
    inputs, scored = _find_inputs(reference, prediction, set(references), labels, options)
    ignore = labels.ignore if labels else None
    cases_of = Division.of(inputs, reference, references, options, ignore=ignore, progress=progress)
    _check_reference_stratum(options.reference_stratum, cases_of.strata)
    _check_requirements_apply(
        requirements, cases_of, labels, scoring, with_intervals=options.n_resamples > 0
    )
    contents = {"case_table": cases_of.path, "dataset_json": options.dataset_json}
    if scored is None:
        scored, inputs = _scored(inputs, labels, options, kept, progress)
    else:
        # Its contents stand for those of the predictions.
        contents["summary_json"] = prediction
    sha256 = {name: sha256_of(path) for name, path in contents.items() if path}
    # Absolute, so that the report can be made again from anywhere.
    absolute = options.dataset_json and options.dataset_json.absolute()
    record = replace(options, cases=cases_of.path, dataset_json=absolute).record()
    record = {"reference": str(reference), "prediction": str(prediction), **record}
    about = about_evaluation(record, scoring, inputs, scored, sha256_of_files=sha256)
    about["inputs"] |= {"strata_without_cases": cases_of.without_cases}
    return _described(scored, cases_of, inputs, options, requirements, about)


def _scored(
    inputs: Inputs,
    labels: Labels | None,
    options: EvaluateOptions,
    kept: KeptScores | None,
    progress: Progress,
) -> tuple[ScoredPairs, Inputs]:
    """The scores of the files, and the files with a note on those that had been scored before."""
    n_cases = len(inputs.pairs)
    scored = score_pairs(
        inputs.pairs,
        labels,
        options.scoring,
        jobs=options.jobs,
        workers=options.workers,
        earlier=kept.known(labels, options.scoring) if kept else {},
        keep=kept.add if kept else lambda one: None,
        progress=lambda n_done: progress(n_done, n_cases),
    )
    if kept and kept.resume:
        taken = (
            f"Scores of {scored.n_known} of {n_cases} cases were taken over from an interrupted run"
        )
        note = f"{taken}: their files and the options are unchanged."
        inputs = replace(inputs, notes=(*inputs.notes, note))
    return scored, inputs


def _described(
    scored: ScoredPairs,
    cases_of: Division,
    inputs: Inputs,
    options: EvaluateOptions,
    requirements: Sequence[Requirement],
    about: Mapping[str, Any],
) -> Evaluation:
    """The evaluation of scored cases."""
    scores = scored.table
    scoring = options.scoring
    patients = cases_of.patient_of_case
    draws = {"n_resamples": options.n_resamples, "seed": options.seed}
    statistics = summarise(
        scores,
        cases_of.strata,
        metrics=scoring.metrics,
        patient_of_case=patients,
        one_sided=one_sided_of(requirements),
        failure=str(options.failed_if),
        **draws,
    )
    sizes = pd.DataFrame()
    if scoring.instances:
        sizes = lesion_sizes(scored.lesions, cases_of.strata, patient_of_case=patients, **draws)
    checked = with_absent(statistics, cases_of.absent) if requirements else statistics
    outcomes = check_requirements(checked, requirements, in_pixels=in_pixels(scores))
    if options.patient is None:
        on_patients = note_on_repeated_patients(cases_of.cases)
    else:
        on_patients = note_on_patients(options.patient, patients)
    own_notes = _notes(inputs, scores, scoring, scored.only_predicted, statistics)
    if cases_of.table is not None:
        scores = scores.merge(
            cases_of.table.rename(columns=column_in_scores), on="case", how="left"
        )
    return Evaluation(
        method=options.method or inputs.method,
        scores=scores,
        strata=statistics,
        stratum_of_case=cases_of.strata,
        worst=worst_strata(statistics, reference=options.reference_stratum),
        false_positives=false_positives(scores),
        lesions=scored.lesions,
        lesion_sizes=sizes,
        about={**about, "requirements": [outcome.record for outcome in outcomes]},
        notes=(*cases_of.notes, *own_notes, *on_patients),
    )


def _find_inputs(
    reference: Path,
    prediction: Path,
    references: set[str],
    labels: Labels | None,
    options: EvaluateOptions,
) -> tuple[Inputs, ScoredPairs | None]:
    """The files, and their scores where a summary.json has them already."""
    if prediction.suffix != ".json" or prediction.is_dir():
        return find_inputs(
            reference, prediction, missing=options.missing, folds=options.folds
        ), None
    if options.folds:
        got = f"{str(prediction)!r}, which has its own"
        raise ValueError(
            f"`folds` must come with the folder of a model, got {got}. Leave -f out, or give that folder."
        )
    scores, inputs = read_summary(prediction, labels, options.scoring)
    return matched_inputs(inputs, prediction, references, missing=options.missing), ScoredPairs(
        scores
    )


def _check_reference_stratum(name: str | None, strata: "Mapping[str, pd.Series[str]]") -> None:
    known = list(
        dict.fromkeys(str(s) for of_case in strata.values() for s in of_case.cat.categories)
    )
    if name is not None and name not in known:
        cure = f"Choose from: {name_some(known, at_most=20)}."
        raise ValueError(f"`reference_stratum` must be a stratum of --by, got {name!r}. {cure}")


def _check_requirements_apply(
    requirements: Sequence[Requirement],
    cases_of: Division,
    labels: Labels | None,
    scoring: Scoring,
    *,
    with_intervals: bool,
) -> None:
    """Check, before the long work, that every requirement is about a stratum and a label that exist."""
    if not requirements:
        return
    if labels is None:
        # The labels are not known before the references are read; the rest can be checked.
        requirements = [replace(requirement, label=None) for requirement in requirements]
    names = labels.values if labels else ["any"]
    rows = pd.MultiIndex.from_product([cases_of.cases, names], names=["case", "label"]).to_frame(
        index=False
    )
    unknown = rows.assign(**dict.fromkeys(scoring.metrics, float("nan")))
    # Without names of labels any label may be one whose lesions are compared.
    with_lesions = [labels is None or scoring.has_lesions(label) for label in unknown["label"]]
    unknown[LESION_COUNTS[0]] = [0.0 if has else float("nan") for has in with_lesions]
    statistics = summarise(
        unknown,
        cases_of.strata,
        metrics=scoring.metrics,
        patient_of_case=cases_of.patient_of_case,
        one_sided=one_sided_of(requirements),
        n_resamples=0,
    )
    known = statistics if with_intervals else without_intervals(statistics)
    check_requirements(with_absent(known, cases_of.absent), requirements)


def _notes(
    inputs: Inputs,
    scores: pd.DataFrame,
    scoring: Scoring,
    only_predicted: Sequence[str],
    statistics: pd.DataFrame,
) -> list[str]:
    notes = list(inputs.notes)
    if only_predicted:
        names = name_some(only_predicted)
        notes.append(
            f"Values that occur only in predictions are not scored: {names}. A dataset.json would name them."
        )
    one_sided = (scores["n_reference"] == 0) != (scores["n_prediction"] == 0)
    for metric in scoring.metrics:
        known = METRICS[metric]
        # Of lesions that are missed or invented, the distance is known.
        if (
            known.unit != "mm"
            or known.on_lesions
            or not (lost := int((one_sided & scores[metric].isna()).sum()))
        ):
            continue
        notes.append(
            f"{METRICS[metric].title} leaves out {count(lost, 'row')} of scores.csv where only "
            "the reference or only the prediction has the label; Dice counts them as 0."
        )
    units = {METRICS[metric].unit for metric in scoring.metrics}
    if in_pixels(scores) and (what := [noun for unit, noun in _SIZES.items() if unit in units]):
        notes.append(f"The images have no voxel size: {' and '.join(what)} are in pixels (px).")
    return [*notes, *percentile_notes(statistics)]
