"""From files to an evaluation: score every case, divide the cases into strata, describe the strata."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.choices import EmptyRule, MissingRule, choice_of
from nnunet_dro.evaluation.evaluation_result import Evaluation, column_in_scores
from nnunet_dro.evaluation.inputs import Inputs, find_inputs, matched_inputs, read_summary
from nnunet_dro.evaluation.judging.outcomes import check_requirements
from nnunet_dro.evaluation.judging.requirements import Requirement, one_sided_of
from nnunet_dro.evaluation.options import EvaluationOptions
from nnunet_dro.evaluation.provenance import about_evaluation
from nnunet_dro.evaluation.scoring.failures import failure_of
from nnunet_dro.evaluation.scoring.instances import LESION_COUNTS, Instances
from nnunet_dro.evaluation.scoring.kept_scores import KeptScores
from nnunet_dro.evaluation.scoring.label_maps import list_label_maps
from nnunet_dro.evaluation.scoring.labels import Labels, read_labels
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.scoring.score_arrays import Scoring
from nnunet_dro.evaluation.scoring.score_files import ScoredPairs, score_pairs, sha256_of
from nnunet_dro.evaluation.statistics.lesion_sizes import lesion_sizes
from nnunet_dro.evaluation.statistics.patients import note_on_patients, note_on_repeated_patients
from nnunet_dro.evaluation.statistics.stratum_statistics import (
    false_positives,
    percentile_notes,
    summarise,
    worst_strata,
)
from nnunet_dro.evaluation.stratifying.auto_strata import with_auto_columns
from nnunet_dro.evaluation.stratifying.division import Division, with_absent
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.dataset_json import find_dataset_json


def evaluate(
    reference: Path,
    prediction: Path,
    *,
    dataset_json: Path | None = None,
    cases: Path | None = None,
    images: Path | None = None,
    by: Sequence[str] = (),
    overall: bool = False,
    reference_stratum: str | None = None,
    patient: str | None = None,
    metrics: Sequence[str] = ("dice",),
    nsd_tolerance_mm: float = 1.0,
    empty: EmptyRule | str = EmptyRule.UNDEFINED,
    instances: Instances | None = None,
    missing: MissingRule | str = MissingRule.ERROR,
    failure: str | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    jobs: int | None = None,
    workers: str | None = None,
    kept: KeptScores | None = None,
    method: str | None = None,
    requirements: Sequence[Requirement] = (),
    progress: Callable[[int, int], None] = lambda n_done, n_cases: None,
) -> Evaluation:
    """Evaluate predictions per stratum of the cases.

    Args:
        reference: Folder of reference label maps.
        prediction: Folder of predicted label maps; or a model folder of nnU-Net (its folds' validation predictions
            together); or a summary.json of nnU-Net (then no label map is read).
        dataset_json: The file that names labels and regions. None looks for it in and above ``reference``; without one,
            each value in the references is a label.
        cases: The case table, with a row for every evaluated case. None takes ``cases.csv`` of the dataset of the
            references (see `case_table_of`) where ``by`` or ``patient`` names a column.
        images: Folder of nnU-Net images, for attributes that are computed from them.
        by: What divides the cases: columns of the case table, intersections, or cut columns; see `parse_by`. Attributes
            such as ``auto:size`` are computed; see `ATTRIBUTES`.
        overall: Whether to report all cases together, too, as the attribute ``all``, where ``by`` divides them.
        reference_stratum: The stratum to compare the worst with; None for the best. In the attributes that have it.
        patient: Column of the case table that names the patient of each case. None takes all cases for independent.
        metrics: Names from `METRICS`.
        nsd_tolerance_mm: Tolerance of the normalised surface distance, mm.
        empty: How to score a label that reference or prediction lacks; see `Scoring`.
        instances: The labels to compare lesion by lesion, and how; None for none.
        missing: ``error``, or ``worst`` to score a missing prediction as failed (fractions 0, distances the diagonal of
            the image).
        failure: When a case has failed, a condition on one of the metrics, as ``dice<0.5``, which None stands for.
        n_resamples: Number of bootstrap resamples per stratum; 0 for no intervals.
        seed: Random seed of the bootstrap.
        jobs: Number of cases to score at a time; None follows joblib's configuration (one at a time without any).
        workers: Address of a dask scheduler, on whose workers to score in place of threads; they must see the files
            under the same paths.
        kept: Where to keep finished cases, and where those of an interrupted run are; see `keeping`. Those whose files
            and options are unchanged are taken over, and a note says how many.
        method: Name of the method that made the predictions; None takes it from the path.
        requirements: Requirements to check; the outcomes are in ``about["requirements"]``.
        progress: Called with the number of finished cases and the number of all cases.

    Returns:
        The scores, and their statistics per stratum.

    Raises:
        FileNotFoundError: If a file is missing; the message names it or its case.
        ValueError: If an input cannot be used; the message names it.

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
    scoring = Scoring(tuple(metrics), nsd_tolerance_mm, empty, instances)
    missing = choice_of(MissingRule, missing, name="missing")
    failed_if = failure_of(failure, scoring.metrics)
    dataset_json = dataset_json or find_dataset_json(reference)
    labels = read_labels(dataset_json) if dataset_json else None
    if instances and labels:
        instances.check_labels(list(labels.values))
    references = list_label_maps(reference)
    inputs, of_summary = _find_inputs(reference, prediction, set(references), labels, scoring, missing)
    # Whatever does not fit is reported before the long work.
    cases_of = Division.of(
        inputs,
        cases,
        reference,
        references,
        by=by,
        overall=overall,
        patient=patient,
        measure=lambda table, of_cases: with_auto_columns(
            table,
            by,
            of_cases,
            images=images,
            ignore=labels.ignore if labels else None,
            jobs=jobs,
            workers=workers,
            progress=progress,
        ),
    )
    _check_reference_stratum(reference_stratum, cases_of.strata)
    _check_requirements_apply(requirements, cases_of, labels, scoring, with_intervals=n_resamples > 0)
    contents = {"case_table": cases_of.path, "dataset_json": dataset_json}
    if of_summary is not None:
        # Its contents stand for those of the predictions.
        contents["summary_json"] = prediction
        scored = ScoredPairs(of_summary)
    else:
        scored, inputs = _scored(inputs, labels, scoring, kept, jobs=jobs, workers=workers, progress=progress)
    sha256 = {name: sha256_of(path) for name, path in contents.items() if path}
    options = EvaluationOptions(
        reference=str(reference),
        prediction=str(prediction),
        # Absolute, so that the report can be made again from anywhere.
        dataset_json=str(dataset_json.absolute()) if dataset_json else None,
        cases=str(cases_of.path) if cases_of.path else None,
        images=str(images) if images else None,
        by=tuple(by),
        overall=overall,
        reference_stratum=reference_stratum,
        patient=patient,
        metrics=scoring.metrics,
        nsd_tolerance_mm=nsd_tolerance_mm,
        empty=EmptyRule(scoring.empty).value,
        instances=instances.about if instances else None,
        missing=missing.value,
        failure=str(failed_if),
        n_resamples=n_resamples,
        seed=seed,
    )
    about = about_evaluation(options.record(), scoring, inputs, scored, sha256_of_files=sha256)
    return _described(scored, cases_of, inputs, scoring, requirements, about, method=method)


