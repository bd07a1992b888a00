"""Trainings of nnU-Net with tests on the way, each on the dataset of its seed.

Each has a process of its own, see `experiments.convergence.process`.
"""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from experiments.convergence.process import DICE_COLUMNS, Task
from experiments.datasets.division import (
    FOLDS,
    HELD_OUT,
    HELD_OUT_LENGTH,
    SHUFFLED,
    held_out_weights,
    shuffled,
)
from experiments.nnunet_runs.data import Data
from experiments.nnunet_runs.runs import SeedRuns
from nnunet_dro.files.output_folder import replacing
from nnunet_dro.nnunet.command import run_command

#: Iterations with the same learning rate, nnU-Net's epoch, and the only ones of a smoke run.
EPOCH = 100
QUICK = 10


@dataclass(frozen=True)
class Run:
    """One training and everything that determines it."""

    trainer: str  # Name of the trainer without its length.
    seed: int  # Seed of the data, the first weights, the draws and the augmentation.
    iterations: int  # Length of the training, a multiple of `EPOCH` or `QUICK`.


@dataclass(frozen=True)
class DoubleBatchRun(Run):
    """One training with twice as many cases in a batch."""

    double_batch: bool = True  # So that its settings are not those of another.


def moments(iterations: int, settling: float) -> list[int]:
    """Iterations to test after.

    A tenth, halves of halves, and where the last part begins, which shows convergence.
    """
    halves = [iterations >> power for power in range(5)]
    last_part = round((1 - settling) * iterations)
    return sorted({max(1, moment) for moment in (iterations // 10, last_part, *halves)})


def make_run(
    work: Path, data: Data, name: str, run: Run, *, at: Sequence[int], folds: Sequence[int] = (0,)
) -> dict[str, object]:
    """Train, and test after these iterations, several folds as an ensemble at the end.

    The dataset is prepared before.

    Returns:
        Rows ``dice`` (iteration, stratum, label, case, Dice in [0, 1]), rows ``share`` (iteration,
        stratum, its share of the draws so far) and the processor's ``seconds``.
    """
    cases_of_folds = [partial(_cases_of_fold, fold) for fold in range(FOLDS)]
    runs = SeedRuns(work / f"seed{run.seed}", replace(data, folds=cases_of_folds), run.seed)
    runs.prepare()
    _add_to_cases(runs, SHUFFLED, _shuffled)
    if HELD_OUT in run.trainer:
        _add_to_cases(runs, HELD_OUT, partial(_held_out_weights, work, run=run))
    return _in_a_process(work, runs, name, run, at=at, folds=folds)


def _cases_of_fold(fold: int, raw: Path) -> list[str]:
    """The training cases of a fold of the cross-validation: every `FOLDS`-th one is held out."""
    table = pd.read_csv(raw / "cases.csv", dtype=str)
    cases = sorted(table["case"][table["split"] == "train"])
    return [case for place, case in enumerate(cases) if place % FOLDS != fold]


def _in_a_process(
    work: Path,
    runs: SeedRuns,
    name: str,
    run: Run,
    *,
    at: Sequence[int],
    folds: Sequence[int],
    held_out: bool = False,
) -> dict[str, Any]:
    log = work / "logs" / f"{name}.txt"
    result = work / "logs" / f"{name}.json"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)

    configuration = runs.data.network.configuration
    if isinstance(run, DoubleBatchRun):
        configuration = runs.data.network.double_batch
    n_epochs = max(1, run.iterations // EPOCH)
    n_iterations = min(EPOCH, run.iterations)
    task = Task(
        dataset=runs.data.dataset,
        configuration=configuration,
        by=runs.data.by,
        trainer=f"{run.trainer}_{n_epochs}epochs_{n_iterations}iters",
        iterations=run.iterations,
        seed=run.seed,
        at=tuple(at),
        folds=tuple(folds),
        held_out=held_out,
        to=str(result),
    )
    python = Path(sys.executable).name
    words = [python, "-m", "experiments.convergence.process", json.dumps(asdict(task))]
    run_command(words, environment=runs.environment, log=log)
    return json.loads(result.read_text(encoding="utf-8"))


def _add_to_cases(
    runs: SeedRuns, column: str, make_values: Callable[[SeedRuns, pd.DataFrame], pd.Series]
) -> None:
    """Give the trainers a column of the training cases.

    It is added to the case table of the preprocessed dataset.
    """
    path = runs.preprocessed / "cases.csv"

    def table() -> pd.DataFrame:
        return pd.read_csv(path if path.exists() else runs.raw / "cases.csv", dtype=str)

    before = table()
    if column in before:
        return
    # Other trainings of the seed, which may begin at the same time, do not wait for this.
    values = make_values(runs, before[before["split"] == "train"])
    with FileLock(runs.folder / "cases.lock"), replacing(path) as partial_file:
        table().assign(**{column: values}).to_csv(partial_file, index=False)


def _shuffled(runs: SeedRuns, train: pd.DataFrame) -> pd.Series:
    strata = train[runs.data.by].to_list()
    return pd.Series(shuffled(strata, runs.seed), train.index)


def _held_out_weights(work: Path, runs: SeedRuns, train: pd.DataFrame, *, run: Run) -> pd.Series:
    """`held_out_weights` of a plain cross-validation."""
    n_epochs = round(HELD_OUT_LENGTH * run.iterations / EPOCH)
    iterations = max(min(EPOCH, run.iterations), n_epochs * EPOCH)
    result = _in_a_process(
        work,
        runs,
        f"{HELD_OUT}-seed{run.seed}",
        Run("nnUNetTrainerHWS_beta0", run.seed, iterations),
        at=[iterations],
        folds=range(1, FOLDS + 1),
        held_out=True,
    )
    rows = pd.DataFrame(result["dice"], columns=DICE_COLUMNS)
    dice = rows.groupby("case")["dice"].mean()
    weights = held_out_weights(dice.loc[train["case"]].to_numpy())
    return pd.Series(weights, train.index)
