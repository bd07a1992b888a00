"""The reference and the prediction of a case with the same labels on one grid.

Those of DICOM segmentations are known by their names, and need the grid of another map.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.dicom import (
    Segment,
    is_dicom,
    read_segmentation,
    segments_of,
)
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import (
    LabelMap,
    Labels,
    read_label_map,
    read_labels,
)
from nnunet_dro.evaluation.scoring.readers import Reader, reader_for
from nnunet_dro.evaluation.scoring.slices import SliceStack, common_grid, laid_on


def read_pair(
    reference: Path,
    prediction: Path | None,
    labels: Labels | None,
    *,
    image: Grid | None = None,
) -> Iterator[LabelMap]:
    """Read the label maps of a case, each when it is asked for.

    A caller that has done with the reference need not have both in memory.

    A DICOM segmentation is laid on the grid of the other map; where that is one, too, on that of
    the image, or else on slices from the first to the last that either has. The rule of the reader
    for the reference holds for both.

    Args:
        reference: File of the reference.
        prediction: File of the prediction; None for none.
        labels: What the values mean, and the names of segments.
        image: The grid of the image; None if it is not known.

    Yields:
        The reference; then the prediction, if any, which may need to be turned; see `onto`.

    Raises:
        FileNotFoundError, PermissionError, ValueError: If a file cannot be used; see
            `read_label_map` and `laid_on`.
    """
    files = [reference]
    if prediction is not None:
        files.append(prediction)
    _check_names(files, labels)

    reader = reader_for(reference, labels.reader if labels else None)
    if not any(map(is_dicom, files)):
        for path in files:
            yield _map_of_values(path, labels, reader, is_reference=path == reference)
        return

    maps: dict[Path, LabelMap] = {}
    stacks: dict[Path, SliceStack] = {}
    for path in files:
        if not is_dicom(path):
            maps[path] = read_label_map(path, reader)
        elif labels is None:
            stacks[path] = read_segmentation(path)
        else:
            stacks[path] = read_segmentation(path, partial(_value_of, labels=labels))

    grid = image
    for label_map in maps.values():
        grid = label_map.grid
    if grid is None:
        grid = common_grid(list(stacks.values()))
    for path, stack in stacks.items():
        values, grid_of_stack = laid_on(stack, grid)
        maps[path] = LabelMap(values, grid_of_stack)
    yield from (maps[path] for path in files)


def labels_of(dataset_json: Path | None, references: Collection[Path]) -> Labels | None:
    """The labels of the dataset.json, or else of DICOM references.

    It is None where each value in the references is a label.
    """
    return read_labels(dataset_json) if dataset_json else labels_of_segments(references)


def labels_of_segments(references: Collection[Path]) -> Labels | None:
    """The labels of references where any is a DICOM segmentation: the names of its segments.

    They are in the order in which they first occur, with values from 1 on.

    Returns:
        The labels; None where no reference is a DICOM segmentation.

    Raises:
        ValueError: If some are and others are not, or none has a segment. The message names a file.
    """
    segmentations = [path for path in references if is_dicom(path)]
    if not segmentations:
        return None

    values: dict[str, tuple[int, ...]] = {}
    for path in segmentations:
        for segment in segments_of(path):
            if _value_named(segment.label, values) is None:
                values[segment.label] = (len(values) + 1,)
    labels = Labels(values, are_segments=True)
    _check_names(list(references), labels)
    return labels


def only_predicted(predictions: Collection[Path], labels: Labels) -> list[str]:
    """The segments of predictions that are no labels, sorted."""
    names = set()
    for path in filter(is_dicom, predictions):
        for segment in segments_of(path):
            if _value_of(segment, labels) == 0:
                names.add(segment.label)
    return sorted(names)


def _check_names(files: Collection[Path], labels: Labels | None) -> None:
    """Check that something says which values are which segments, where one is met by the other."""
    with_names = [path for path in files if is_dicom(path)]
    with_values = [path for path in files if not is_dicom(path)]
    if not with_names or (labels is not None and not labels.are_segments):
        return
    if labels is not None and not with_values:
        return

    named = f"the segments of {str(with_names[0])!r}"
    if with_values:
        named += f" and the values of {str(with_values[0])!r}"
    raise InputError(
        "labels",
        must="be known to compare segments",
        got=f"{named} without",
        cure="Give a dataset.json with the names and values of the labels (--dataset-json).",
    )


def _map_of_values(
    path: Path, labels: Labels | None, reader: Reader, *, is_reference: bool
) -> LabelMap:
    """The label map in a file that stores values.

    Where nothing says what these mean, a reference has none below 0: they may be voxels to ignore,
    or be left by a tool outside the image.
    """
    label_map = read_label_map(path, reader)
    if labels is not None or not is_reference:
        return label_map

    least = int(label_map.values.min())
    if least < 0:
        raise InputError(
            "reference",
            must="have label values from 0 on where no dataset.json names them",
            got=f"{least} in {str(path)!r}",
            cure=(
                "Put a dataset.json in or above the folder of the references, in which "
                f"{least} is the value of `ignore` or of a label, or store 0 where no label is."
            ),
        )
    return label_map


def _value_of(segment: Segment, labels: Labels) -> int | None:
    """The value of the label that a segment is called after, or else described by.

    It is 0 for the background, and for segments of predictions that are no labels of segments; None
    for others, and for regions, which have several values.
    """
    values = {"background": (0,), **labels.values}
    if labels.ignore is not None:
        values["ignore"] = (labels.ignore,)

    for name in (segment.label, segment.description):
        value = _value_named(name, values)
        if value is not None:
            return value
    return 0 if labels.are_segments else None


def _value_named(name: str, values: Mapping[str, tuple[int, ...]]) -> int | None:
    """The single value of a label, whose name may have other capitals, spaces or underscores."""
    by_plain_name = {_plain(other): entry for other, entry in values.items()}
    entry = values.get(name) or by_plain_name.get(_plain(name), ())
    return entry[0] if len(entry) == 1 else None


def _plain(name: str) -> str:
    """A name without what software that writes DICOM may change."""
    words = name.replace("_", " ").replace("-", " ")
    return " ".join(words.casefold().split())
