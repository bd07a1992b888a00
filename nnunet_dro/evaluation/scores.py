"""Pairs of label maps to one row per case and label."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.naming import name_some

#: The formats nnU-Net reads; the first that fits a file's name gives the case's identifier.
LABEL_MAP_ENDINGS = (".nii.gz", ".nii", ".nrrd", ".mha", ".png", ".bmp", ".tiff", ".tif")

#: How far a stored value may lie from an integer: label maps saved as scaled integers read back as 3.00000006.
INTEGER_TOLERANCE = 1e-3

#: Up to this many pairs of values, counting by index is faster than sorting the values.
_MAX_INDEXED_PAIRS = 1 << 22

IntegerArray = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Labels:
    """The foreground labels of a dataset and its ignore value.

    Attributes:
        values: Name to the label values it consists of; a region has several.
        ignore: Voxels with this reference value are left out of every count; None if there is no such value.

    Raises:
        ValueError: If there is no label, or one without values.
    """

    values: Mapping[str, tuple[int, ...]]
    ignore: int | None = None

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("`labels` must be at least one foreground label, got none. Name them in dataset.json.")
        for name, values in self.values.items():
            if not values:
                raise ValueError(f"`labels` must be lists of values, got {values!r} for {name!r}. Give its values.")

    @classmethod
    def from_dataset_json(cls, dataset: Mapping[str, Any]) -> "Labels":
        """Labels as nnU-Net's dataset.json says them.

        Args:
            dataset: The contents of dataset.json. Its ``labels`` map names to an integer, or to several for a region;
                ``background`` (or the value 0) is not a label, ``ignore`` is the ignore value.

        Returns:
            The labels, in the order of the file.

        Raises:
            ValueError: If there is no ``labels`` entry, or a value in it is not an integer.
        """
        entries = dataset.get("labels")
        if not isinstance(entries, Mapping):
            raise ValueError(f"`labels` in dataset.json must be a mapping of names, got {entries!r}. Add it.")
        values = {str(name): _label_values(str(name), value) for name, value in entries.items()}
        ignore = values.pop("ignore", None)
        foreground = {name: v for name, v in values.items() if name != "background" and v != (0,)}
        return cls(foreground, ignore=ignore[0] if ignore else None)


def _label_values(name: str, value: Any) -> tuple[int, ...]:
    values = value if isinstance(value, list | tuple) else (value,)
    try:
        return tuple(int(v) for v in values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`labels` must be integers, got {value!r} for {name!r}. Correct dataset.json.") from error


@dataclass(frozen=True)
class JointCounts:
    """How often each pair of reference and prediction value occurs.

    Attributes:
        reference: Reference value of each pair, shape (n_pairs,).
        prediction: Prediction value of each pair, shape (n_pairs,).
        n_voxels: Number of voxels with this pair, shape (n_pairs,), > 0.
    """

    reference: npt.NDArray[np.int64]
    prediction: npt.NDArray[np.int64]
    n_voxels: npt.NDArray[np.int64]

    @classmethod
    def of(cls, reference: IntegerArray, prediction: IntegerArray) -> "JointCounts":
        """Count the pairs of two label maps of the same shape, in one pass for all labels and regions."""
        reference_codes, reference_values = _codes(reference)
        prediction_codes, prediction_values = _codes(prediction)
        n_reference, n_prediction = len(reference_values), len(prediction_values)
        if n_reference * n_prediction <= _MAX_INDEXED_PAIRS:
            counts = np.bincount(reference_codes * n_prediction + prediction_codes, minlength=1)
            pairs = np.flatnonzero(counts)
            n_voxels = counts[pairs]
        else:
            pairs, n_voxels = np.unique(reference_codes * n_prediction + prediction_codes, return_counts=True)
        return cls(reference_values[pairs // n_prediction], prediction_values[pairs % n_prediction], n_voxels)


def _codes(label_map: IntegerArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Voxels as indices into a list of values, and that list; small label values are their own indices."""
    flat = label_map.ravel().astype(np.int64)
    if not flat.size:
        return flat, np.zeros(1, dtype=np.int64)
    if flat.min() >= 0 and flat.max() < 1024:
        return flat, np.arange(int(flat.max()) + 1, dtype=np.int64)
    values, codes = np.unique(flat, return_inverse=True)
    return codes.astype(np.int64), values


