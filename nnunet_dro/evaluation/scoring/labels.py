"""The labels of a dataset: names, regions and the ignore value."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.dataset_json import read_dataset_json

#: A label that this share of the cases have is usual; with fewer cases nobody can say.
_MOST, _FEWEST = 0.8, 5


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

    @classmethod
    def of_values(cls, values: Collection[int]) -> "Labels | None":
        """One label for each value but 0, named by the value; None if there is none."""
        found = {str(value): (value,) for value in sorted({int(v) for v in values}) if value != 0}
        return cls(found) if found else None

    def n_voxels(self, label_map: npt.NDArray[np.integer[Any]]) -> dict[str, int]:
        """Number of voxels of each label or region."""
        return {name: int(np.isin(label_map, values).sum()) for name, values in self.values.items()}

    @property
    def known(self) -> frozenset[int]:
        """Every value that a reference may hold."""
        return frozenset({0, *(v for values in self.values.values() for v in values)} | {self.ignore or 0})


def note_on_absent_labels(
    n_voxels: Mapping[str, Mapping[str, float]], usual: Mapping[str, Mapping[str, float]] | None = None
) -> list[str]:
    """A sentence on labels that some cases lack and most cases have.

    Example:
        >>> note_on_absent_labels({str(n): {"liver": n} for n in range(6)})[0].partition(".")[0]
        'Labels that most cases have are absent in some: liver in 0'
    """
    judged = n_voxels if usual is None else usual
    if len(judged) < _FEWEST:
        return []
    found = []
    for label in next(iter(judged.values())):
        without = [case for case, of_case in n_voxels.items() if of_case[label] == 0]
        if without and sum(of_case[label] > 0 for of_case in judged.values()) >= _MOST * len(judged):
            found.append(f"{label} in {name_some(without)}")
    if not found:
        return []
    return [
        f"Labels that most cases have are absent in some: {'; '.join(found)}. A structure that is there and not "
        "labelled makes a case look hard, and robust training draws it more often: look at these label maps."
    ]


def _label_values(name: str, value: Any) -> tuple[int, ...]:
    values = value if isinstance(value, list | tuple) else (value,)
    try:
        integers = tuple(int(v) for v in values)
        if any(isinstance(v, float) and v != integer for v, integer in zip(values, integers, strict=True)):
            raise ValueError(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"`labels` must be integers, got {value!r} for {name!r}. Correct dataset.json.") from error
    return integers


def read_labels(path: Path) -> Labels:
    """Labels of a dataset.json."""
    dataset = read_dataset_json(path)
    try:
        return Labels.from_dataset_json(dataset)
    except ValueError as error:
        raise ValueError(f"{error} The file is {str(path)!r}.") from error
