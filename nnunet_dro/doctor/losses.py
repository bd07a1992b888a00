"""The losses of the cases, measured or logged: their spread, and the draws of the default trainer that follow."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.sampling import KLBall, effective_cases, with_exploration
from nnunet_dro.sampling.spread import Spread

#: What a training of this package logs.
HARDNESS_FILE = "hardness.csv"

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LossSpread:
    """Standard deviations of losses: between the cases, without what differs from patch to patch, and within a case."""

    between: float
    within: float

    @property
    def share_between(self) -> float:
        """Share of the variance of a single loss that is between the cases; NaN if there is none."""
        total = self.between**2 + self.within**2
        return self.between**2 / total if total else math.nan


def loss_spread(losses: Sequence[Sequence[float]]) -> LossSpread:
    """Estimate the spread from the losses of each case, in the order in which they were measured.

    Those that are not finite are left out. ``within`` is NaN without a second loss of a case.

    Example:
        >>> spread = loss_spread([[0.0, 0.2], [1.0, 1.2]])
        >>> round(spread.within, 2)
        0.14
    """
    collected, variances = Spread(len(losses)), []
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
    """The draws of `nnUNetTrainerDRO` from the network that was examined, where the hardest cases get better."""

    probabilities: FloatArray  # of each case in one draw
    beta: float  # at which the trainer's share of the cases is effective, 1/loss units

    @property
    def effective(self) -> float:
        """Effective number of cases, exp(entropy)."""
        return effective_cases(self.probabilities)


def expected_draws(hardness: FloatArray) -> Draws:
    """The draws of cases of this hardness; what is not finite counts as the mean of the rest."""
    from nnunet_dro.trainers.options import DROOptions

    options, is_known = DROOptions(), np.isfinite(hardness)
    known = np.where(is_known, hardness, hardness[is_known].mean())
    ball = KLBall(0.0, options.earned).following(known)
    return Draws(with_exploration(ball.probabilities(known), epsilon=options.exploration), ball.beta)


def trainer_name(*, epochs: int, iterations: int) -> str:
    """Name of the trainer that draws like this, as long as the plain training.

    Example:
        >>> trainer_name(epochs=1000, iterations=250)
        'nnUNetTrainerDRO'
    """
    from nnunet_dro.trainers.options import DROOptions

    return "nnUNetTrainerDRO" + DROOptions(epochs=epochs, iterations=iterations).suffix()


def stale_losses(path: Path, cases: Sequence[str]) -> list[list[float]]:
    """The losses of cases in the last third of the logged epochs, one for each epoch in which a case was drawn.

    At least the last one, and NaN for a case that the file lacks.
    """
    cure = "Measure with --patches 4."
    try:
        rows = pd.read_csv(path, usecols=["epoch", "case", "loss", "draws"], dtype={"case": str}, keep_default_na=False)
        rows = rows.assign(loss=pd.to_numeric(rows["loss"], errors="coerce"), epoch=pd.to_numeric(rows["epoch"]))
    except ValueError as error:
        reason = str(error).splitlines()[0]
        rule = "a table of epoch, case, loss and draws"
        raise ValueError(f"`{path.name}` must be {rule}, got {str(path)!r}: {reason}. {cure}") from error
    found: dict[str, list[float]] = {}
    first = 2 * (int(rows["epoch"].max()) + 1) // 3 if len(rows) else 0
    for case, of_case in rows.sort_values("epoch").groupby("case"):
        fresh = of_case[(of_case["epoch"] >= first) & (of_case["draws"] > 0)]["loss"].dropna()
        last = of_case["loss"].dropna().tail(1)
        found[str(case)] = (fresh if len(fresh) else last).tolist()
    if not any(found.get(case) for case in cases):
        rule = "have the losses of the training cases"
        raise ValueError(f"`{path.name}` must {rule}, got none in {str(path)!r}. {cure}")
    return [found.get(case) or [math.nan] for case in cases]
