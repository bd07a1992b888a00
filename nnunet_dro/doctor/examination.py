"""Examine a finished training: measure what is missing, apply the rules, write the page.

The measurements are in a file that grows by a row per case, so that a run that ends early goes on.
"""

import csv
import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import pandas as pd

from nnunet_dro.doctor.answer import CASES_FILE, HARDNESS, Answer, conclude, duration, stale_losses
from nnunet_dro.doctor.inputs import find_inputs, read_strata
from nnunet_dro.doctor.page import doctor_html
from nnunet_dro.doctor.rules import CONTRAST, DICE, LOSS, TRAINING, VALIDATION, VOXELS
from nnunet_dro.evaluation.scoring.score_files import sha256_of
from nnunet_dro.files.case_log import LOSSES
from nnunet_dro.files.json_file import read_json
from nnunet_dro.files.output_folder import check_writable, replacing, write_files

if TYPE_CHECKING:
    from nnunet_dro.doctor.model import FinishedModel

SETTINGS_FILE = "doctor.json"
PAGE_FILE = "doctor.html"

_FIRST = (
    "case",
    "set",
    "seconds_patches",
    "seconds_prediction",
)  # Columns before those of the losses and of the Dice.

#: What each setting is called in the error for another value.
_NAMES = {
    "checkpoint": "another checkpoint",
    "patches": "another number of patches",
    "prediction": "other predictions",
}


class Measurements:
    """The measured cases in ``doctor.csv``.

    Those of other settings than in ``doctor.json`` are refused.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any], labels: tuple[str, ...]) -> None:
        self._path = folder / CASES_FILE
        losses = [f"{LOSS}{n + 1}" for n in range(settings["patches"])]
        hardness = [HARDNESS] if losses else []
        of_labels = [f"{what}{label}" for what in (VOXELS, CONTRAST, DICE) for label in labels]
        self._columns = [
            *_FIRST,
            *hardness,
            *losses,
            *(of_labels if settings["prediction"] else []),
        ]
        self.rows: dict[str, dict[str, Any]] = {}
        if (folder / SETTINGS_FILE).exists() and self._path.exists():
            self._check(folder / SETTINGS_FILE, settings)
            self._read()
        folder.mkdir(parents=True, exist_ok=True)
        # The table first: one without settings counts as none, and never the settings of one table
        # with another.
        with (
            replacing(self._path) as partial,
            partial.open("w", encoding="utf-8", newline="") as file,
        ):
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
            raise ValueError(
                f"`{path.name}` must be JSON, got {str(path)!r}, which is damaged. {cure}"
            ) from error
        if differing:
            name = differing[0]
            values = "" if name == "checkpoint" else f" ({before.get(name)}, not {settings[name]})"
            raise ValueError(
                f"`output` must hold measurements with the same settings, got {str(path.parent)!r}, whose "
                f"{CASES_FILE} has {_NAMES[name]}{values}. {cure}"
            )

    def _read(self) -> None:
        content = self._path.read_text(encoding="utf-8")
        # A run that was killed may have left half a row.
        lines = csv.DictReader(io.StringIO(content[: content.rfind("\n") + 1], newline=""))
        cure = "Delete the file to measure anew."
        if list(lines.fieldnames or self._columns) != self._columns:
            raise ValueError(
                f"`{CASES_FILE}` must have the columns of this training, got {str(self._path)!r}. {cure}"
            )
        try:
            for line in lines:
                numbers = {name: _number(line[name]) for name in self._columns[2:]}
                self.rows[line["case"]] = {"case": line["case"], "set": line["set"], **numbers}
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`{CASES_FILE}` must hold numbers, got {str(self._path)!r}: {error}. {cure}"
            ) from error


def _number(text: str) -> float:
    # Voxels are written as they were.
    return int(text) if text.isdigit() else float(text)


def examine(
    folder: Path,
    output: Path | None = None,
    *,
    n_patches: int,
    prediction: bool = True,
    device: str | None = None,
    cases: Path | None = None,
    by: Sequence[str] = (),
    progress: Callable[[int, int], None] = lambda n_done, n_all: None,
    report: Callable[[str], None] = lambda line: None,
) -> tuple[Answer, Path]:
    """Examine a finished training and write doctor.csv, doctor.json and doctor.html.

    A run that was ended goes on.

    With ``n_patches`` 0 the losses are those of hardness.csv, without predictions the rules cannot
    tell anything. The answer is returned with the path of the page.
    """
    inputs = find_inputs(folder)
    where = output or inputs.fold.folder
    check_writable(where, name="output", cure="Name another folder.")
    log = inputs.fold.folder / LOSSES.file
    if n_patches < 0 or (n_patches == 0 and not log.is_file()):
        rule = "at least 1, or 0 where the training has written hardness.csv"
        raise ValueError(f"`patches` must be {rule}, got {n_patches}. Measure with --patches 4.")
    from nnunet_dro.doctor.model import FinishedModel

    model = FinishedModel(inputs, device=device)
    training, validation = model.cases()
    sets = dict.fromkeys(training, TRAINING) | dict.fromkeys(validation, VALIDATION)
    strata, strata_from = read_strata(inputs, training, validation, table=cases, by=by)
    settings = {
        "checkpoint": sha256_of(inputs.checkpoint),
        "patches": n_patches,
        "prediction": prediction,
    }
    measured = Measurements(where, settings, tuple(inputs.labels.values))
    _measure(model, measured, sets, settings, progress=progress, report=report)
    table = measured.table(sets)
    history = stale_losses(log, training) if n_patches == 0 else None
    answer = conclude(
        inputs.fold,
        table,
        strata.loc[table["case"]],
        strata_from,
        history=history,
        length=model.length,
    )
    write_files(where, {PAGE_FILE: doctor_html(answer)})
    return answer, where / PAGE_FILE


def _measure(
    model: "FinishedModel",
    measured: Measurements,
    sets: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    progress: Callable[[int, int], None],
    report: Callable[[str], None],
) -> None:
    """Measure the cases that have no row yet."""
    left = [case for case in sets if case not in measured.rows]
    if len(left) < len(sets):
        report(f"{len(sets) - len(left)} of {len(sets)} cases were measured before.")
    for n, case in enumerate(left):
        start = time.perf_counter()
        losses, hardness = (
            model.patch_losses(case, settings["patches"]) if settings["patches"] else ([], None)
        )
        middle = time.perf_counter()
        prediction = model.prediction(case) if settings["prediction"] else {}
        end = time.perf_counter()
        row: dict[str, Any] = {"case": case, "set": sets[case]}
        row |= {
            "seconds_patches": round(middle - start, 3),
            "seconds_prediction": round(end - middle, 3),
        }
        row |= {HARDNESS: hardness} | {f"{LOSS}{k + 1}": loss for k, loss in enumerate(losses)}
        measured.add(row | prediction)
        if n == 0 and len(left) > 1:
            # The time of patches is that of augmentation, which does not grow with the case.
            sizes = {other: model.n_voxels(other) for other in left}
            scale = sum(sizes.values()) / max(1, sizes[case])
            seconds = (middle - start) * len(left) + (end - middle) * scale
            report(f"Measuring {len(left)} cases will take about {duration(seconds)}.")
        progress(len(sets) - len(left) + n + 1, len(sets))
