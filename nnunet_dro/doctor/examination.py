"""Examine a finished training: measure what is missing, apply the rules, write the page."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnunet_dro.doctor.answer import Answer, conclude, duration, stale_losses
from nnunet_dro.doctor.inputs import find_inputs, read_strata
from nnunet_dro.doctor.measurements import HARDNESS, LOSS, Measurements
from nnunet_dro.doctor.page import doctor_html
from nnunet_dro.doctor.rules import TRAINING, VALIDATION
from nnunet_dro.files.case_log import LOSSES
from nnunet_dro.files.output_folder import check_output, write_files

if TYPE_CHECKING:
    from nnunet_dro.doctor.model import FinishedModel

PAGE_FILE = "doctor.html"

#: Augmented patches per case, unless another number is asked for.
N_PATCHES = 4


def examine(
    folder: Path,
    output: Path | None = None,
    *,
    n_patches: int = N_PATCHES,
    prediction: bool = True,
    device: str | None = None,
    cases: Path | None = None,
    by: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
    report: Callable[[str], None] | None = None,
) -> tuple[Answer, Path]:
    """Examine a finished training and write doctor.csv, doctor.json and doctor.html; a run that was ended goes on.

    With ``n_patches`` 0 the losses are those of hardness.csv, without predictions the rules cannot tell anything.
    ``progress`` is called with the number of measured cases and of all cases, ``report`` with what is about to be done
    and how long it will take, in words. The answer is returned with the path of the page.
    """
    inputs = find_inputs(folder)
    where = output or inputs.fold.folder
    check_output(where, overwrite=True)
    log = inputs.fold.folder / LOSSES.file
    if n_patches < 0 or (n_patches == 0 and not log.is_file()):
        rule = "at least 1, or 0 where the training has written hardness.csv"
        raise ValueError(f"`patches` must be {rule}, got {n_patches}. Measure with --patches {N_PATCHES}.")
    from nnunet_dro.doctor.model import FinishedModel

    model = FinishedModel(inputs, device=device)
    training, validation = model.cases()
    sets = dict.fromkeys(training, TRAINING) | dict.fromkeys(validation, VALIDATION)
    strata, strata_from = read_strata(inputs, training, validation, table=cases, by=by)
    settings = {"checkpoint": inputs.fingerprint, "patches": n_patches, "prediction": prediction}
    measured = Measurements(where, settings, tuple(inputs.labels.values))
    _measure(model, measured, sets, settings, progress=progress, report=report)
    table = measured.table(sets)
    history = stale_losses(log, training) if n_patches == 0 else None
    answer = conclude(inputs, table, strata.loc[table["case"]], strata_from, history=history, length=model.length)
    write_files(where, {PAGE_FILE: doctor_html(answer)})
    return answer, where / PAGE_FILE


def _measure(
    model: "FinishedModel",
    measured: Measurements,
    sets: Mapping[str, str],
    settings: Mapping[str, Any],
    *,
    progress: Callable[[int, int], None] | None,
    report: Callable[[str], None] | None,
) -> None:
    """Measure the cases that have no row yet."""
    left = [case for case in sets if case not in measured.rows]
    if report and len(left) < len(sets):
        report(f"{len(sets) - len(left)} of {len(sets)} cases were measured before.")
    for n, case in enumerate(left):
        start = time.perf_counter()
        losses, hardness = model.patch_losses(case, settings["patches"]) if settings["patches"] else ([], None)
        middle = time.perf_counter()
        prediction = model.prediction(case) if settings["prediction"] else {}
        end = time.perf_counter()
        row: dict[str, Any] = {"case": case, "set": sets[case]}
        row |= {"seconds_patches": round(middle - start, 3), "seconds_prediction": round(end - middle, 3)}
        row |= {HARDNESS: hardness} | {f"{LOSS}{k + 1}": loss for k, loss in enumerate(losses)}
        measured.add(row | prediction)
        if report and n == 0 and len(left) > 1:
            # The time of patches is that of augmentation, which does not grow with the case.
            sizes = {other: model.n_voxels(other) for other in left}
            scale = sum(sizes.values()) / max(1, sizes[case])
            seconds = (middle - start) * len(left) + (end - middle) * scale
            report(f"Measuring {len(left)} cases will take about {duration(seconds)}.")
        if progress:
            progress(len(sets) - len(left) + n + 1, len(sets))
