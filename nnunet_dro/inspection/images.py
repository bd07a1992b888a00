"""The picture of a case.

A slice of its image with outlines, from the raw dataset or nnU-Net's preprocessed arrays.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import Labels, read_label_map
from nnunet_dro.evaluation.scoring.readers import reader_for
from nnunet_dro.evaluation.stratifying.images import PLANES, Orientation, align, read_onto
from nnunet_dro.nnunet.folders import DATASET_JSON, Fold, read_if_usable, settings_of
from nnunet_dro.nnunet.splits_file import training_cases_in
from nnunet_dro.pages.pictures import Masks, Plane, grey_levels, outlines_of, plane_at
from nnunet_dro.pages.svg import N_COLOURS

#: Longest side of a picture in pixels, and its bytes: a page of 20 pictures stays below 2 MB.
_SIZE = (480, 60_000)

#: About how wide it is shown, in CSS pixels.
_SHOWN = 240

LabelMap = npt.NDArray[np.integer[Any]]

#: Slices are taken across another axis than the first only if voxels are longer along it by this
#: factor.
_CLEARLY_LONGER = 1.1


@dataclass(frozen=True, eq=False)
class CaseVolume:
    """An image, its reference and a prediction on one grid.

    The shape is (z, y, x), where z is 1 in two dimensions.
    """

    grey: npt.NDArray[np.float64]  # from 0 (black) to 1 (white)
    reference: LabelMap
    spacing: tuple[float, ...]  # mm
    planes: tuple[str, str, str]  # name of the plane perpendicular to each axis
    #: Of the network that was trained without the case.
    prediction: LabelMap | None = None


@dataclass(frozen=True)
class RawImages:
    """The images of a raw dataset, and the predictions of a model.

    Each prediction is by the fold that was trained without the case.
    """

    folder: Path  # of the dataset
    ending: str  # of the names of its files
    listed: Mapping[str, Any]  # files of each case, if dataset.json lists them
    labels: Labels
    model: Path  # folder of the model

    def read(self, case: str) -> CaseVolume:
        """Read the first channel and the reference of a case.

        They are rotated so that the first axis points superior.
        """
        image_file, reference_file = self._files(case)
        reader = reader_for(reference_file, self.labels.reader)
        reference = read_label_map(reference_file, reader)
        image = read_onto(image_file, reference.grid, reference_file, reader)

        orientation = Orientation.of(reference.grid)
        prediction = self._prediction(case, reference.grid, reference_file)
        if prediction is not None:
            prediction = orientation.apply(prediction)
        return CaseVolume(
            grey=grey_levels(orientation.apply(image)),
            reference=orientation.apply(reference.values),
            spacing=orientation.spacing(reference.grid.spacing),
            planes=PLANES,
            prediction=prediction,
        )

    def reference(self, case: str) -> LabelMap:
        """The reference of a case alone."""
        _, reference_file = self._files(case)
        return read_label_map(reference_file).values

    def _prediction(self, case: str, grid: Grid, reference_file: Path) -> LabelMap | None:
        """The prediction of nnU-Net's validation; one that cannot be used is as good as none.

        So is one in a fold that is trained on the case.
        """
        if not self.ending:
            return None
        name = f"fold_[0-9]*/validation/{escape(case)}{self.ending}"
        try:
            paths = [
                path
                for path in sorted(self.model.glob(name))
                if not training_cases_in(path.parent, [case])
            ]
            if not paths:
                return None

            path = paths[0]
            reader = reader_for(reference_file, self.labels.reader)
            prediction = read_label_map(path, reader)
            return align(
                prediction.values,
                prediction.grid,
                grid,
                path,
                reference_file,
            )
        except ValueError:
            return None

    def _files(self, case: str) -> tuple[Path, Path]:
        """The files of the image and of the reference."""
        image = self.folder / "imagesTr" / f"{case}_0000{self.ending}"
        reference = self.folder / "labelsTr" / f"{case}{self.ending}"
        entry = self.listed.get(case)
        if isinstance(entry, Mapping) and entry.get("images") and entry.get("label"):
            image = self.folder / str(entry["images"][0])
            reference = self.folder / str(entry["label"])

        for path in (image, reference):
            if not path.is_file():
                raise FileNotFoundError(f"{path.name} is not in {str(path.parent)!r}")
        return image, reference


@dataclass(frozen=True)
class PreprocessedImages:
    """The preprocessed arrays of a configuration of nnU-Net."""

    folder: Path
    #: Along the axes, mm; two numbers in 2d, where the first axis counts slices.
    spacing: tuple[float, ...]
    labels: Labels

    def read(self, case: str) -> CaseVolume:
        """Read the first channel and the reference of a case, with the axes of the arrays."""
        image, reference = self._arrays(case)
        if image.ndim != 3 or image.shape != reference.shape:
            raise ValueError(
                f"the preprocessed arrays have the shapes {image.shape} and {reference.shape}"
            )
        # A network in 2d sees slices across the first axis, as if voxels were longest along it.
        spacing = self.spacing
        if len(spacing) == 2:
            spacing = (1000 * max(spacing), *spacing)
        return CaseVolume(
            grey=grey_levels(image.astype(np.float64)),
            reference=reference,
            spacing=spacing,
            planes=("slice", "slice", "slice"),
        )

    def reference(self, case: str) -> LabelMap:
        """The reference of a case alone."""
        _, reference = self._arrays(case)
        return reference

    def _arrays(self, case: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The first channel and the reference."""
        stem = str(self.folder / case)
        try:
            if os.path.isfile(f"{stem}.b2nd"):
                # nnU-Net installs blosc2 and writes with it.
                import blosc2  # type: ignore[import-untyped]

                image = blosc2.open(f"{stem}.b2nd", mode="r")[0]
                reference = blosc2.open(f"{stem}_seg.b2nd", mode="r")[0]
            elif os.path.isfile(f"{stem}.npz"):
                with np.load(f"{stem}.npz") as arrays:
                    image = arrays["data"][0]
                    reference = arrays["seg"][0]
            else:
                raise FileNotFoundError(f"{case}.b2nd is not in {str(self.folder)!r}")
        except FileNotFoundError:
            raise
        except Exception as error:  # blosc2 and zipfile pass on whatever a damaged file raises
            raise ValueError(
                f"the preprocessed arrays cannot be read ({type(error).__name__})"
            ) from error
        return np.asarray(image), np.asarray(reference).astype(np.int64)


