"""Pictures of the worst cases.

Planes through the largest disagreement, with the outlines of both label maps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.inputs import labels_by_value
from nnunet_dro.evaluation.report.formatting import (
    attribute_title,
    metric_named,
    quantity,
    stratum_title,
)
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import Labels, read_label_map, read_labels
from nnunet_dro.evaluation.stratifying.images import (
    PLANES,
    Orientation,
    align,
    find_image,
    read_image,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.pictures import SMALL, Plane, cut, grey_levels

_MOST = 60  # The most pictures of a page.
# Share of the label's extent shown around it, and the least, in voxels.
_MARGIN = 0.5
_LEAST_MARGIN = 12
_ALONE = 464  # About how wide a picture that is alone in its frame is shown, in CSS pixels.


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


def worst_cases(evaluation: Evaluation, *, per_stratum: int = 2) -> list[Choice]:
    """The worst cases of every stratum and label by the first metric.

    If too many, each stratum's worst go first.
    """
    metric = metric_named(evaluation.metrics[0])
    ranked: list[Choice] = []
    defined = evaluation.scores[evaluation.scores[metric.name].notna()]
    strata = evaluation.strata[["attribute", "stratum", "label"]].drop_duplicates()
    for attribute, stratum, label in strata.itertuples(index=False):
        of_case = evaluation.stratum_of_case[attribute].astype(object)
        inside = defined[(defined["label"] == label) & (defined["case"].map(of_case) == stratum)]
        inside = inside.assign(goodness=metric.goodness(inside[metric.name])).sort_values(
            ["goodness", "case"]
        )
        worst = zip(inside["case"], inside[metric.name].tolist(), range(per_stratum), strict=False)
        ranked += [
            Choice(attribute, stratum, label, str(case), value, rank) for case, value, rank in worst
        ]
    chosen = {id(choice) for choice in by_urgency(ranked, evaluation)[:_MOST]}
    return [choice for choice in ranked if id(choice) in chosen]


def by_urgency(choices: Sequence[Choice], evaluation: Evaluation) -> list[Choice]:
    """Choices where there is not room for all.

    The worst of every stratum and label, worse first, then the second.
    """
    metric = metric_named(evaluation.metrics[0])
    return sorted(choices, key=lambda choice: (choice.rank, metric.goodness(choice.value)))


def score_text(choice: Choice, evaluation: Evaluation) -> str:
    """The metric of a choice and its value."""
    metric = metric_named(evaluation.metrics[0], evaluation.scores)
    return f"{metric.title} {quantity(choice.value, metric)}"


def worst_with_files(
    evaluation: Evaluation, per_stratum: int
) -> tuple[Labels, dict[str, tuple[Path, Path]], list[Choice]]:
    """Labels, label maps and worst cases of an evaluation read from its folder.

    Only of cases with a prediction.
    """
    path = evaluation.options.dataset_json
    labels = read_labels(Path(path)) if path else labels_by_value(evaluation.labels)
    named = evaluation.about["inputs"]["files"].items()
    files = {
        case: (Path(reference), Path(prediction))
        for case, (reference, prediction) in named
        if prediction
    }
    choices = worst_cases(evaluation, per_stratum=per_stratum)
    return labels, files, [choice for choice in choices if choice.case in files]


def pictures_of(
    evaluation: Evaluation,
    images: Path,
    *,
    per_stratum: int = 2,
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
) -> list[GalleryEntry]:
    """Pictures (first channel) of an evaluation's worst cases, each case and label once."""
    labels, files, choices = worst_with_files(evaluation, per_stratum)
    wanted: dict[tuple[str, str], list[Choice]] = {}
    for choice in choices:
        if choice.label not in labels.values:
            raise ValueError(
                f"`labels` must have the values of every label, got none of {choice.label!r}. Add them."
            )
        wanted.setdefault((choice.case, choice.label), []).append(choice)
    # All pictures of a case are made at once, so that its files are read once.
    planes: dict[tuple[str, str], tuple[Plane, ...]] = {}
    for case in dict.fromkeys(case for case, _ in wanted):
        names = [label for other, label in wanted if other == case]
        shown = replace(labels, values={name: labels.values[name] for name in names})
        pictured = _case_planes(find_image(images, case), files[case], shown)
        planes |= {(case, name): planes_ for name, planes_ in pictured.items()}
        progress(len(planes), len(wanted))
    entries = []
    for (case, label), reasons in wanted.items():
        strata = tuple(choice.reason for choice in reasons)
        entries.append(
            GalleryEntry(
                case, label, score_text(reasons[0], evaluation), strata, planes[case, label]
            )
        )
    return entries


def read_case(files: tuple[Path, Path]) -> tuple[Grid, npt.NDArray[Any], npt.NDArray[Any]]:
    """The grid and the values of a reference, and the values of the prediction on it."""
    reference, prediction = map(read_label_map, files)
    aligned = align(prediction.values, prediction.grid, reference.grid, files[1], files[0])
    return reference.grid, reference.values, aligned


def read_channel(path: Path, grid: Grid, reference: Path) -> npt.NDArray[np.float64]:
    """An image on the grid of a reference."""
    return align(*read_image(path), grid, path, reference)


def worst_place(
    reference: npt.NDArray[np.bool_], prediction: npt.NDArray[np.bool_]
) -> tuple[int, ...]:
    """The voxel where the planes with most disagreement meet.

    Without any, those with most of the label.
    """
    wrong = reference != prediction
    # Even a perfect case can be the worst of its stratum.
    shown = wrong if wrong.any() else reference
    return tuple(
        int(shown.sum(axis=tuple(a for a in range(3) if a != axis)).argmax()) for axis in range(3)
    )


def _case_planes(
    image: Path, files: tuple[Path, Path], labels: Labels
) -> dict[str, tuple[Plane, ...]]:
    grid, *maps = read_case(files)
    if labels.ignore is not None:
        maps[1] = np.where(maps[0] == labels.ignore, 0, maps[1])
    orientation = Orientation.of(grid)
    grey = orientation.apply(grey_levels(read_channel(image, grid, files[0])))
    reference, prediction = map(orientation.apply, maps)
    spacing = orientation.spacing(grid.spacing)
    return {
        name: _planes(grey, np.isin(reference, values), np.isin(prediction, values), spacing)
        for name, values in labels.values.items()
    }


def _planes(
    grey: npt.NDArray[np.float64],
    reference: npt.NDArray[np.bool_],
    prediction: npt.NDArray[np.bool_],
    spacing: Sequence[float],
) -> tuple[Plane, ...]:
    place = worst_place(reference, prediction)
    is_flat = grey.shape[0] == 1
    shown, size = (_ALONE, (2 * _ALONE, 60_000)) if is_flat else (_ALONE // 3, SMALL)
    made = []
    for axis in (0,) if is_flat else range(3):
        image, truth, guess = (
            cut(volume, axis, place[axis]) for volume in (grey, reference, prediction)
        )
        window = tuple(_span(truth | guess, across) for across in (0, 1))
        masks = [("reference", truth[window]), ("prediction", guess[window])]
        sides = [spacing[a] for a in range(3) if a != axis]
        made.append(
            Plane.of(
                "" if is_flat else PLANES[axis], image[window], masks, sides, shown=shown, size=size
            )
        )
    return tuple(made)


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
    longest = max(last - first, int(across[-1]) - int(across[0]) + 1)
    margin = max(_LEAST_MARGIN, round(_MARGIN * longest))
    return slice(max(0, first - margin), min(size, last + margin))
