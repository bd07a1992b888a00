"""The answer: what is known of a training, and what follows, such as the draws of the default trainer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.doctor.rules import DICE, LOSS, TRAINING, Diagnosis, diagnose
from nnunet_dro.files.case_log import LOSSES, WEIGHTS, read_log
from nnunet_dro.naming import count
from nnunet_dro.nnunet.folders import Fold
from nnunet_dro.nnunet.training import training_seconds
from nnunet_dro.sampling import EarnedBall, effective_cases, with_exploration
from nnunet_dro.sampling.spread import Spread
from nnunet_dro.trainers.options import DROOptions

FloatArray = npt.NDArray[np.float64]

#: The file with the measurements, and its column with what the default trainer would keep of the
#: patches.
CASES_FILE = "doctor.csv"
HARDNESS = "hardness"


@dataclass(frozen=True)
class LossSpread:
    """Standard deviations of losses.

    Between the cases, without what differs from patch to patch, and within a case.
    """

    between: float
    within: float

    @property
    def share_between(self) -> float:
        """Share of the variance of a single loss that is between the cases.

        NaN if there is none.
        """
        total = self.between**2 + self.within**2
        return self.between**2 / total if total else math.nan


def loss_spread(losses: Sequence[Sequence[float]]) -> LossSpread:
    """Estimate the spread from each case's finite losses, in order.

    ``within`` is NaN without a second loss.
    """
    collected = Spread(len(losses))
    variances = []
    for i, of_case in enumerate(losses):
        finite = [loss for loss in of_case if math.isfinite(loss)]
        for loss in finite:
            collected.record(i, loss)
        if len(finite) > 1:
            variances.append(float(np.var(finite, ddof=1)))
    within = math.sqrt(float(np.mean(variances))) if variances else math.nan
    return LossSpread(math.sqrt(collected.between_cases()), within)


@dataclass(frozen=True)
class Draws:
    """The draws of `nnUNetTrainerDRO` from the network that was examined."""

    probabilities: FloatArray  # of each case in one draw
    beta: float  # 1/loss units; 0 where the hardest are not learnt, and draws are uniform

    @property
    def effective(self) -> float:
        """Effective number of cases, exp(entropy)."""
        return effective_cases(self.probabilities)


def expected_draws(hardness: FloatArray) -> Draws:
    """The draws of cases of this hardness; what is not finite counts as the mean of the rest."""
    options = DROOptions()
    is_known = np.isfinite(hardness)
    known = np.where(is_known, hardness, hardness[is_known].mean())
    ball = EarnedBall(0.0, options.earned).following(known)
    return Draws(
        with_exploration(ball.probabilities(known), epsilon=options.exploration), ball.beta
    )


def stale_losses(path: Path, cases: Sequence[str]) -> list[list[float]]:
    """The losses of cases in the last third of the epochs, at least the last one.

    NaN for one without any.
    """
    log = read_log(path, LOSSES)
    last = log.values.ffill().iloc[-1]
    recent = log.values[log.values.index >= 2 * (log.epochs[-1] + 1) // 3]
    fresh = recent.where(log.times_seen.loc[recent.index] > 0)
    found = {
        case: fresh[case].dropna().tolist() or [float(last[case])]
        for case in cases
        if case in fresh
    }
    if not any(math.isfinite(loss) for of_case in found.values() for loss in of_case):
        rule = "have the losses of the training cases"
        cure = "Measure with --patches 4."
        raise ValueError(f"`{path.name}` must {rule}, got none in {str(path)!r}. {cure}")
    return [found.get(case, [math.nan]) for case in cases]


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of a training, and what follows."""

    fold: Fold
    cases: (
        pd.DataFrame
    )  # a row per case: the measurements, and its ``share`` of the draws (NaN for validation cases)
    strata: (
        pd.DataFrame
    )  # the same rows: the columns of the case table with the strata, which may have any names
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

    @property
    def would_draw_uniformly(self) -> bool:
        """Whether the default trainer would draw uniformly, because next to nothing is found of the hardest cases."""
        return self.draws is not None and self.draws.beta == 0

    def share(self, cases: Sequence[str]) -> tuple[float, float]:
        """Share of some cases among the training cases, and of the expected draws (NaN without losses)."""
        members = self.cases["case"].isin(list(cases)) & self.is_training
        draws = float(self.cases["share"][members].sum()) if self.draws else float("nan")
        return float(members.sum()) / max(1, int(self.is_training.sum())), draws


def conclude(
    fold: Fold,
    table: pd.DataFrame,
    strata: pd.DataFrame,
    strata_from: str,
    *,
    history: Sequence[Sequence[float]] | None,
    length: tuple[int, int],
) -> Answer:
    """Apply the rules to the measurements, or to losses of the training cases in a log where none were measured."""
    losses = [str(name) for name in table.columns if str(name).startswith(LOSS)]
    is_training = (table["set"] == TRAINING).to_numpy()
    if history is None:
        measured = table.loc[is_training, losses].to_numpy(dtype=np.float64).tolist()
        hardness = table.loc[is_training, HARDNESS].to_numpy(dtype=np.float64)
        source = f"{count(len(losses), 'augmented patch')} of every training case"
    else:
        measured = history
        hardness = np.array([of_case[-1] for of_case in history], dtype=np.float64)
        source = f"{LOSSES.file}, the stale losses of the last third of its epochs"
    is_known = bool(np.isfinite(hardness).any())
    draws = expected_draws(hardness) if is_known else None
    share = np.full(len(table), np.nan)
    if draws:
        share[is_training] = draws.probabilities
    return Answer(
        fold=fold,
        cases=table.assign(share=share).reset_index(drop=True),
        strata=strata.reset_index(drop=True),
        strata_from=strata_from,
        diagnosis=diagnose(table, strata, n_iterations=length[0] * length[1]),
        spread=loss_spread(measured) if is_known else None,
        spread_from=source,
        draws=draws,
        trainer="nnUNetTrainerDRO" + DROOptions(epochs=length[0], iterations=length[1]).suffix(),
        n_iterations=length[0] * length[1],
        n_patches=len(losses),
        has_predictions=any(str(name).startswith(DICE) for name in table.columns),
        training_seconds=training_seconds(fold.folder),
        has_hardness_log=any(
            (fold.folder / name).is_file() for name in (LOSSES.file, WEIGHTS.file)
        ),
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
