"""Pictures of the worst cases: planes through the largest disagreement, with the outlines of both label maps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.inputs import labels_by_value
from nnunet_dro.evaluation.report.formatting import attribute_title, metric_named, quantity, stratum_title
from nnunet_dro.evaluation.scoring.label_maps import LabelMap, Labels, read_label_map, read_labels
from nnunet_dro.evaluation.stratifying.images import PLANES, Orientation, align, find_image, read_image
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.contours import line_width, outline
from nnunet_dro.pages.pictures import data_uri, grey_levels

#: A reader of label maps.
Reader = Callable[[Path], LabelMap]

#: Share of the label's extent shown around it, and the least, in voxels.
_MARGIN, _LEAST_MARGIN = 0.5, 12


#: About how wide a picture that is alone in its frame is shown, in CSS pixels.
_ALONE = 464


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
class Plane:
    """One picture: its size in voxels, the image as a data URI, and outlines as SVG paths in voxels.

    ``aspect`` is the physical width / height; ``name`` is empty in two dimensions.
    """

    name: str
    width: int
    height: int
    aspect: float
    line: float
    image: str
    reference: str
    prediction: str


@dataclass(frozen=True)
class GalleryEntry:
    """The pictures of one case and label.

    Attributes:
        case: Identifier.
        label: Name.
        score: The metric and its value, as text.
        strata: The strata it is among the worst of, as text.
        planes: Three; in two dimensions one.
    """

    case: str
    label: str
    score: str
    strata: tuple[str, ...]
    planes: tuple[Plane, ...]


def worst_cases(evaluation: Evaluation, *, per_stratum: int = 2, at_most: int = 60) -> list[Choice]:
    """The worst cases of every stratum and label by the first metric.

    Args:
        evaluation: The evaluation.
        per_stratum: Number of cases per attribute, stratum and label.
        at_most: Number of choices in all. The worst case of every stratum goes before any second-worst case, and worse
            values go first.

    Returns:
        The choices in the order of the strata and labels, worst first; cases without a value are never chosen.

    Raises:
        ValueError: If ``per_stratum`` or ``at_most`` is negative.
    """
    for name, number in (("per_stratum", per_stratum), ("at_most", at_most)):
        if number < 0:
            raise ValueError(f"`{name}` must be 0 or more, got {number!r}. Use 0 for no pictures.")
    if not evaluation.metrics:
        return []
    metric = metric_named(evaluation.metrics[0])
    sign = 1 if metric.more_is_better else -1
    ranked: list[Choice] = []
    defined = evaluation.scores[evaluation.scores[metric.name].notna()]
    strata = evaluation.strata[["attribute", "stratum", "label"]].drop_duplicates()
    for attribute, stratum, label in strata.itertuples(index=False):
        of_case = evaluation.stratum_of_case[attribute].astype(object)
        inside = defined[(defined["label"] == label) & (defined["case"].map(of_case) == stratum)]
        order = np.lexsort((inside["case"].to_numpy(dtype=object).astype(str), sign * inside[metric.name].to_numpy()))
        for rank, place in enumerate(order[:per_stratum]):
            row = inside.iloc[int(place)]
            ranked.append(Choice(attribute, stratum, label, str(row["case"]), float(row[metric.name]), rank))
    chosen = {id(choice) for choice in by_urgency(ranked, evaluation)[:at_most]}
    return [choice for choice in ranked if id(choice) in chosen]


def by_urgency(choices: Sequence[Choice], evaluation: Evaluation) -> list[Choice]:
    """Choices where there is not room for all: the worst of every stratum and label, worse first, then the second."""
    sign = 1 if metric_named(evaluation.metrics[0]).more_is_better else -1
    return sorted(choices, key=lambda choice: (choice.rank, sign * choice.value))


def score_text(choice: Choice, evaluation: Evaluation) -> str:
    """The metric of a choice and its value; empty text without a metric."""
    if not evaluation.metrics:
        return ""
    metric = metric_named(evaluation.metrics[0], evaluation.scores)
    return f"{metric.title} {quantity(choice.value, metric)}"


def pictures_of(
    evaluation: Evaluation,
    images: Path,
    *,
    per_stratum: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> list[GalleryEntry]:
    """Pictures of the worst cases of an evaluation that was read from its folder.

    Args:
        evaluation: The evaluation, whose ``about`` says where the label maps and dataset.json were.
        images: Folder of nnU-Net images.
        per_stratum: Number of pictures per stratum and label.
        progress: Called with the number of finished pictures and the number of all pictures.

    Returns:
        An entry per case and label.

    Raises:
        FileNotFoundError: If an image, a label map or dataset.json does not exist any more; the message names it.
        ValueError: If one cannot be used.
    """
    labels, files = labels_of(evaluation), label_map_files(evaluation)
    choices = [choice for choice in worst_cases(evaluation, per_stratum=per_stratum) if choice.case in files]
    return gallery_entries(evaluation, images, files, labels=labels, choices=choices, progress=progress)


def labels_of(evaluation: Evaluation) -> Labels:
    """The values of the labels of an evaluation that was read from its folder; fails without its dataset.json."""
    path = evaluation.options.dataset_json
    return read_labels(Path(path)) if path else labels_by_value(evaluation.labels)


def label_map_files(evaluation: Evaluation) -> dict[str, tuple[Path, Path]]:
    """Case to its reference and its prediction; without the cases that have no prediction, which nobody can show."""
    files = evaluation.about["inputs"]["files"].items()
    return {case: (Path(reference), Path(prediction)) for case, (reference, prediction) in files if prediction}


def gallery_entries(
    evaluation: Evaluation,
    images: Path,
    files: Mapping[str, tuple[Path, Path]],
    *,
    labels: Labels,
    read: Reader = read_label_map,
    choices: Sequence[Choice] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[GalleryEntry]:
    """The pictures of the worst cases.

    Args:
        evaluation: The evaluation.
        images: Folder of nnU-Net images, ``case_0000`` with any ending nnU-Net reads; the first channel is shown.
        files: Case to its reference and its prediction.
        labels: The values of the labels.
        read: The reader of label maps, for callers who have them in memory.
        choices: The cases to show; None for `worst_cases`.
        progress: Called with the number of finished pictures and the number of all pictures.

    Returns:
        An entry per case and label; one that is among the worst of several strata appears once.

    Raises:
        FileNotFoundError: If a case has no image or no label maps; the message names it.
        ValueError: If a label has no values, or the image, the reference and the prediction are not of one shape.
    """
    wanted: dict[tuple[str, str], list[Choice]] = {}
    for choice in worst_cases(evaluation) if choices is None else choices:
        wanted.setdefault((choice.case, choice.label), []).append(choice)
    for case, label in wanted:
        if label not in labels.values:
            raise ValueError(f"`labels` must have the values of every label, got none of {label!r}. Add them.")
        if case not in files:
            raise FileNotFoundError(f"`files` must have the label maps of every case, got none of {case!r}. Add them.")
    # All pictures of a case are made at once, so that its files are read once.
    planes: dict[tuple[str, str], tuple[Plane, ...]] = {}
    for case in dict.fromkeys(case for case, _ in wanted):
        names = [label for other, label in wanted if other == case]
        pictured = _case_planes(find_image(images, case), files[case], read, {n: labels.values[n] for n in names})
        planes |= {(case, name): planes_ for name, planes_ in pictured.items()}
        if progress:
            progress(len(planes), len(wanted))
    entries = []
    for (case, label), reasons in wanted.items():
        strata = tuple(choice.reason for choice in reasons)
        entries.append(GalleryEntry(case, label, score_text(reasons[0], evaluation), strata, planes[case, label]))
    return entries


def _case_planes(
    image_file: Path,
    files: tuple[Path, Path],
    read: Reader,
    labels: Mapping[str, tuple[int, ...]],
) -> dict[str, tuple[Plane, ...]]:
    reference, prediction = read(files[0]), read(files[1])
    grid = reference.grid
    image, image_grid = read_image(image_file)
    volumes = [
        (files[1], prediction.values, prediction.grid),
        (image_file, image, image_grid),
    ]
    predicted, image = (align(values, its, grid, path, files[0]) for path, values, its in volumes)
    orientation = Orientation.of(grid)
    turned = [orientation.apply(volume) for volume in (grey_levels(image), reference.values, predicted)]
    return {
        name: _planes(turned[0], np.isin(turned[1], v), np.isin(turned[2], v), orientation.spacing(grid.spacing))
        for name, v in labels.items()
    }


def _planes(
    grey: npt.NDArray[np.float64],
    reference: npt.NDArray[np.bool_],
    prediction: npt.NDArray[np.bool_],
    spacing: Sequence[float],
) -> tuple[Plane, ...]:
    wrong = reference != prediction
    # Even a perfect case can be the worst of its stratum; it is shown where most of the label is.
    shown = wrong if wrong.any() else reference
    made = []
    for axis in range(3) if grey.shape[0] > 1 else (0,):
        others = tuple(a for a in range(3) if a != axis)
        index = int(shown.sum(axis=others).argmax())
        cut = [np.take(volume, index, axis=axis) for volume in (grey, reference, prediction)]
        if axis:  # superior is up
            cut = [plane[::-1] for plane in cut]
        name = PLANES[axis] if grey.shape[0] > 1 else ""
        made.append(_plane(name, *cut, spacing=(spacing[others[0]], spacing[others[1]])))
    return tuple(made)


def _plane(
    name: str,
    grey: npt.NDArray[np.float64],
    reference: npt.NDArray[np.bool_],
    prediction: npt.NDArray[np.bool_],
    *,
    spacing: tuple[float, float],
) -> Plane:
    window = tuple(_span(reference | prediction, axis) for axis in (0, 1))
    grey, reference, prediction = grey[window], reference[window], prediction[window]
    height, width = grey.shape
    aspect = round(width * spacing[1] / (height * spacing[0]), 4)
    line = line_width(width, shown=_ALONE // 3 if name else _ALONE)
    picture = data_uri(grey) if name else data_uri(grey, longest=2 * _ALONE, most_bytes=60_000)
    return Plane(name, width, height, aspect, line, picture, outline(reference), outline(prediction))


def _span(mask: npt.NDArray[np.bool_], axis: int) -> slice:
    """The label's extent along an axis with a margin; everything where the label is not in this plane."""
    size = mask.shape[axis]
    inside = np.flatnonzero(mask.any(axis=1 - axis))
    if not len(inside):
        return slice(0, size)
    first, last = int(inside[0]), int(inside[-1]) + 1
    # The margin is the same on both axes, for otherwise a long thin label would lack its surroundings.
    across = np.flatnonzero(mask.any(axis=axis))
    longest = max(last - first, int(across[-1]) - int(across[0]) + 1)
    margin = max(_LEAST_MARGIN, round(_MARGIN * longest))
    return slice(max(0, first - margin), min(size, last + margin))