ImageSource = RawImages | PreprocessedImages


def find_images(fold: Fold) -> tuple[ImageSource | None, str]:
    """The raw dataset of a fold, or else its preprocessed arrays with a sentence for the reader."""
    raw = _raw_images(fold)
    if raw is not None:
        return raw, ""

    preprocessed = _preprocessed_images(fold)
    cure = f"set nnUNet_raw to the folder that holds {fold.dataset}"
    note = f"No pictures: neither the raw dataset nor its preprocessed arrays were found; {cure}."
    if preprocessed is not None:
        note = (
            f"The pictures show the preprocessed arrays, resampled and normalised; {cure} to see "
            "the original images."
        )
    return preprocessed, note


def _raw_images(fold: Fold) -> RawImages | None:
    """The raw dataset, None if its dataset.json cannot be used."""
    folder = fold.dataset_folder("nnUNet_raw")
    described = read_if_usable(folder / DATASET_JSON) if folder is not None else None
    if folder is None or described is None:
        return None

    labels = _labels(fold.description(DATASET_JSON)) or _labels(described)
    ending = described.get("file_ending")
    listed = described.get("dataset")
    files = listed if isinstance(listed, Mapping) else {}
    if labels is None or not (isinstance(ending, str) or files):
        return None
    return RawImages(
        folder=folder,
        ending=str(ending or ""),
        listed=files,
        labels=labels,
        model=fold.folder.parent,
    )


def _preprocessed_images(fold: Fold) -> PreprocessedImages | None:
    """The preprocessed arrays; what the model does not say of them is taken from the dataset."""
    dataset = fold.dataset_folder("nnUNet_preprocessed")
    if dataset is None:
        return None

    labels = _labels(fold.description(DATASET_JSON))
    if labels is None:
        labels = _labels(read_if_usable(dataset / DATASET_JSON))
    plans = fold.description("plans.json") or read_if_usable(dataset / f"{fold.plans}.json") or {}
    settings = settings_of(plans, fold.configuration)
    usual_name = f"{fold.plans}_{fold.configuration}"
    folder = dataset / str(settings.get("data_identifier", usual_name))
    if labels is None or not folder.is_dir():
        return None
    return PreprocessedImages(folder, _spacing(settings.get("spacing")), labels)


def _spacing(lengths: Any) -> tuple[float, ...]:
    """Two or three lengths in mm, 1 if they are anything else."""
    try:
        spacing = tuple(float(length) for length in lengths)
    except (TypeError, ValueError):
        spacing = ()
    return spacing if len(spacing) in (2, 3) else (1.0, 1.0, 1.0)


def _labels(described: Mapping[str, Any] | None) -> Labels | None:
    """The labels of a dataset.json, None if it has no valid ones."""
    try:
        return Labels.from_dataset_json(described or {})
    except ValueError:
        return None


@dataclass(frozen=True)
class CaseSlice:
    """A slice of an image with the outlines of the labels, which have a colour each."""

    plane: Plane
    predicted: tuple[tuple[str, str], ...] | None  # the outlines of the prediction
    is_empty: bool  # whether the reference marks nothing in the whole image


def slice_of(image: CaseVolume, labels: Labels) -> CaseSlice:
    """The slice, of those with the best resolution, with the most labelled voxels.

    Of several, it is the middle one.
    """
    foreground = np.concatenate([*labels.values.values()])
    labelled = np.isin(image.reference, foreground)
    axis, index = choose_slice(labelled, image.spacing)
    n_slices = image.grey.shape[axis]
    name = "the whole image"
    if n_slices > 1:
        name = f"{image.planes[axis]} {index + 1} of {n_slices}"

    plane = Plane.of(
        name,
        plane_at(image.grey, axis, index),
        _masks(plane_at(image.reference, axis, index), labels),
        [image.spacing[other] for other in range(3) if other != axis],
        shown=_SHOWN,
        size=_SIZE,
    )
    predicted = None
    if image.prediction is not None:
        predicted = outlines_of(_masks(plane_at(image.prediction, axis, index), labels))
    return CaseSlice(plane, predicted, is_empty=not labelled.any())


def _masks(label_map: LabelMap, labels: Labels) -> Masks:
    """The mask of each label, with words for its looks."""
    return [
        (f"label s{n % N_COLOURS}", np.isin(label_map, values))
        for n, values in enumerate(labels.values.values())
    ]


def choose_slice(mask: npt.NDArray[np.bool_], spacing: Sequence[float]) -> tuple[int, int]:
    """Axis and index of the slice to show of a mask of shape (z, y, x)."""
    axis = 0
    if mask.shape[0] > 1 and max(spacing) > _CLEARLY_LONGER * spacing[0]:
        axis = int(np.argmax(spacing))

    others = tuple(other for other in range(3) if other != axis)
    counts: npt.NDArray[Any] = mask.sum(axis=others)

    # The middle one of the slices with the most.
    most = np.flatnonzero(counts == counts.max())
    return axis, int(most[len(most) // 2])
