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
from nnunet_dro.evaluation.stratifying.images import PLANES, Orientation, align, read_image
from nnunet_dro.nnunet.folders import DATASET_JSON, Fold, read_if_usable
from nnunet_dro.pages.pictures import Masks, Plane, cut, grey_levels, outlines_of
from nnunet_dro.pages.svg import N_COLOURS

_SIZE = (
    480,
    60_000,
)  # Longest side of a picture in pixels, and its bytes: a page of 20 pictures stays below 2 MB.
_SHOWN = 240  # About how wide it is shown, in CSS pixels.

#: Slices are taken across another axis than the first only if voxels are longer along it by this
#: factor.
_CLEARLY_LONGER = 1.1


@dataclass(frozen=True, eq=False)
class CaseImage:
    """An image, its reference and a prediction on one grid, shape (z, y, x), where z is 1 in two dimensions."""

    grey: npt.NDArray[np.float64]  # from 0 (black) to 1 (white)
    reference: npt.NDArray[np.integer[Any]]
    spacing: tuple[float, ...]  # mm
    planes: tuple[str, str, str]  # name of the plane perpendicular to each axis
    prediction: npt.NDArray[np.integer[Any]] | None = (
        None  # of the network that was trained without the case
    )


@dataclass(frozen=True)
class RawImages:
    """The images of a raw dataset, and the predictions of a model whose folds were trained without them."""

    folder: Path  # of the dataset
    ending: str  # of the names of its files
    listed: Mapping[str, Any]  # files of each case, if dataset.json lists them
    labels: Labels
    model: Path  # folder of the model

    def read(self, case: str) -> CaseImage:
        """Read the first channel and the reference of a case, rotated so that the first axis points superior."""
        image_file, reference_file = self._files(case)
        reference = read_label_map(reference_file)
        image, grid = read_image(image_file)
        image = align(image, grid, reference.grid, image_file, reference_file)
        orientation = Orientation.of(reference.grid)
        prediction = self._prediction(case, reference.grid, reference_file)
        return CaseImage(
            grey_levels(orientation.apply(image)),
            orientation.apply(reference.values),
            orientation.spacing(reference.grid.spacing),
            PLANES,
            None if prediction is None else orientation.apply(prediction),
        )

    def reference(self, case: str) -> npt.NDArray[np.integer[Any]]:
        """The reference of a case alone."""
        return read_label_map(self._files(case)[1]).values

    def _prediction(
        self, case: str, grid: Grid, reference_file: Path
    ) -> npt.NDArray[np.integer[Any]] | None:
        """The prediction of nnU-Net's validation; one that cannot be used is as good as none."""
        name = f"fold_[0-9]*/validation/{escape(case)}{self.ending}"
        path = min(self.model.glob(name), default=None) if self.ending else None
        if path is None:
            return None
        try:
            prediction = read_label_map(path)
            return align(prediction.values, prediction.grid, grid, path, reference_file)
        except ValueError:
            return None

    def _files(self, case: str) -> tuple[Path, Path]:
        entry = self.listed.get(case)
        if isinstance(entry, Mapping) and entry.get("images") and entry.get("label"):
            files = (self.folder / str(entry["images"][0]), self.folder / str(entry["label"]))
        else:
            image = self.folder / "imagesTr" / f"{case}_0000{self.ending}"
            files = (image, self.folder / "labelsTr" / f"{case}{self.ending}")
        for path in files:
            if not path.is_file():
                raise FileNotFoundError(f"{path.name} is not in {str(path.parent)!r}")
        return files


