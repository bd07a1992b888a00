"""From files to an evaluation.

Score every case, divide the cases into strata, describe the strata.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.inputs.folders import Inputs, find_inputs
from nnunet_dro.evaluation.inputs.nnunet_summary import matched_inputs, read_summary
from nnunet_dro.evaluation.inputs.options import EvaluateOptions
from nnunet_dro.evaluation.judging.early_check import (
    check_requirements_apply,
    reported_stratum,
)
from nnunet_dro.evaluation.judging.outcomes import check_requirements
from nnunet_dro.evaluation.judging.requirements import Requirement, one_sided_of, parse_requirement
from nnunet_dro.evaluation.scoring.kept_scores import KeptScores
from nnunet_dro.evaluation.scoring.label_maps import Labels, list_label_maps
from nnunet_dro.evaluation.scoring.map_pairs import labels_of
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.scoring.score_cases import ScoredPairs, score_pairs
from nnunet_dro.evaluation.scoring.score_files import ScoredPair, sha256_of
from nnunet_dro.evaluation.scoring.scoring import Scoring
from nnunet_dro.evaluation.statistics.evaluation_result import (
    Evaluation,
    about_evaluation,
    column_in_scores,
)
from nnunet_dro.evaluation.statistics.lesion_sizes import lesion_sizes
from nnunet_dro.evaluation.statistics.notes import notes_on_patients, notes_on_scores
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.evaluation.stratifying.division import Division, with_absent
from nnunet_dro.evaluation.stratifying.segmentations import with_images
from nnunet_dro.naming import count, name_some
from nnunet_dro.nnunet.folders import find_dataset_json

Progress = Callable[[int, int], None]


def evaluate(
    reference: Path | str,
    prediction: Path | str,
    options: EvaluateOptions | None = None,
    *,
    kept: KeptScores | None = None,
    invalid: Mapping[str, str] | None = None,
    progress: Progress = lambda n_done, n_cases: None,
    **fields: Any,
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
        invalid: Case to why its prediction cannot be scored, which counts as failed. None for none.
        progress: Called with the number of finished cases and the number of all cases.
        **fields: Fields of `EvaluateOptions`, in place of those in ``options``.

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
    all_options = replace(options or EvaluateOptions(), **fields)
    all_options.check()
    return _evaluation(
        Path(reference),
        Path(prediction),
        all_options,
        kept=kept,
        invalid=invalid or {},
        progress=progress,
    )


def _evaluation(
    reference: Path,
    prediction: Path,
    options: EvaluateOptions,
    *,
    kept: KeptScores | None,
    invalid: Mapping[str, str],
    progress: Progress,
) -> Evaluation:
    """The evaluation of files, by options that have been checked; see `evaluate`."""
    options = replace(options, dataset_json=options.dataset_json or find_dataset_json(reference))
    requirements = [parse_requirement(text) for text in options.requirements]

    # Whatever does not fit is reported before the long work.
    references = list_label_maps(reference)
    labels = labels_to_score(options, references)
    inputs, scored = _find_inputs(reference, prediction, set(references), labels, options)
    division = Division.of(
        inputs,
        reference,
        references,
        options,
        labels=labels,
        progress=progress,
    )
    options = replace(
        options, reference_stratum=reported_stratum(options.reference_stratum, division.strata)
    )
    check_requirements_apply(requirements, division, labels, options)

    contents = {"case_table": division.path, "dataset_json": options.dataset_json}
    if scored is None:
        inputs = inputs.without(invalid)
        scored, inputs = _scored(inputs, labels, options, kept, progress)
    else:
        # Its contents stand for those of the predictions.
        contents["summary_json"] = prediction

    folders = {"reference": str(reference), "prediction": str(prediction)}
    about = about_evaluation(
        folders | _record(options, division),
        options.scoring,
        inputs,
        scored,
        division,
        sha256_of_files={name: sha256_of(path) for name, path in contents.items() if path},
    )
    return _described(scored, division, inputs, options, requirements, about)


def labels_to_score(options: EvaluateOptions, references: Mapping[str, Path]) -> Labels | None:
    """As from `labels_of`; those that are compared lesion by lesion must be among them."""
    labels = labels_of(options.dataset_json, references.values())
    instances = options.scoring.instances
    if instances and labels:
        instances.check_labels(list(labels.values))
    return labels


def _record(options: EvaluateOptions, division: Division) -> dict[str, Any]:
    """The options for summary.json, with the files that were found in place of defaults."""
    dataset_json = options.dataset_json
    # Absolute, so that the report can be made again from anywhere.
    if dataset_json:
        dataset_json = dataset_json.absolute()
    return replace(
        options,
        cases=division.path,
        dataset_json=dataset_json,
        # As the case table spells it.
        patient=getattr(division.patient_of_case, "name", None),
    ).record()


def _scored(
    inputs: Inputs,
    labels: Labels | None,
    options: EvaluateOptions,
    kept: KeptScores | None,
    progress: Progress,
) -> tuple[ScoredPairs, Inputs]:
    """The scores of the files, and the files with a note on those that had been scored before."""
    n_cases = len(inputs.pairs)
    earlier = kept.known(labels, options.scoring) if kept else {}

    def keep(scores: ScoredPair) -> None:
        if kept:
            kept.add(scores)

    scored = score_pairs(
        inputs.pairs,
        labels,
        options.scoring,
        jobs=options.jobs,
        workers=options.workers,
        earlier=earlier,
        keep=keep,
        progress=lambda n_done: progress(n_done, n_cases),
    )
    _check_voxel_sizes(scored.table, options.scoring)
    if kept and kept.resume:
        note = (
            f"Scores of {scored.n_known} of {count(n_cases, 'case')} were taken over from an "
            "interrupted run: their files and the options are unchanged."
        )
        inputs = replace(inputs, notes=(*inputs.notes, note))
    return scored, inputs


def _check_voxel_sizes(scores: pd.DataFrame, scoring: Scoring) -> None:
    """Check that what is measured is in mm and ml in all cases, or in pixels in all."""
    is_unknown = scores["reference_ml"].isna()
    needs_sizes = any(METRICS[name].needs_voxel_size for name in scoring.metrics)
    if (needs_sizes or scoring.instances) and is_unknown.any() and not is_unknown.all():
        raise InputError(
            "reference",
            must="have a voxel size in all cases or in none to measure lengths, volumes or lesions",
            got=f"none in {name_some(scores.loc[is_unknown, 'case'].unique().tolist())}",
            cure=(
                "TIFF files need a CASE.json beside them, pictures another format. Dice does "
                "without."
            ),
        )


def _described(
    scored: ScoredPairs,
    division: Division,
    inputs: Inputs,
    options: EvaluateOptions,
    requirements: Sequence[Requirement],
    about: Mapping[str, Any],
) -> Evaluation:
    """The evaluation of scored cases."""
    scoring = options.scoring
    statistics = summarise(
        scored.table,
        division.strata,
        metrics=scoring.metrics,
        patient_of_case=division.patient_of_case,
        patient_score=options.patient_score,
        one_sided=one_sided_of(requirements),
        failure=str(options.failed_if),
        n_resamples=options.n_resamples,
    )
    sizes = pd.DataFrame()
    if scoring.instances:
        sizes = lesion_sizes(
            scored.lesions,
            division.strata,
            patient_of_case=division.patient_of_case,
            n_resamples=options.n_resamples,
        )

    checked = with_absent(statistics, division.absent) if requirements else statistics
    outcomes = check_requirements(checked, requirements, in_pixels=in_pixels(scored.table))
    return Evaluation(
        method=options.method or inputs.method,
        scores=_with_entries(scored.table, division.table),
        strata=statistics,
        stratum_of_case=division.strata,
        worst=worst_strata(statistics, reference=options.reference_stratum),
        false_positives=false_positives(scored.table),
        lesions=scored.lesions,
        lesion_sizes=sizes,
        about={**about, "requirements": [outcome.record for outcome in outcomes]},
        notes=(
            *division.notes,
            *inputs.notes,
            *notes_on_scores(scored, scoring),
            *notes_on_patients(division, options),
        ),
    )


def _with_entries(scores: pd.DataFrame, case_table: pd.DataFrame | None) -> pd.DataFrame:
    """The scores, with what the case table says of each case beside them."""
    if case_table is None:
        return scores
    entries = case_table.rename(columns=column_in_scores)
    return scores.merge(entries, on="case", how="left")


def _find_inputs(
    reference: Path,
    prediction: Path,
    references: set[str],
    labels: Labels | None,
    options: EvaluateOptions,
) -> tuple[Inputs, ScoredPairs | None]:
    """The files, and their scores where a summary.json has them already."""
    is_summary = prediction.suffix == ".json" and not prediction.is_dir()
    if not is_summary:
        inputs = find_inputs(
            reference,
            prediction,
            missing=options.missing,
            folds=options.folds,
        )
        unread = None if labels else find_dataset_json(prediction)
        if unread:
            notes = (
                *inputs.notes,
                "Every value in the references is a label, since no dataset.json is in or above "
                f"them. {unread} is not read: --dataset-json takes names, regions and the value to "
                "ignore from it.",
            )
            inputs = replace(inputs, notes=notes)
        return with_images(inputs, labels, options), None

    if options.folds:
        raise ValueError(
            "`folds` must come with the folder of a model, "
            f"got {str(prediction)!r}, which has its own. Leave -f out, or give that folder."
        )
    scores, inputs = read_summary(prediction, labels, options.scoring, references)
    inputs = matched_inputs(inputs, prediction, references, missing=options.missing)
    return inputs, ScoredPairs(scores)
