"""Examine a finished training: measure what is missing, apply the rules, write the page."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from nnunet_dro.doctor.history import HARDNESS_FILE, stale_losses
from nnunet_dro.doctor.inputs import Inputs, find_inputs, read_strata
from nnunet_dro.doctor.measurements import DICE, LOSS, Measurements
from nnunet_dro.doctor.rules import TRAINING, VALIDATION, Diagnosis, diagnose
from nnunet_dro.doctor.sampling_ahead import Draws, LossSpread, expected_draws, loss_spread, trainer_name
from nnunet_dro.nnunet.folders import Fold
from nnunet_dro.nnunet.training_log import training_seconds
from nnunet_dro.output_folder import check_output, write_files

if TYPE_CHECKING:
    from nnunet_dro.doctor.model import FinishedModel

PAGE_FILE = "doctor.html"

#: Augmented patches per case, unless another number is asked for.
N_PATCHES = 4


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of a training, and what follows.

    Attributes:
        fold: The fold that was examined.
        cases: A row per case: the measurements, the columns with the strata, ``share`` (of the expected draws, NaN for
            validation cases).
        by: The columns with the strata.
        strata_from: Where the strata come from; empty without a case table.
        diagnosis: What the rules say.
        spread: How much the losses of the training cases differ; None if they are all alike or not finite.
        spread_from: Which losses these are, in words.
        draws: The draws that hardness weighted sampling would start with; None like ``spread``.
        trainer: Name of the trainer that robust training would use; empty like ``spread``.
        n_patches: Patches that were measured per case.
        has_predictions: Whether cases were predicted.
        training_seconds: Time of the plain training by nnU-Net's log; 0 if the log does not say.
        has_hardness_log: Whether `nnunet-dro suspects` can rank the cases.
    """

    fold: Fold
    cases: pd.DataFrame
    by: tuple[str, ...]
    strata_from: str
    diagnosis: Diagnosis
    spread: LossSpread | None
    spread_from: str
    draws: Draws | None
    trainer: str
    n_patches: int
    has_predictions: bool
    training_seconds: float
    has_hardness_log: bool

    @property
    def is_training(self) -> "pd.Series[bool]":
        """Whether each case is a training case."""
        return self.cases["set"] == TRAINING

    def share(self, cases: Sequence[str]) -> tuple[float, float]:
        """Share of some cases among the training cases, and of the expected draws (NaN without losses)."""
        members = self.cases["case"].isin(list(cases)) & self.is_training
        draws = float(self.cases["share"][members].sum()) if self.draws else float("nan")
        return float(members.sum()) / max(1, int(self.is_training.sum())), draws


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

    Args:
        folder: Results folder of the fold.
        output: Folder to write to; None for that of the fold.
        n_patches: Augmented patches per case; 0 to take the losses from hardness.csv, which this package's trainers
            write.
        prediction: Whether to predict each case; without predictions the rules cannot tell anything.
        device: ``cpu``, ``cuda`` or ``mps``; None for ``cuda`` if there is one, else ``cpu``.
        cases: The case table; None for ``cases.csv`` in the folders of the dataset.
        by: Its columns with the strata; none for all that divide the cases.
        progress: Function to call with the number of measured cases and of all cases.
        report: Function to call with what is about to be done and how long it will take, in words.

    Returns:
        The answer, and the path of the page.

    Raises:
        FileNotFoundError: If the training is not finished, or a file that is needed does not exist.
        ValueError: If an option or a file is wrong, or the output holds measurements with other settings.
        OSError: If the files cannot be written.
    """
    inputs = find_inputs(folder)
    where = output or inputs.fold.folder
    check_output(where, overwrite=True)
    log = inputs.fold.folder / HARDNESS_FILE
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
    table = measured.table(sets).merge(strata, left_on="case", right_index=True, how="left")
    history = stale_losses(log, training) if n_patches == 0 else None
    answer = conclude(inputs, table, tuple(strata.columns), strata_from, history=history, length=model.length)
    from nnunet_dro.doctor.page import doctor_html

    write_files(where, {PAGE_FILE: doctor_html(answer)})
    return answer, where / PAGE_FILE


def conclude(
    inputs: Inputs,
    table: pd.DataFrame,
    by: tuple[str, ...],
    strata_from: str,
    *,
    history: Sequence[Sequence[float]] | None,
    length: tuple[int, int],
) -> Answer:
    """Apply the rules to the measurements.

    Args:
        inputs: The files of the training.
        table: A row per case: the measurements and the strata.
        by: The columns with the strata.
        strata_from: Where these come from.
        history: Losses of the training cases from hardness.csv, where none were measured.
        length: Number of epochs of the training, and of its iterations per epoch.
    """
    losses = [str(name) for name in table.columns if str(name).startswith(LOSS)]
    is_training = (table["set"] == TRAINING).to_numpy()
    if history is None:
        values = table.loc[is_training, losses].to_numpy(dtype=np.float64)
        source = f"{len(losses)} augmented patches of every training case"
    else:
        values = np.array([[of_case[-1]] for of_case in history], dtype=np.float64)
        source = f"{HARDNESS_FILE}, the stale losses of the last third of its epochs"
    spread = loss_spread(values.tolist() if history is None else history) if np.isfinite(values).any() else None
    beta = spread.beta if spread else None
    draws = expected_draws(values, beta) if beta else None
    share = np.full(len(table), np.nan)
    if draws:
        share[is_training] = draws.probabilities
    return Answer(
        fold=inputs.fold,
        cases=table.assign(share=share).reset_index(drop=True),
        by=by,
        strata_from=strata_from,
        diagnosis=diagnose(table, by=by),
        spread=spread,
        spread_from=source,
        draws=draws,
        trainer=trainer_name(beta, epochs=length[0], iterations=length[1]) if beta else "",
        n_patches=len(losses),
        has_predictions=any(str(name).startswith(DICE) for name in table.columns),
        training_seconds=training_seconds(inputs.fold.folder),
        has_hardness_log=any((inputs.fold.folder / name).is_file() for name in (HARDNESS_FILE, "weights.csv")),
    )


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
        losses = model.patch_losses(case, settings["patches"]) if settings["patches"] else []
        middle = time.perf_counter()
        dice = model.dice(case) if settings["prediction"] else {}
        end = time.perf_counter()
        row: dict[str, Any] = {"case": case, "set": sets[case]}
        row |= {"seconds_patches": round(middle - start, 3), "seconds_prediction": round(end - middle, 3)}
        row |= {f"{LOSS}{k + 1}": loss for k, loss in enumerate(losses)}
        row |= {f"{DICE}{label}": value for label, value in dice.items()}
        measured.add(row)
        if report and n == 0 and len(left) > 1:
            # The time of patches is that of augmentation, which does not grow with the case.
            sizes = {other: model.n_voxels(other) for other in left}
            scale = sum(sizes.values()) / max(1, sizes[case])
            seconds = (middle - start) * len(left) + (end - middle) * scale
            report(f"Measuring {len(left)} cases will take about {duration(seconds)}.")
        if progress:
            progress(len(sets) - len(left) + n + 1, len(sets))


def duration(seconds: float) -> str:
    """A time in words: ``40 s``, ``12 min``, ``3.5 h``.

    Example:
        >>> duration(40), duration(720), duration(12600)
        ('40 s', '12 min', '3.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
