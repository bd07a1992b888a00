"""Examine a finished training: measure what is missing, apply the rules, write the page.

The measurements are in a file that grows by a row per case, so that a run that ends early goes on.
"""

import csv
import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from nnunet_dro.evaluation.scoring.score_files import sha256_of
from nnunet_dro.files.case_log import LOSSES
from nnunet_dro.files.json_file import read_json
from nnunet_dro.files.output_folder import check_writable, write_files
from nnunet_dro.inspection.doctor.answer import CASES_FILE, Answer, conclude
from nnunet_dro.inspection.doctor.columns import (
    CONTRAST,
    DICE,
    HARDNESS,
    LOSS,
    TRAINING,
    VALIDATION,
    VOXELS,
)
from nnunet_dro.inspection.doctor.page import doctor_html
from nnunet_dro.inspection.doctor.words import duration
from nnunet_dro.inspection.training import TrainingFiles, find_training, read_strata
from nnunet_dro.naming import count

if TYPE_CHECKING:
    from nnunet_dro.inspection.doctor.model import FinishedModel

SETTINGS_FILE = "doctor.json"
PAGE_FILE = "doctor.html"

#: Columns before those of the losses and of the Dice.
_FIRST = ("case", "set", "seconds_patches", "seconds_prediction")

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
        self._columns = _columns(settings, labels)
        self.rows: dict[str, dict[str, Any]] = {}
        settings_path = folder / SETTINGS_FILE
        if settings_path.exists() and self._path.exists():
            self._check(settings_path, settings)
            self._read()

        head = {name: name for name in self._columns}
        # The settings, which come first here, are written last: a table without settings counts as
        # none, and never the settings of one table with another.
        files = {
            SETTINGS_FILE: json.dumps(dict(settings), indent=2) + "\n",
            CASES_FILE: self._lines([head, *self.rows.values()]),
        }
        write_files(folder, files)

    def add(self, row: Mapping[str, Any]) -> None:
        """Append the row of a case."""
        self.rows[str(row["case"])] = dict(row)
        with self._path.open("a", encoding="utf-8", newline="") as file:
            file.write(self._lines([row]))

    def table(self, cases: Mapping[str, str]) -> pd.DataFrame:
        """The rows of the cases, each with its set, ``training`` or ``validation``."""
        rows = [self.rows[case] | {"set": name} for case, name in cases.items()]
        return pd.DataFrame(rows, columns=self._columns)

    def _lines(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """Rows as lines of the table."""
        text = io.StringIO()
        writer = csv.DictWriter(
            text,
            self._columns,
            lineterminator="\n",
            extrasaction="ignore",
        )
        writer.writerows(rows)
        return text.getvalue()

    def _check(self, path: Path, settings: Mapping[str, Any]) -> None:
        """Refuse measurements that were made with other settings."""
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
            difference = _NAMES[name]
            # The hash of a checkpoint tells a reader nothing.
            if name != "checkpoint":
                difference += f" ({before.get(name)}, not {settings[name]})"
            raise ValueError(
                "`output` must hold measurements with the same settings, got "
                f"{str(path.parent)!r}, whose {CASES_FILE} has {difference}. {cure}"
            )

    def _read(self) -> None:
        """Read the rows of an earlier run."""
        content = self._path.read_text(encoding="utf-8")
        # A run that was killed may have left half a row.
        complete = content[: content.rfind("\n") + 1]
        lines = csv.DictReader(io.StringIO(complete, newline=""))
        cure = "Delete the file to measure anew."
        if list(lines.fieldnames or self._columns) != self._columns:
            raise ValueError(
                f"`{CASES_FILE}` must have the columns of this training, got "
                f"{str(self._path)!r}. {cure}"
            )

        try:
            for line in lines:
                case = line["case"]
                numbers = {name: _number(line[name]) for name in self._columns[2:]}
                self.rows[case] = {"case": case, "set": line["set"], **numbers}
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"`{CASES_FILE}` must hold numbers, got {str(self._path)!r}: {error}. {cure}"
            ) from error


def _columns(settings: Mapping[str, Any], labels: Sequence[str]) -> list[str]:
    """The columns of ``doctor.csv``."""
    columns = [*_FIRST]
    n_patches = settings["patches"]
    if n_patches:
        columns.append(HARDNESS)
        columns += [f"{LOSS}{n + 1}" for n in range(n_patches)]
    if settings["prediction"]:
        for measure in (VOXELS, CONTRAST, DICE):
            columns += [f"{measure}{label}" for label in labels]
    return columns


def _number(text: str) -> float:
    # Voxels are written as they were.
    return int(text) if text.isdigit() else float(text)


