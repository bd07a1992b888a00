"""The image and reference of a case, from the raw dataset or else from nnU-Net's preprocessed arrays."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.label_maps import read_label_map
from nnunet_dro.evaluation.scoring.labels import Labels
from nnunet_dro.evaluation.stratifying.images import PLANES, Orientation, align, read_image
from nnunet_dro.nnunet.dataset_json import DATASET_JSON, read_if_usable
from nnunet_dro.nnunet.folders import Fold
from nnunet_dro.pages.pictures import grey_levels


@dataclass(frozen=True, eq=False)
class CaseImage:
    """An image and its reference on one grid.

    Attributes:
        grey: Grey values from 0 (black) to 1 (white), shape (z, y, x), where z is 1 in two dimensions.
        reference: Label values, same shape.
        prediction: Those of the network that was trained without the case, same shape; None where there is none.
        spacing: Voxel size (z, y, x), mm.
        planes: Name of the plane perpendicular to each axis.
    """

    grey: npt.NDArray[np.float64]
    reference: npt.NDArray[np.integer[Any]]
    spacing: tuple[float, ...]
    planes: tuple[str, str, str]
    prediction: npt.NDArray[np.integer[Any]] | None = None


@dataclass(frozen=True)
class RawImages:
    """The images of a raw dataset.

    Attributes:
        folder: Folder of the dataset, with imagesTr and labelsTr.
        ending: Ending of the file names.
        listed: Files of each case, if dataset.json lists them.
        labels: The labels of dataset.json.
        model: Folder of the model, whose folds have predictions of the cases that they were trained without.
    """

    folder: Path
    ending: str
    listed: Mapping[str, Any]
    labels: Labels
    model: Path

    def read(self, case: str) -> CaseImage:
        """Read the first channel and the reference of a case, rotated so that the first axis points superior.

        Raises:
            FileNotFoundError: If a file of the case does not exist.
            ValueError: If a file of the case cannot be used.
        """
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
        """The reference of a case alone; raises as `read` does."""
        return read_label_map(self._files(case)[1]).values

    def _prediction(self, case: str, grid: Grid, reference_file: Path) -> npt.NDArray[np.integer[Any]] | None:
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
    """The preprocessed arrays of a configuration of nnU-Net.

    Attributes:
        folder: Folder of the arrays.
        spacing: Voxel size along the axes of the arrays, mm; two numbers in 2d, where the first axis counts slices.
        labels: The labels of dataset.json.
    """

    folder: Path
    spacing: tuple[float, ...]
    labels: Labels

    def read(self, case: str) -> CaseImage:
        """Read the first channel and the reference of a case, with the axes of the arrays.

        Raises:
            FileNotFoundError: If a file of the case does not exist.
            ValueError: If a file of the case cannot be used.
        """
        image, reference = self._arrays(case)
        if image.ndim != 3 or image.shape != reference.shape:
            raise ValueError(f"the preprocessed arrays have the shapes {image.shape} and {reference.shape}")
        spacing = self.spacing
        if len(spacing) == 2:
            spacing = (1000 * max(spacing), *spacing)
        return CaseImage(grey_levels(image.astype(np.float64)), reference, spacing, ("slice", "slice", "slice"))

    def reference(self, case: str) -> npt.NDArray[np.integer[Any]]:
        """The reference of a case alone; raises as `read` does."""
        return self._arrays(case)[1]

    def _arrays(self, case: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        stem = str(self.folder / case)
        try:
            if os.path.isfile(f"{stem}.b2nd"):
                # nnU-Net installs blosc2 and writes with it.
                import blosc2  # type: ignore[import-untyped]

                image, reference = (blosc2.open(f"{stem}{part}.b2nd", mode="r")[0] for part in ("", "_seg"))
            elif os.path.isfile(f"{stem}.npz"):
                with np.load(f"{stem}.npz") as arrays:
                    image, reference = arrays["data"][0], arrays["seg"][0]
            else:
                raise FileNotFoundError(f"{case}.b2nd is not in {str(self.folder)!r}")
        except FileNotFoundError:
            raise
        except Exception as error:  # blosc2 and zipfile pass on whatever a damaged file raises
            raise ValueError(f"the preprocessed arrays cannot be read ({type(error).__name__})") from error
        return np.asarray(image), np.asarray(reference).astype(np.int64)


#: Sources of images.
ImageSource = RawImages | PreprocessedImages


def find_images(fold: Fold) -> tuple[ImageSource | None, str]:
    """Find the images of a fold's dataset.

    Args:
        fold: The fold.

    Returns:
        The raw dataset, or else the preprocessed arrays of the fold's configuration, where `Fold.dataset_folder` finds
        them, or else None; and a sentence for the reader unless it is the raw dataset.
    """
    if raw := _raw_images(fold):
        return raw, ""
    preprocessed = _preprocessed_images(fold)
    cure = f"set nnUNet_raw to the folder that holds {fold.dataset}"
    if preprocessed is None:
        return None, f"No pictures: neither the raw dataset nor its preprocessed arrays were found; {cure}."
    return (
        preprocessed,
        f"The pictures show the preprocessed arrays, resampled and normalised; {cure} to see the original images.",
    )


def _raw_images(fold: Fold) -> RawImages | None:
    folder = fold.dataset_folder("nnUNet_raw")
    if folder is None or (described := read_if_usable(folder / DATASET_JSON)) is None:
        return None
    labels = _labels(fold.description(DATASET_JSON)) or _labels(described)
    ending, listed = described.get("file_ending"), described.get("dataset")
    if labels is None or not (isinstance(ending, str) or isinstance(listed, Mapping)):
        return None
    return RawImages(
        folder, str(ending or ""), listed if isinstance(listed, Mapping) else {}, labels, fold.folder.parent
    )


def _preprocessed_images(fold: Fold) -> PreprocessedImages | None:
    if (dataset := fold.dataset_folder("nnUNet_preprocessed")) is None:
        return None
    labels = _labels(fold.description(DATASET_JSON)) or _labels(read_if_usable(dataset / DATASET_JSON))
    plans = fold.description("plans.json") or read_if_usable(dataset / f"{fold.plans}.json") or {}
    settings = _configuration(plans, fold.configuration)
    folder = dataset / str(settings.get("data_identifier", f"{fold.plans}_{fold.configuration}"))
    spacing = settings.get("spacing")
    if labels is None or not folder.is_dir():
        return None
    try:
        lengths = tuple(float(length) for length in spacing)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        lengths = ()
    return PreprocessedImages(folder, lengths if len(lengths) in (2, 3) else (1.0, 1.0, 1.0), labels)


def _configuration(plans: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of a configuration, including those that it inherits."""
    configurations = plans.get("configurations")
    settings: dict[str, Any] = {}
    seen: set[str] = set()
    while isinstance(configurations, Mapping) and name not in seen and isinstance(configurations.get(name), Mapping):
        seen.add(name)
        settings = {**configurations[name], **settings}
        name = str(configurations[name].get("inherits_from"))
    return settings


def _labels(described: Mapping[str, Any] | None) -> Labels | None:
    try:
        return Labels.from_dataset_json(described or {})
    except ValueError:
        return None