def _scored(
    inputs: Inputs,
    labels: Labels | None,
    scoring: Scoring,
    kept: KeptScores | None,
    *,
    jobs: int | None,
    workers: str | None,
    progress: Callable[[int, int], None],
) -> tuple[ScoredPairs, Inputs]:
    """The scores of the files, and the files with a note on those that had been scored before."""
    n_cases = len(inputs.pairs)
    known = kept.known(labels, scoring) if kept else {}
    scored = score_pairs(
        inputs.pairs,
        labels,
        scoring,
        jobs=jobs,
        workers=workers,
        known=known,
        keep=kept.add if kept else lambda one: None,
        progress=lambda n_done: progress(n_done, n_cases),
    )
    if kept and kept.resume:
        taken = f"Scores of {scored.n_known} of {n_cases} cases were taken over from an interrupted run"
        note = f"{taken}: their files and the options are unchanged."
        inputs = replace(inputs, notes=(*inputs.notes, note))
    return scored, inputs


def _described(
    scored: ScoredPairs,
    cases_of: Division,
    inputs: Inputs,
    scoring: Scoring,
    requirements: Sequence[Requirement],
    about: Mapping[str, Any],
    *,
    method: str | None,
) -> Evaluation:
    """The evaluation of scored cases; the other options are those in ``about``."""
    options, scores = EvaluationOptions.of(about), scored.table
    statistics = summarise(
        scores,
        cases_of.strata,
        metrics=scoring.metrics,
        patient_of_case=cases_of.patient_of_case,
        one_sided=one_sided_of(requirements),
        failure=options.failure,
        n_resamples=options.n_resamples,
        seed=options.seed,
    )
    sizes = pd.DataFrame()
    if scoring.instances:
        sizes = lesion_sizes(
            scored.lesions,
            cases_of.strata,
            patient_of_case=cases_of.patient_of_case,
            n_resamples=options.n_resamples,
            seed=options.seed,
        )
    checked = with_absent(statistics, cases_of.absent) if requirements else statistics
    outcomes = check_requirements(checked, requirements, in_pixels=in_pixels(scores))
    if options.patient is None:
        on_patients = note_on_repeated_patients(cases_of.cases)
    else:
        on_patients = note_on_patients(options.patient, cases_of.patient_of_case)
    return Evaluation(
        method=method or inputs.method,
        scores=scores
        if cases_of.table is None
        else scores.merge(cases_of.table.rename(columns=column_in_scores), on="case", how="left"),
        strata=statistics,
        stratum_of_case=cases_of.strata,
        worst=worst_strata(statistics, reference=options.reference_stratum),
        false_positives=false_positives(scores),
        lesions=scored.lesions,
        lesion_sizes=sizes,
        about={**about, "requirements": [outcome.record for outcome in outcomes]},
        notes=(
            *cases_of.notes,
            *_notes(inputs, scores, scoring, scored.only_predicted, statistics),
            *on_patients,
        ),
    )