def score_case(reference: IntegerArray, prediction: IntegerArray, labels: Labels) -> list[dict[str, Any]]:
    """Scores of one case, a row per label.

    Dice = 2 n_intersection / (n_reference + n_prediction).

    Args:
        reference: Label map, any shape.
        prediction: Label map, same shape.
        labels: The labels to score.

    Returns:
        A row per label with the keys ``label``, ``dice`` (NaN where the label is in neither, 0 where it is in one),
        ``n_reference``, ``n_prediction`` and ``n_intersection`` (voxels).

    Raises:
        ValueError: If the shapes differ.
    """
    if reference.shape != prediction.shape:
        raise ValueError(f"`prediction` must be of the reference's shape {reference.shape}, got {prediction.shape}.")
    counts = JointCounts.of(reference, prediction)
    n_voxels = counts.n_voxels
    if labels.ignore is not None:
        n_voxels = np.where(counts.reference == labels.ignore, 0, n_voxels)
    rows = []
    for name, values in labels.values.items():
        in_reference = np.isin(counts.reference, values)
        in_prediction = np.isin(counts.prediction, values)
        n_reference, n_prediction = int(n_voxels[in_reference].sum()), int(n_voxels[in_prediction].sum())
        n_intersection = int(n_voxels[in_reference & in_prediction].sum())
        total = n_reference + n_prediction
        row: dict[str, Any] = {"label": name, "dice": 2 * n_intersection / total if total else float("nan")}
        rows.append(row | {"n_reference": n_reference, "n_prediction": n_prediction, "n_intersection": n_intersection})
    return rows


def read_label_map(path: Path) -> IntegerArray:
    """Read a label map in any format nnU-Net reads.

    Args:
        path: The file.

    Returns:
        Integers, in SimpleITK's axis order (z, y, x).

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it cannot be read, has several channels, or holds values that are not integers.
    """
    import SimpleITK

    if not path.is_file():
        raise FileNotFoundError(f"`path` must be a label map, got {str(path)!r}. Check the folder and the case's name.")
    try:
        image = SimpleITK.ReadImage(str(path))
    except RuntimeError as error:
        raise ValueError(f"`path` must be a readable label map, got {str(path)!r}. Write it again.") from error
    if image.GetNumberOfComponentsPerPixel() != 1:
        raise ValueError(f"`path` must have one channel, got {str(path)!r}. Store label values, not colours.")
    values: npt.NDArray[Any] = SimpleITK.GetArrayFromImage(image)
    if np.issubdtype(values.dtype, np.integer):
        label_map: IntegerArray = values
        return label_map
    rounded: npt.NDArray[Any] = np.rint(values)
    if not np.all(np.abs(values - rounded) <= INTEGER_TOLERANCE):
        raise ValueError(f"`path` must hold integers, got others in {str(path)!r}. Store label values.")
    label_map = rounded.astype(np.int64)
    return label_map


def list_label_maps(folder: Path) -> dict[str, Path]:
    """Case identifier to file, for the label maps directly in a folder, sorted by case.

    Raises:
        FileNotFoundError: If the folder is not there or holds no label map.
        ValueError: If a case has more than one file.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"`folder` must be a folder of label maps, got {str(folder)!r}. Check the path.")
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        ending = next((e for e in LABEL_MAP_ENDINGS if path.name.lower().endswith(e)), None)
        if ending is None or path.name.startswith("."):
            continue
        case = path.name[: -len(ending)]
        if case in files:
            names = f"{files[case].name} and {path.name}"
            raise ValueError(f"`folder` must hold one file per case, got {names} in {str(folder)!r}. Remove one.")
        files[case] = path
    if not files:
        endings = ", ".join(LABEL_MAP_ENDINGS)
        raise FileNotFoundError(f"`folder` must hold label maps ({endings}), got none in {str(folder)!r}.")
    return files


def score_folders(
    reference: Path, prediction: Path, labels: Labels, *, cases: Collection[str] | None = None
) -> pd.DataFrame:
    """Scores of every case of a folder.

    Args:
        reference: Folder of reference label maps.
        prediction: Folder of predicted label maps, named like the references; the format may differ.
        labels: The labels to score.
        cases: The cases to score; None for every case of ``reference``.

    Returns:
        A row per case and label, sorted by case: ``case``, ``label``, ``dice``, ``n_reference``, ``n_prediction``,
        ``n_intersection``.

    Raises:
        FileNotFoundError: If a folder or the label map of a case is missing; the message names the cases.
        ValueError: If a file cannot be used; the message names it.
    """
    references, predictions = list_label_maps(reference), list_label_maps(prediction)
    wanted = sorted(references) if cases is None else sorted(cases)
    for name, folder, files in (("reference", reference, references), ("prediction", prediction, predictions)):
        if missing := [case for case in wanted if case not in files]:
            raise FileNotFoundError(
                f"`{name}` must have a label map for every case, got none for {name_some(missing)} in {str(folder)!r}. "
                "Add the files or leave the cases out."
            )
    rows = []
    for case in wanted:
        reference_map, prediction_map = read_label_map(references[case]), read_label_map(predictions[case])
        try:
            rows += [{"case": case} | row for row in score_case(reference_map, prediction_map, labels)]
        except ValueError as error:
            raise ValueError(f"{error} The file is {str(predictions[case])!r}; predict it again.") from error
    columns = ["case", "label", "dice", "n_reference", "n_prediction", "n_intersection"]
    scores: pd.DataFrame = pd.DataFrame(rows, columns=columns)
    return scores