@dataclass(frozen=True)
class PreprocessedImages:
    """The preprocessed arrays of a configuration of nnU-Net."""

    folder: Path
    spacing: tuple[
        float, ...
    ]  # along the axes, mm; two numbers in 2d, where the first axis counts slices
    labels: Labels

    def read(self, case: str) -> CaseImage:
        """Read the first channel and the reference of a case, with the axes of the arrays."""
        image, reference = self._arrays(case)
        if image.ndim != 3 or image.shape != reference.shape:
            raise ValueError(
                f"the preprocessed arrays have the shapes {image.shape} and {reference.shape}"
            )
        spacing = self.spacing
        if len(spacing) == 2:
            spacing = (1000 * max(spacing), *spacing)
        return CaseImage(
            grey_levels(image.astype(np.float64)), reference, spacing, ("slice", "slice", "slice")
        )

    def reference(self, case: str) -> npt.NDArray[np.integer[Any]]:
        """The reference of a case alone."""
        return self._arrays(case)[1]

    def _arrays(self, case: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        stem = str(self.folder / case)
        try:
            if os.path.isfile(f"{stem}.b2nd"):
                # nnU-Net installs blosc2 and writes with it.
                import blosc2  # type: ignore[import-untyped]

                image, reference = (
                    blosc2.open(f"{stem}{part}.b2nd", mode="r")[0] for part in ("", "_seg")
                )
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
    if raw := _raw_images(fold):
        return raw, ""
    cure = f"set nnUNet_raw to the folder that holds {fold.dataset}"
    if (preprocessed := _preprocessed_images(fold)) is None:
        return (
            None,
            f"No pictures: neither the raw dataset nor its preprocessed arrays were found; {cure}.",
        )
    about = f"The pictures show the preprocessed arrays, resampled and normalised; {cure} to see the original images."
    return preprocessed, about


def _raw_images(fold: Fold) -> RawImages | None:
    folder = fold.dataset_folder("nnUNet_raw")
    if folder is None or (described := read_if_usable(folder / DATASET_JSON)) is None:
        return None
    labels = _labels(fold.description(DATASET_JSON)) or _labels(described)
    ending = described.get("file_ending")
    listed = described.get("dataset")
    files = listed if isinstance(listed, Mapping) else {}
    if labels is None or not (isinstance(ending, str) or files):
        return None
    return RawImages(folder, str(ending or ""), files, labels, fold.folder.parent)


def _preprocessed_images(fold: Fold) -> PreprocessedImages | None:
    if (dataset := fold.dataset_folder("nnUNet_preprocessed")) is None:
        return None
    labels = _labels(fold.description(DATASET_JSON)) or _labels(
        read_if_usable(dataset / DATASET_JSON)
    )
    plans = fold.description("plans.json") or read_if_usable(dataset / f"{fold.plans}.json") or {}
    settings = fold.settings_in(plans)
    folder = dataset / str(settings.get("data_identifier", f"{fold.plans}_{fold.configuration}"))
    spacing = settings.get("spacing")
    if labels is None or not folder.is_dir():
        return None
    try:
        lengths = tuple(float(length) for length in spacing)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        lengths = ()
    return PreprocessedImages(
        folder, lengths if len(lengths) in (2, 3) else (1.0, 1.0, 1.0), labels
    )


def _labels(described: Mapping[str, Any] | None) -> Labels | None:
    try:
        return Labels.from_dataset_json(described or {})
    except ValueError:
        return None


@dataclass(frozen=True)
class Slice:
    """A slice of an image with the outlines of the labels, which have a colour each."""

    plane: Plane
    predicted: tuple[tuple[str, str], ...] | None  # the outlines of the prediction
    is_empty: bool  # whether the reference marks nothing in the whole image


def slice_of(image: CaseImage, labels: Labels) -> Slice:
    """The slice, of those with the best resolution, with the most labelled voxels.

    The middle one of several.
    """
    known = [value for values in labels.values.values() for value in values]
    axis, index = choose_slice(np.isin(image.reference, known), image.spacing)
    n_slices = image.grey.shape[axis]
    name = f"{image.planes[axis]} {index + 1} of {n_slices}" if n_slices > 1 else "the whole image"
    spacing = [image.spacing[other] for other in range(3) if other != axis]
    grey, reference = (cut(volume, axis, index) for volume in (image.grey, image.reference))
    predicted = (
        None if image.prediction is None else _masks(cut(image.prediction, axis, index), labels)
    )
    return Slice(
        Plane.of(name, grey, _masks(reference, labels), spacing, shown=_SHOWN, size=_SIZE),
        None if predicted is None else outlines_of(predicted),
        is_empty=not np.isin(image.reference, known).any(),
    )


def _masks(label_map: npt.NDArray[np.integer[Any]], labels: Labels) -> Masks:
    values_of = enumerate(labels.values.values())
    return [(f"label s{n % N_COLOURS}", np.isin(label_map, values)) for n, values in values_of]


def choose_slice(mask: npt.NDArray[np.bool_], spacing: Sequence[float]) -> tuple[int, int]:
    """Axis and index of the slice to show of a mask of shape (z, y, x)."""
    axis = 0
    if mask.shape[0] > 1 and max(spacing) > _CLEARLY_LONGER * spacing[0]:
        axis = int(np.argmax(spacing))
    counts: npt.NDArray[Any] = mask.sum(axis=tuple(other for other in range(3) if other != axis))
    most = np.flatnonzero(counts == counts.max())
    return axis, int(most[len(most) // 2])