def examine(  # noqa: PLR0913 - the options of the command
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

    Args:
        folder: The fold's folder.
        output: Where the files are written; default: the fold's folder.
        n_patches: Number of patches to measure per case; 0 takes the losses of hardness.csv.
        prediction: Whether cases are predicted; without, the rules cannot tell anything.
        device: Where the network runs; default: the best there is.
        cases: The case table; default: that of the dataset.
        by: Its columns with strata; default: all that divide the training cases.
        progress: Called with the numbers of cases that are measured and of all.
        report: Called with sentences on what was done before and how long the rest takes.

    Returns:
        The answer, and the path of the page.

    Raises:
        FileNotFoundError: If a file of the training is missing.
        ValueError: If one is damaged, or an option does not fit.
    """
    inputs = find_training(folder)
    output = output or inputs.fold.folder
    check_writable(output, name="output", cure="Name another folder.")
    _check_patches(n_patches, inputs.fold.folder)

    # nnU-Net takes seconds to import, so wrong options are refused before.
    from nnunet_dro.inspection.doctor.model import FinishedModel

    model = FinishedModel(inputs, device=device)
    settings = {
        "checkpoint": sha256_of(inputs.checkpoint),
        "patches": n_patches,
        "prediction": prediction,
    }
    answer = _answer(
        inputs,
        model,
        output,
        settings,
        cases=cases,
        by=by,
        progress=progress,
        report=report,
    )
    write_files(output, {PAGE_FILE: doctor_html(answer)})
    return answer, output / PAGE_FILE


def _answer(
    inputs: TrainingFiles,
    model: "FinishedModel",
    output: Path,
    settings: Mapping[str, Any],
    *,
    cases: Path | None,
    by: Sequence[str],
    progress: Callable[[int, int], None],
    report: Callable[[str], None],
) -> Answer:
    """Measure the cases, and apply the rules."""
    # What is noticed about cases and strata is said with the answer, on the page too.
    notes: list[str] = []
    training, validation = model.cases(report=notes.append)
    sets = dict.fromkeys(training, TRAINING) | dict.fromkeys(validation, VALIDATION)
    strata, strata_from = read_strata(
        inputs.preprocessed, training, validation, table=cases, by=by, report=notes.append
    )
    # An image that cannot be used is named before anything is measured.
    draws_of_images = model.draws_of_images(training, report=report)

    measurements = Measurements(output, settings, tuple(inputs.labels.values))
    _measure(model, measurements, sets, settings, progress=progress, report=report)
    table = measurements.table(sets)
    return conclude(
        inputs.fold,
        table,
        strata.loc[table["case"]],
        strata_from,
        draws_of_images=draws_of_images,
        length=model.length,
        trained_with=model.trained_with,
        batch_size=model.batch_size,
        notes=notes,
    )


def _check_patches(n_patches: int, fold: Path) -> None:
    """Refuse a number of patches that leaves no losses."""
    if n_patches < 0 or (n_patches == 0 and not (fold / LOSSES.file).is_file()):
        raise ValueError(
            "`patches` must be at least 1, or 0 where the training has written hardness.csv, got "
            f"{n_patches}. Measure with --patches 4."
        )


def _measure(
    model: "FinishedModel",
    measurements: Measurements,
    sets: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    progress: Callable[[int, int], None],
    report: Callable[[str], None],
) -> None:
    """Measure the cases that have no row yet."""
    left = [case for case in sets if case not in measurements.rows]
    n_before = len(sets) - len(left)
    if n_before:
        report(f"{n_before} of {count(len(sets), 'case')} were measured before.")

    for n, case in enumerate(left, start=1):
        row: dict[str, Any] = {"case": case, "set": sets[case]}

        start = time.perf_counter()
        if settings["patches"]:
            losses, row[HARDNESS] = model.patch_losses(case, settings["patches"])
            row |= {f"{LOSS}{k}": loss for k, loss in enumerate(losses, start=1)}
        middle = time.perf_counter()
        if settings["prediction"]:
            row |= model.prediction(case)
        end = time.perf_counter()

        row["seconds_patches"] = round(middle - start, 3)
        row["seconds_prediction"] = round(end - middle, 3)
        measurements.add(row)

        if n == 1 and len(left) > 1:
            # The time of patches is that of augmentation, which does not grow with the case; that
            # of a prediction does.
            n_voxels = [model.n_voxels(other) for other in left]
            scale = sum(n_voxels) / max(1, n_voxels[0])
            seconds = (middle - start) * len(left) + (end - middle) * scale
            report(f"Measuring {count(len(left), 'case')} will take about {duration(seconds)}.")
        progress(n_before + n, len(sets))
