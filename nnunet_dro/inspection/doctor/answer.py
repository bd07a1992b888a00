"""The answer: what is known of a training, and what follows.

That includes the draws of the default trainer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.scoring.absent_labels import note_on_absent_labels
from nnunet_dro.files.case_log import LOSSES, WEIGHTS, read_log
from nnunet_dro.files.case_table import MISSING
from nnunet_dro.inspection.doctor.columns import DICE, HARDNESS, LOSS, TRAINING, VOXELS
from nnunet_dro.inspection.doctor.comparisons import State, Stratum
from nnunet_dro.inspection.doctor.rules import FEWEST_CASES, Diagnosis, Finding, diagnose
from nnunet_dro.naming import count
from nnunet_dro.nnunet.folders import Fold
from nnunet_dro.nnunet.training import training_seconds
from nnunet_dro.sampling import Hardest, effective_cases, expected_draws, with_exploration
from nnunet_dro.sampling.spread import Spread
from nnunet_dro.trainers.options import DROOptions

#: The file with the measurements.
CASES_FILE = "doctor.csv"

#: From this ratio of the share of the draws to the share of the cases on, a stratum is drawn more
#: often.
CLEARLY_MORE = 1.25


@dataclass(frozen=True)
class LossSpread:
    """Standard deviations of losses, between the cases and within a case.

    The one between the cases is without what differs from patch to patch.
    """

    between: float
    within: float

    @property
    def share_between(self) -> float:
        """Share of the variance of a single loss that is between the cases, NaN without any."""
        total = self.between**2 + self.within**2
        return self.between**2 / total if total else math.nan


def loss_spread(losses: Sequence[Sequence[float]]) -> LossSpread:
    """Estimate the spread from each case's finite losses, in order.

    ``within`` is NaN without a second loss.
    """
    collected = Spread(len(losses))
    variances = []
    for i, losses_of_case in enumerate(losses):
        finite = [loss for loss in losses_of_case if math.isfinite(loss)]
        for loss in finite:
            collected.record(i, loss)
        if len(finite) > 1:
            variances.append(float(np.var(finite, ddof=1)))

    within = math.sqrt(float(np.mean(variances))) if variances else math.nan
    return LossSpread(math.sqrt(collected.between_cases()), within)


@dataclass(frozen=True)
class DefaultDraws:
    """The draws of `nnUNetTrainerDRO` from the network that was examined."""

    probabilities: FloatArray  # share of each case in the draws
    part: float  # of the draws, for the hardest cases; 0 where next to nothing is found of them

    @property
    def effective(self) -> float:
        """Effective number of cases, exp(entropy)."""
        return effective_cases(self.probabilities)


def default_draws(
    hardness: FloatArray, draws_of_images: FloatArray, *, batch_size: int
) -> DefaultDraws:
    """The draws of cases of this hardness and with these images.

    Args:
        hardness: Pooled losses, shape (n,). What is not finite counts as the mean of the rest.
        draws_of_images: How often each is drawn for its image, relative to chance, shape (n,).
        batch_size: Number of cases in a batch, which are distinct: none has a larger share of the
            draws than that of one place.
    """
    options = DROOptions()
    is_finite = np.isfinite(hardness)
    filled = np.where(is_finite, hardness, hardness[is_finite].mean())

    rule = Hardest(options.hardest, base=draws_of_images).following(filled)
    unlimited = with_exploration(rule.probabilities(filled), epsilon=options.exploration)
    probabilities = expected_draws(unlimited, size=batch_size) / batch_size
    return DefaultDraws(probabilities, rule.now.part * rule.now.earned)


def stale_losses(path: Path, cases: Sequence[str]) -> list[list[float]]:
    """The losses of cases in the last third of the epochs, at least the last one.

    A case that the log lacks has a single NaN.

    Raises:
        ValueError: If no case has a finite loss.
    """
    log = read_log(path, LOSSES)
    last = log.values.ffill().iloc[-1].reindex(list(cases))
    recent = log.values[log.values.index >= 2 * (log.epochs[-1] + 1) // 3]
    # A loss is new in the epochs in which the case was drawn.
    fresh = recent.where(log.times_seen.loc[recent.index] > 0).reindex(columns=list(cases))
    losses = [fresh[case].dropna().tolist() or [float(last[case])] for case in cases]

    if not any(math.isfinite(loss) for losses_of_case in losses for loss in losses_of_case):
        raise ValueError(
            f"`{path.name}` must have the losses of the training cases, got none in "
            f"{str(path)!r}. Measure with --patches 4."
        )
    return losses


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of a training, and what follows."""

    fold: Fold
    #: A row per case: the measurements, and its ``share`` of the draws (NaN for validation cases).
    cases: pd.DataFrame
    #: The same rows: the columns of the case table with the strata, which may have any names.
    strata: pd.DataFrame
    strata_from: str  # empty without a case table
    diagnosis: Diagnosis
    spread: LossSpread | None  # of the training cases; None if no loss is finite
    spread_from: str  # which losses these are, in words
    draws: DefaultDraws | None  # of the default trainer; None like ``spread``
    trainer: str  # name of the default trainer, as long as the training
    trained_with: str  # name that stands now for the trainer of the training
    n_iterations: int
    n_patches: int  # measured per case
    has_predictions: bool
    training_seconds: float  # by nnU-Net's log; 0 if the log does not say
    has_hardness_log: bool  # whether `nnunet-dro suspects` can rank the cases
    notes: tuple[str, ...]  # sentences on the cases and strata themselves

    @property
    def by(self) -> tuple[str, ...]:
        """The columns with the strata."""
        return tuple(map(str, self.strata.columns))

    @property
    def is_training(self) -> "pd.Series[bool]":
        """Whether each case is a training case."""
        return self.cases["set"] == TRAINING

    @property
    def would_help_nobody(self) -> bool:
        """Whether the default trainer would draw no stratum that is behind more often.

        It does not where next to nothing is found of the hardest cases, unless a stratum is of a
        rare kind of images.
        """
        if self.draws is None or self.draws.part > 0:
            return False
        behind = self.diagnosis.those(State.BEHIND)
        return not any(self.is_drawn_more(stratum) for stratum in behind)

    @property
    def is_unfinished(self) -> bool:
        """Whether nothing can be told only because the training is short or its Dice is low."""
        diagnosis = self.diagnosis
        is_told = diagnosis.finding != Finding.CANNOT_TELL or diagnosis.those(State.SUSPICION)
        could_tell = diagnosis.n_training >= FEWEST_CASES and not diagnosis.is_untrained
        return self.has_predictions and could_tell and not is_told

    @property
    def absent_labels(self) -> list[str]:
        """A note on labels that some of the cases lack, if there are any."""
        voxels = self.cases.set_index("case").filter(regex=f"^{VOXELS}")
        by_label = voxels.rename(columns=lambda name: name.removeprefix(VOXELS))
        return note_on_absent_labels(by_label.to_dict("index"))

    @property
    def share_of_outliers(self) -> tuple[float, float]:
        """Share of the outliers among the training cases, and of the draws; see `share`."""
        return self.share([outlier.case for outlier in self.diagnosis.outliers])

    def members(self, stratum: Stratum) -> list[str]:
        """The cases of a stratum."""
        return [str(case) for case in self.cases["case"][stratum.members]]

    def is_complete(self, column: str) -> bool:
        """Whether every training case has an entry in a column of the strata."""
        entries = self.strata.loc[self.is_training, column]
        return not (entries == MISSING).any()

    def is_drawn_more(self, stratum: Stratum) -> bool:
        """Whether the default trainer would draw a stratum more often than by chance, clearly."""
        share_of_cases, share_of_draws = self.share(self.members(stratum))
        return share_of_draws >= CLEARLY_MORE * share_of_cases

    def share(self, cases: Sequence[str]) -> tuple[float, float]:
        """Share of some cases among the training cases, and of the expected draws.

        The latter is NaN without losses.
        """
        is_member = self.cases["case"].isin(list(cases)) & self.is_training
        n_training = max(1, int(self.is_training.sum()))
        share_of_cases = float(is_member.sum()) / n_training
        if self.draws is None:
            return share_of_cases, math.nan

        return share_of_cases, float(self.cases["share"][is_member].sum())


