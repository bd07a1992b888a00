"""Pictures of the worst cases.

Planes through the largest disagreement, with the outlines of both label maps.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.inputs.folders import labels_by_value
from nnunet_dro.evaluation.report.formatting import (
    attribute_title,
    metric_named,
    quantity,
    stratum_title,
)
from nnunet_dro.evaluation.scoring.dicom import is_dicom
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import Labels, grid_of_image
from nnunet_dro.evaluation.scoring.map_pairs import labels_of, read_pair
from nnunet_dro.evaluation.scoring.readers import reader_for
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.stratifying.images import (
    PLANES,
    Orientation,
    align,
    find_image,
    read_onto,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.pictures import SMALL, Plane, grey_levels, plane_at

#: The most pictures of a page.
_MOST = 60

#: Share of the label's extent shown around it, and the least, in voxels.
_MARGIN = 0.5
_LEAST_MARGIN = 12

#: About how wide a picture that is alone in its frame is shown, in CSS pixels, and the most bytes
#: that it takes.
_ALONE = 464
_MOST_BYTES_ALONE = 60_000


@dataclass(frozen=True)
class Choice:
    """A case to show, which is the ``rank``-th worst (from 0) of its stratum and label."""

    attribute: str
    stratum: str
    label: str
    case: str
    value: float
    rank: int = 0

    @property
    def reason(self) -> str:
        """The stratum it is among the worst of, as text."""
        if self.attribute == ALL:
            return "among the worst of all cases"
        return f"{attribute_title(self.attribute)}: {stratum_title(self.attribute, self.stratum)}"


@dataclass(frozen=True)
class GalleryEntry:
    """The pictures of one case and label."""

    case: str
    label: str
    score: str  # the metric and its value
    strata: tuple[str, ...]  # those it is among the worst of, as text
    planes: tuple[Plane, ...]  # three; in two dimensions one, which has no name


def worst_cases(
    evaluation: Evaluation, *, per_stratum: int = 2, among: Collection[str] | None = None
) -> list[Choice]:
    """The worst cases of every stratum and label by the first metric, in their order.

    All have a value, and are ``among`` those that can be shown (None: all can). Where they are more
    than fit a page, the worst case of every stratum goes before any second-worst case, and worse
    values go first.
    """
    metric = metric_named(evaluation.metrics[0])
    scores = evaluation.scores[evaluation.scores[metric.name].notna()]
    if among is not None:
        scores = scores[scores["case"].isin(list(among))]
    scores = scores.assign(goodness=metric.goodness(scores[metric.name]))
    scores = scores.sort_values(["goodness", "case"])

    choices = []
    strata = evaluation.strata[["attribute", "stratum", "label"]].drop_duplicates()
    for attribute, stratum, label in strata.itertuples(index=False):
        stratum_of_case = evaluation.stratum_of_case[attribute].astype(object)
        in_stratum = scores["case"].map(stratum_of_case) == stratum
        has_label = scores["label"] == label
        worst = scores[in_stratum & has_label].head(per_stratum)

        for rank, row in enumerate(worst.to_dict("records")):
            choices.append(
                Choice(
                    attribute,
                    stratum,
                    label,
                    case=str(row["case"]),
                    value=row[metric.name],
                    rank=rank,
                )
            )

    most_urgent = set(by_urgency(choices, evaluation)[:_MOST])
    return [choice for choice in choices if choice in most_urgent]


def by_urgency(choices: Sequence[Choice], evaluation: Evaluation) -> list[Choice]:
    """Choices where there is not room for all.

    The worst of every stratum and label, worse first, then the second.
    """
    metric = metric_named(evaluation.metrics[0])

    def urgency(choice: Choice) -> tuple[int, float]:
        return choice.rank, metric.goodness(choice.value)

    return sorted(choices, key=urgency)


def score_text(choice: Choice, evaluation: Evaluation) -> str:
    """The metric of a choice and its value."""
    metric = metric_named(evaluation.metrics[0], evaluation.scores)
    return f"{metric.title} {quantity(choice.value, metric)}"


def worst_with_files(
    evaluation: Evaluation, per_stratum: int
) -> tuple[Labels, dict[str, tuple[Path, Path]], list[Choice]]:
    """Labels, label maps and worst cases of an evaluation that was read from its folder.

    Cases that have no prediction are in neither: nobody can show them.
    """
    files = {
        case: (Path(reference), Path(prediction))
        for case, (reference, prediction) in evaluation.about["inputs"]["files"].items()
        if prediction
    }
    references = [reference for reference, _ in files.values()]
    labels = labels_of(evaluation.options.dataset_json, references)
    labels = labels or labels_by_value(evaluation.labels)

    choices = worst_cases(evaluation, per_stratum=per_stratum, among=files)
    for choice in choices:
        if choice.label not in labels.values:
            raise InputError(
                "labels",
                must="have the values of every label",
                got=f"none of {choice.label!r}",
                cure="Add them.",
            )
    return labels, files, choices


def by_picture(choices: Sequence[Choice]) -> dict[tuple[str, str], list[Choice]]:
    """The choices of each case and label, which are shown together."""
    choices_by_picture: dict[tuple[str, str], list[Choice]] = defaultdict(list)
    for choice in choices:
        choices_by_picture[choice.case, choice.label].append(choice)
    return choices_by_picture


def labels_by_case(choices: Sequence[Choice]) -> dict[str, list[str]]:
    """Case to the labels that it is shown for: its files are read once for all of them."""
    names: dict[str, list[str]] = defaultdict(list)
    for case, label in by_picture(choices):
        names[case].append(label)
    return names


def pictures_of(
    evaluation: Evaluation,
    images: Path,
    *,
    per_stratum: int = 2,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> list[GalleryEntry]:
    """Pictures of the worst cases of an evaluation.

    Of the images, the first channel is shown. A case and label among the worst of several strata
    appears once.
    """
    labels, files, choices = worst_with_files(evaluation, per_stratum)
    choices_by_picture = by_picture(choices)

    planes: dict[tuple[str, str], tuple[Plane, ...]] = {}
    for case, names in labels_by_case(choices).items():
        planes_by_label = _case_planes(find_image(images, case), files[case], labels, names)
        planes |= {(case, name): planes_by_label[name] for name in names}
        progress(len(planes), len(choices_by_picture))

    entries = []
    for (case, label), same_picture in choices_by_picture.items():
        entries.append(
            GalleryEntry(
                case,
                label,
                score=score_text(same_picture[0], evaluation),
                strata=tuple(choice.reason for choice in same_picture),
                planes=planes[case, label],
            )
        )
    return entries


def read_case(
    files: tuple[Path, Path], labels: Labels, image: Path
) -> tuple[Grid, npt.NDArray[Any], npt.NDArray[Any]]:
    """The grid and the values of a reference, and the values of the prediction on it.

    DICOM segmentations are laid on the grid of the image. The prediction is 0 where the reference
    has the value to ignore.
    """
    reference_path, prediction_path = files
    grid = None
    if is_dicom(reference_path):
        grid = grid_of_image(image, labels)
    reference, prediction = read_pair(reference_path, prediction_path, labels, image=grid)
    aligned = align(
        prediction.values,
        prediction.grid,
        reference.grid,
        prediction_path,
        reference_path,
    )
    if labels.ignore is not None:
        aligned = np.where(reference.values == labels.ignore, 0, aligned)
    return reference.grid, reference.values, aligned


def worst_place(
    reference: npt.NDArray[np.bool_], prediction: npt.NDArray[np.bool_]
) -> tuple[int, ...]:
    """The voxel where the planes with most disagreement meet.

    Without any, those with most of the label.
    """
    shown = reference != prediction
    # Even a perfect case can be the worst of its stratum.
    if not shown.any():
        shown = reference

    place = []
    for axis in range(3):
        others = tuple(other for other in range(3) if other != axis)
        n_shown = shown.sum(axis=others)
        place.append(int(n_shown.argmax()))
    return tuple(place)


def _case_planes(
    image: Path, files: tuple[Path, Path], labels: Labels, names: Sequence[str]
) -> dict[str, tuple[Plane, ...]]:
    """The planes of some labels of a case, its maps and its image turned to face the reader."""
    reader = reader_for(files[0], labels.reader)
    grid, reference, prediction = read_case(files, labels, image)

    orientation = Orientation.of(grid)
    grey = orientation.apply(grey_levels(read_onto(image, grid, files[0], reader)))
    reference = orientation.apply(reference)
    prediction = orientation.apply(prediction)
    spacing = orientation.spacing(grid.spacing)

    planes = {}
    for name in names:
        values = labels.values[name]
        planes[name] = _planes(
            grey,
            np.isin(reference, values),
            np.isin(prediction, values),
            spacing,
        )
    return planes


def _planes(
    grey: npt.NDArray[np.float64],
    reference: npt.NDArray[np.bool_],
    prediction: npt.NDArray[np.bool_],
    spacing: Sequence[float],
) -> tuple[Plane, ...]:
    """The planes through the worst place; in two dimensions one, which has no name."""
    place = worst_place(reference, prediction)
    is_flat = grey.shape[0] == 1
    names = {0: ""} if is_flat else dict(enumerate(PLANES))
    shown = _ALONE if is_flat else _ALONE // 3
    size = (2 * _ALONE, _MOST_BYTES_ALONE) if is_flat else SMALL

    planes = []
    for axis, name in names.items():
        image = plane_at(grey, axis, place[axis])
        truth = plane_at(reference, axis, place[axis])
        guess = plane_at(prediction, axis, place[axis])
        window = (_span(truth | guess, 0), _span(truth | guess, 1))
        planes.append(
            Plane.of(
                name,
                image[window],
                [("reference", truth[window]), ("prediction", guess[window])],
                [spacing[other] for other in range(3) if other != axis],
                shown=shown,
                size=size,
            )
        )
    return tuple(planes)


def _span(mask: npt.NDArray[np.bool_], axis: int) -> slice:
    """The label's extent along an axis with a margin.

    Everything where the label is not in this plane.
    """
    size = mask.shape[axis]
    inside = np.flatnonzero(mask.any(axis=1 - axis))
    if not len(inside):
        return slice(0, size)

    first = int(inside[0])
    last = int(inside[-1]) + 1
    # The margin is the same on both axes, for otherwise a long thin label would lack its
    # surroundings.
    across = np.flatnonzero(mask.any(axis=axis))
    extent = last - first
    extent_across = int(across[-1]) - int(across[0]) + 1
    margin = max(_LEAST_MARGIN, round(_MARGIN * max(extent, extent_across)))

    return slice(
        max(0, first - margin),
        min(size, last + margin),
    )