def _find_inputs(
    reference: Path,
    prediction: Path,
    references: set[str],
    labels: Labels | None,
    scoring: Scoring,
    missing: MissingRule,
) -> tuple[Inputs, pd.DataFrame | None]:
    """The files, and their scores where a summary.json has them already."""
    if prediction.suffix != ".json" or prediction.is_dir():
        return find_inputs(reference, prediction, missing=missing), None
    summary = read_summary(prediction, labels, scoring)
    return matched_inputs(summary.inputs, prediction, references, missing=missing), summary.scores


def _check_reference_stratum(name: str | None, strata: "Mapping[str, pd.Series[str]]") -> None:
    known = list(dict.fromkeys(str(s) for of_case in strata.values() for s in of_case.cat.categories))
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
    rows = pd.MultiIndex.from_product([cases_of.cases, names], names=["case", "label"]).to_frame(index=False)
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
    if not with_intervals:
        ends = ("_low", "_high", "_guaranteed")
        statistics = statistics.drop(columns=[c for c in statistics.columns if c.endswith(ends)])
    check_requirements(with_absent(statistics, cases_of.absent), requirements)


def _notes(
    inputs: Inputs, scores: pd.DataFrame, scoring: Scoring, only_predicted: Sequence[str], statistics: pd.DataFrame
) -> list[str]:
    notes = list(inputs.notes)
    if only_predicted:
        names = name_some(only_predicted)
        notes.append(f"Values that occur only in predictions are not scored: {names}. A dataset.json would name them.")
    one_sided = (scores["n_reference"] == 0) != (scores["n_prediction"] == 0)
    for metric in scoring.metrics:
        known = METRICS[metric]
        # Of lesions that are missed or invented, the distance is known.
        if known.unit != "mm" or known.on_lesions or not (lost := int((one_sided & scores[metric].isna()).sum())):
            continue
        notes.append(
            f"{METRICS[metric].title} leaves out {lost} row{'' if lost == 1 else 's'} of scores.csv where only "
            "the reference or only the prediction has the label; Dice counts them as 0."
        )
    if in_pixels(scores) and any(METRICS[metric].unit == "mm" for metric in scoring.metrics):
        notes.append("The images have no voxel size: distances are in pixels (px).")
    return [*notes, *percentile_notes(statistics)]