def conclude(  # noqa: PLR0913 - what is known of a training
    fold: Fold,
    table: pd.DataFrame,
    strata: pd.DataFrame,
    strata_from: str,
    *,
    draws_of_images: FloatArray,
    length: tuple[int, int],
    trained_with: str,
    batch_size: int,
    notes: Sequence[str] = (),
) -> Answer:
    """Apply the rules to the measurements.

    Args:
        fold: The training.
        table: The measurements, a row per case.
        strata: The columns with strata, with the same rows.
        strata_from: The file that these come from.
        draws_of_images: How often the default trainer draws each training case for its image,
            relative to chance.
        length: Number of epochs, and of iterations per epoch.
        trained_with: The name that stands now for the trainer of the training.
        batch_size: Number of cases in a batch.
        notes: Sentences on the cases and strata themselves.
    """
    is_training = (table["set"] == TRAINING).to_numpy()
    training = table[is_training]
    patches = training.filter(regex=f"^{LOSS}").astype(np.float64)
    losses, hardness, source = _losses(fold, training, patches)

    # Without a finite loss, nothing is known of the draws.
    spread = None
    draws = None
    share = np.full(len(table), np.nan)
    if np.isfinite(hardness).any():
        spread = loss_spread(losses)
        draws = default_draws(hardness, draws_of_images, batch_size=batch_size)
        share[is_training] = draws.probabilities

    n_iterations = math.prod(length)
    options = DROOptions(epochs=length[0], iterations=length[1])
    return Answer(
        fold=fold,
        cases=table.assign(share=share).reset_index(drop=True),
        strata=strata.reset_index(drop=True),
        strata_from=strata_from,
        diagnosis=diagnose(table, strata, n_iterations=n_iterations),
        spread=spread,
        spread_from=source,
        draws=draws,
        trainer=f"nnUNetTrainerDRO{options.suffix()}",
        trained_with=trained_with,
        n_iterations=n_iterations,
        n_patches=len(patches.columns),
        has_predictions=any(str(name).startswith(DICE) for name in table.columns),
        training_seconds=training_seconds(fold.folder),
        has_hardness_log=any((fold.folder / kind.file).is_file() for kind in (LOSSES, WEIGHTS)),
        notes=tuple(notes),
    )


def _losses(
    fold: Fold, training: pd.DataFrame, patches: pd.DataFrame
) -> tuple[list[list[float]], FloatArray, str]:
    """The losses of the training cases, their hardness, and in words where these come from.

    They are those of the patches, or else of the log of the fold.
    """
    n_patches = len(patches.columns)
    if n_patches:
        hardness = training[HARDNESS].to_numpy(dtype=np.float64)
        source = f"{count(n_patches, 'augmented patch')} of every training case"
        return patches.to_numpy().tolist(), hardness, source

    losses = stale_losses(fold.folder / LOSSES.file, training["case"].tolist())
    hardness = np.array([losses_of_case[-1] for losses_of_case in losses], dtype=np.float64)
    return losses, hardness, f"{LOSSES.file}, the stale losses of the last third of its epochs"
