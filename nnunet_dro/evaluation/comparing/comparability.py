"""Whether the numbers of several evaluations have the same options, references and units."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.comparing.common_ground import CommonGround, find_common_ground
from nnunet_dro.evaluation.scoring.instances import lesion_metrics
from nnunet_dro.evaluation.scoring.metrics import METRICS, in_pixels
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import check_rows
from nnunet_dro.naming import name_some


def comparable_ground(
    evaluations: Mapping[str, Evaluation], *, intersect: bool = False
) -> CommonGround:
    """Find what evaluations have in common, and check that its numbers can be compared."""
    ground = find_common_ground(evaluations, intersect=intersect)
    _check_options(evaluations, ground.metrics)
    _check_units(evaluations, ground.metrics)
    _check_references(evaluations, ground)

    notes = _notes_on_references(evaluations, ground.cases)
    return replace(ground, notes=(*ground.notes, *notes))


def _check_options(evaluations: Mapping[str, Evaluation], metrics: Collection[str]) -> None:
    """Check the options that change what a number means."""
    names = ["empty", "missing"]
    if any(METRICS[metric].has_tolerance for metric in metrics):
        names.append("nsd_tolerance_mm")
    if lesion_metrics(metrics):
        names.append("instances")

    (first, baseline), *others = evaluations.items()
    expected = baseline.about.get("options", {})

    for method, evaluation in others:
        options = evaluation.about.get("options", {})
        for name in names:
            # An evaluation that does not record the option, such as one made from other software's
            # files, is accepted.
            if name in expected and name in options and options[name] != expected[name]:
                raise InputError(
                    name,
                    must="be the same in every evaluation",
                    got=f"{expected[name]!r} in {first} and {options[name]!r} in {method}",
                    cure="Evaluate one again.",
                )


def _check_units(evaluations: Mapping[str, Evaluation], metrics: Collection[str]) -> None:
    """Check that what is measured is in mm and ml in every evaluation, or in pixels in every one.

    A reference without a voxel size has that of the prediction, which one method may not store.
    """
    needs_sizes = any(METRICS[metric].needs_voxel_size for metric in metrics)
    # Other software does not say what its units are.
    frames = {
        method: evaluation.scores
        for method, evaluation in evaluations.items()
        if "reference_ml" in evaluation.scores
    }
    with_pixels = [method for method, scores in frames.items() if in_pixels(scores)]
    if needs_sizes and 0 < len(with_pixels) < len(frames):
        raise InputError(
            "evaluations",
            must="measure in one unit",
            got=f"pixels in {name_some(with_pixels)} alone",
            cure="Give their label maps the voxel size, and evaluate again.",
        )


def _check_references(evaluations: Mapping[str, Evaluation], ground: CommonGround) -> None:
    """Check that references have the same size wherever it is known, and voxels where it matters.

    A reference without a voxel size has that of the prediction, which methods may state otherwise.
    """
    for evaluation in evaluations.values():
        check_rows(evaluation.scores, cure="Evaluate it again.")

    _check_sizes(
        evaluations,
        ground,
        ("n_reference", "voxels"),
        must="have the same reference in every evaluation",
        cure="Evaluate both with the same references.",
    )
    if any(METRICS[metric].needs_voxel_size for metric in ground.metrics):
        _check_sizes(
            evaluations,
            ground,
            ("reference_ml", "ml"),
            rounding=1e-4,
            must="have the same voxel size in every evaluation",
            cure="Give the reference its voxel size, and evaluate both again.",
        )


def _check_sizes(
    evaluations: Mapping[str, Evaluation],
    ground: CommonGround,
    measure: tuple[str, str],
    *,
    rounding: float = 0.0,
    must: str,
    cure: str,
) -> None:
    """Check that a size of the references, a column and its unit, is the same for all methods.

    Sizes may differ by ``rounding`` of their size.
    """
    column, unit = measure
    sizes = {
        method: ground.align(evaluation.scores, column)
        for method, evaluation in evaluations.items()
        if column in evaluation.scores
    }
    for method, size in sizes.items():
        first, expected = next(iter(sizes.items()))
        # NaN stands for an unknown size, which agrees with every other.
        is_known = ~np.isnan(size) & ~np.isnan(expected)
        differs = is_known & ~np.isclose(size, expected, rtol=rounding, atol=0)
        if differs.any():
            row, place = np.argwhere(differs)[0]
            raise InputError(
                ground.cases[row],
                must=must,
                got=(
                    f"{expected[row, place]:.10g} {unit} in {first} and {size[row, place]:.10g} in "
                    f"{method} of {ground.labels[place]!r}"
                ),
                cure=cure,
            )


def _notes_on_references(
    evaluations: Mapping[str, Evaluation], cases: Sequence[str]
) -> Iterator[str]:
    """A note on evaluations whose reference files are not those of the first one.

    This is no error, since files of other bytes can hold the same label map.
    """
    (first, baseline), *others = evaluations.items()
    expected = _reference_digests(baseline)

    methods = []
    differing: set[str] = set()
    for method, evaluation in others:
        digests = _reference_digests(evaluation)
        # What other software has computed has no digests.
        recorded = [case for case in cases if case in expected and case in digests]
        changed = {case for case in recorded if digests[case] != expected[case]}
        if changed:
            methods.append(method)
            differing |= changed

    if differing:
        yield (
            f"The reference files of {name_some(methods)} are not those of {first}, for "
            f"{name_some(sorted(differing))}: check that they hold the same label maps."
        )


def _reference_digests(evaluation: Evaluation) -> dict[str, str]:
    """Case to the SHA-256 of its reference file, where it is recorded."""
    digests = evaluation.inputs.get("files_sha256", {})
    return {case: reference for case, (reference, _) in digests.items()}
