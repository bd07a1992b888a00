"""The measurements of the cases in a file that grows by a row per case, so that a run that ends early goes on."""

import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from nnunet_dro.files.json_file import read_json
from nnunet_dro.files.output_folder import replacing

CASES_FILE = "doctor.csv"
SETTINGS_FILE = "doctor.json"

#: Columns before those of the losses and of the Dice.
_FIRST = ("case", "set", "seconds_patches", "seconds_prediction")

LOSS, DICE, VOXELS, CONTRAST = "loss_", "dice_", "voxels_", "contrast_"

#: What the default trainer would keep of the patches.
HARDNESS = "hardness"

#: What each setting is called in the error for another value.
_NAMES = {"checkpoint": "another checkpoint", "patches": "another number of patches", "prediction": "other predictions"}


class Measurements:
    """The measured cases in ``doctor.csv``, and what they were measured with in ``doctor.json``.

    ``settings`` are ``checkpoint`` (its hash), ``patches`` (their number) and ``prediction`` (whether there are any);
    a folder with measurements with other settings is refused.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], labels: tuple[str, ...]) -> None:
        self._path = folder / CASES_FILE
        losses = [f"{LOSS}{n + 1}" for n in range(settings["patches"])]
        hardness = [HARDNESS] if losses else []
        of_labels = [f"{what}{label}" for what in (VOXELS, CONTRAST, DICE) for label in labels]
        self._columns = [*_FIRST, *hardness, *losses, *(of_labels if settings["prediction"] else [])]
        self.rows: dict[str, dict[str, Any]] = {}
        if (folder / SETTINGS_FILE).exists() and self._path.exists():
            self._check(folder / SETTINGS_FILE, settings)
            self._read()
        folder.mkdir(parents=True, exist_ok=True)
        # The table first: one without settings counts as none, and never the settings of one table with another.
        with replacing(self._path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
            writer = self._writer(file)
            writer.writeheader()
            writer.writerows(self.rows.values())
        with replacing(folder / SETTINGS_FILE) as partial:
            partial.write_text(json.dumps(dict(settings), indent=2) + "\n", encoding="utf-8")

    def add(self, row: Mapping[str, Any]) -> None:
        """Append the row of a case."""
        self.rows[str(row["case"])] = dict(row)
        with self._path.open("a", encoding="utf-8", newline="") as file:
            self._writer(file).writerow(row)

    def table(self, cases: Mapping[str, str]) -> pd.DataFrame:
        """The rows of the cases, each with its set, ``training`` or ``validation``."""
        rows = [self.rows[case] | {"set": name} for case, name in cases.items()]
        return pd.DataFrame(rows, columns=self._columns)

    def _writer(self, file: TextIO) -> "csv.DictWriter[str]":
        return csv.DictWriter(file, self._columns, lineterminator="\n", extrasaction="ignore")

    def _check(self, path: Path, settings: Mapping[str, Any]) -> None:
        cure = "Name another folder with --output, or delete these files to measure anew."
        try:
            before = read_json(path)
            differing = [name for name in settings if before.get(name) != settings[name]]
        except (ValueError, AttributeError) as error:
            raise ValueError(f"`{path.name}` must be JSON, got {str(path)!r}, which is damaged. {cure}") from error
        if differing:
            values = (
                "" if differing[0] == "checkpoint" else f" ({before.get(differing[0])}, not {settings[differing[0]]})"
            )
            raise ValueError(
                f"`output` must hold measurements with the same settings, got {str(path.parent)!r}, whose "
                f"{CASES_FILE} has {_NAMES[differing[0]]}{values}. {cure}"
            )

    def _read(self) -> None:
        content = self._path.read_text(encoding="utf-8")
        # A run that was killed may have left half a row.
        lines = csv.DictReader(io.StringIO(content[: content.rfind("\n") + 1], newline=""))
        cure = "Delete the file to measure anew."
        if list(lines.fieldnames or self._columns) != self._columns:
            raise ValueError(f"`{CASES_FILE}` must have the columns of this training, got {str(self._path)!r}. {cure}")
        try:
            for line in lines:
                numbers = {name: _number(line[name]) for name in self._columns[2:]}
                self.rows[line["case"]] = {"case": line["case"], "set": line["set"], **numbers}
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{CASES_FILE}` must hold numbers, got {str(self._path)!r}: {error}. {cure}") from error


def _number(text: str) -> float:
    # Voxels are written as they were.
    return int(text) if text.isdigit() else float(text)
