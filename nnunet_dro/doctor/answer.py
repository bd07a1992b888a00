"""The answer: what is known of a training, and what follows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nnunet_dro.doctor.inputs import Inputs
from nnunet_dro.doctor.losses import HARDNESS_FILE, Draws, LossSpread, expected_draws, loss_spread, trainer_name
from nnunet_dro.doctor.measurements import DICE, HARDNESS, LOSS
from nnunet_dro.doctor.rules import TRAINING, Diagnosis, diagnose
from nnunet_dro.nnunet.folders import Fold
from nnunet_dro.nnunet.training import training_seconds


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of a training, and what follows."""

    fold: Fold
    cases: pd.DataFrame  # a row per case: the measurements, and its ``share`` of the draws (NaN for validation cases)
    strata: pd.DataFrame  # the same rows: the columns of the case table with the strata, which may have any names
    strata_from: str  # empty without a case table
    diagnosis: Diagnosis
    spread: LossSpread | None  # of the training cases; None if no loss is finite
    spread_from: str  # which losses these are, in words
    draws: Draws | None  # of the default trainer; None like ``spread``
    trainer: str  # name of the default trainer, as long as the training
    n_iterations: int
    n_patches: int  # measured per case
    has_predictions: bool
    training_seconds: float  # by nnU-Net's log; 0 if the log does not say
    has_hardness_log: bool  # whether `nnunet-dro suspects` can rank the cases

    @property
    def by(self) -> tuple[str, ...]:
        """The columns with the strata."""
        return tuple(map(str, self.strata.columns))

    @property
    def is_training(self) -> "pd.Series[bool]":
        """Whether each case is a training case."""
        return self.cases["set"] == TRAINING

    def share(self, cases: Sequence[str]) -> tuple[float, float]:
        """Share of some cases among the training cases, and of the expected draws (NaN without losses)."""
        members = self.cases["case"].isin(list(cases)) & self.is_training
        draws = float(self.cases["share"][members].sum()) if self.draws else float("nan")
        return float(members.sum()) / max(1, int(self.is_training.sum())), draws


def conclude(
    inputs: Inputs,
    table: pd.DataFrame,
    strata: pd.DataFrame,
    strata_from: str,
    *,
    history: Sequence[Sequence[float]] | None,
    length: tuple[int, int],
) -> Answer:
    """Apply the rules to the measurements, a row per case.

    ``history`` has the losses of the training cases from hardness.csv, where none were measured, and ``length`` the
    number of epochs of the training and of iterations per epoch.
    """
    losses = [str(name) for name in table.columns if str(name).startswith(LOSS)]
    is_training = (table["set"] == TRAINING).to_numpy()
    if history is None:
        measured = table.loc[is_training, losses].to_numpy(dtype=np.float64).tolist()
        hardness = table.loc[is_training, HARDNESS].to_numpy(dtype=np.float64)
        source = f"{len(losses)} augmented patch{'' if len(losses) == 1 else 'es'} of every training case"
    else:
        measured = history
        hardness = np.array([of_case[-1] for of_case in history], dtype=np.float64)
        source = f"{HARDNESS_FILE}, the stale losses of the last third of its epochs"
    is_known = bool(np.isfinite(hardness).any())
    draws = expected_draws(hardness) if is_known else None
    share = np.full(len(table), np.nan)
    if draws:
        share[is_training] = draws.probabilities
    return Answer(
        fold=inputs.fold,
        cases=table.assign(share=share).reset_index(drop=True),
        strata=strata.reset_index(drop=True),
        strata_from=strata_from,
        diagnosis=diagnose(table, strata, n_iterations=length[0] * length[1]),
        spread=loss_spread(measured) if is_known else None,
        spread_from=source,
        draws=draws,
        trainer=trainer_name(epochs=length[0], iterations=length[1]),
        n_iterations=length[0] * length[1],
        n_patches=len(losses),
        has_predictions=any(str(name).startswith(DICE) for name in table.columns),
        training_seconds=training_seconds(inputs.fold.folder),
        has_hardness_log=any((inputs.fold.folder / name).is_file() for name in (HARDNESS_FILE, "weights.csv")),
    )


def duration(seconds: float) -> str:
    """A time in words: ``40 s``, ``12 min``, ``3.5 h``.

    Example:
        >>> duration(40), duration(720), duration(12600)
        ('40 s', '12 min', '3.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
