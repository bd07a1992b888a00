"""The tuning of the experiment with few data: `nnunet-dro tune`, as a user gives it, and what it found."""

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console

from experiments.few_data.studies import TUNED, TUNING_FOLD, FewDataRuns
from experiments.nnunet_runs.plans import CONFIGURATION, PLANS_NAME
from nnunet_dro.demo.progress import step_progress
from nnunet_dro.nnunet.command import run_command

if TYPE_CHECKING:
    import optuna

#: What is tuned, with the source's ranges; its gamma is the trainer's default. The length of eta's range asks for log.
OPTIONS = {"LS": ("alpha:0:0.5",), "GI-LS": ("alpha:0:0.5", "T:1:15", "eta:0.1:3:log")}

#: Trials, and epochs and iterations per epoch of each: about as many optimiser steps, of which GI-LS makes two each.
N_TRIALS, _LENGTHS = {"LS": 6, "GI-LS": 20}, {"LS": (4, 45), "GI-LS": (4, 22)}
_QUICK_TRIALS, _QUICK_LENGTH = {"LS": 2, "GI-LS": 2}, (1, 2)

_LENGTH_OF_NAME = re.compile(r"(_\d+epochs)?(_\d+iters)?$")


@dataclass(frozen=True)
class Tuning:
    """What a tuning found.

    Attributes:
        method: One of `TUNED`.
        trials: `nnunet-dro tune`'s trials.csv, with the column ``image_change``: the root mean square change of a voxel
            in the generated images, in standard deviations of an image, mean of the epochs; NaN where none are made.
        trainer: The best trial's trainer, without its length.
        importance: Option to its share of the objective's variation, by PED-ANOVA; empty where the trials are too few.
    """

    method: str
    trials: pd.DataFrame
    trainer: str
    importance: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """How long the trials took."""
        return 60 * float(self.trials["minutes"].sum())


def tune(of_seed: FewDataRuns, method: str, *, quick: bool, console: Console) -> Tuning:
    """Tune a method on the seed's fold for it, or go on where an earlier start stopped.

    Args:
        of_seed: The seed's runs, prepared.
        method: One of `TUNED`.
        quick: Whether it is a smoke run.
        console: Console for the progress.

    Raises:
        CommandError: If the command fails.
        ValueError: If no trial was complete.
    """
    n_trials = (_QUICK_TRIALS if quick else N_TRIALS)[method]
    epochs, iterations = _QUICK_LENGTH if quick else _LENGTHS[method]
    base = TUNED[method]
    study = base.removeprefix("nnUNetTrainer")
    command = ["nnunet-dro", "tune", of_seed.study.dataset, CONFIGURATION, TUNING_FOLD, "--trainer", study]
    for option in OPTIONS[method]:
        command += ["--option", option]
    # The experiment trains the best on all cases, with several seeds: there is nothing to repeat here.
    command += ["--objective", "mean", "--trials", str(n_trials), "--repeat", "0", "--epochs", str(epochs)]
    command += ["--iterations", str(iterations), "-p", PLANS_NAME, "--device", "cpu", "--study", study]
    # nnUNetv2_train takes a thread for every processor, whatever OMP_NUM_THREADS says. On a busy machine they had
    # better not spin while they wait. (OMP_THREAD_LIMIT is no way out: oneDNN then waits for threads that never come.)
    environment = of_seed.environment | {"OMP_WAIT_POLICY": "passive"}
    folder = of_seed.folder / "nnUNet_results" / of_seed.study.dataset / "tuning" / study
    if n_finished(folder) < n_trials:
        with step_progress(console, f"Seed {of_seed.seed}: tune {method}") as progress:
            run_command(
                command,
                environment=environment,
                log=of_seed.folder / "logs" / f"tune_{method}.txt",
                while_running=lambda: progress.update(n_finished(folder), n_trials),
            )
    return read_tuning(folder, method)


def n_finished(folder: Path) -> int:
    """How many trials of a tuning have finished."""
    path = folder / "trials.csv"
    return int(pd.read_csv(path)["state"].isin(["complete", "pruned"]).sum()) if path.exists() else 0


def read_tuning(folder: Path, method: str) -> Tuning:
    """What is in the folder of a tuning.

    Raises:
        ValueError: If no trial was complete.
    """
    trials = pd.read_csv(folder / "trials.csv")
    trials["image_change"] = [_image_change(folder.parents[1], name) for name in trials["trainer"]]
    complete = trials[trials["state"] == "complete"]
    if complete.empty:
        raise ValueError(f"`{method}` must have a complete trial, got none in {str(folder)!r}. Look at its logs.")
    best = complete.sort_values(["value", "number"], ascending=[False, True]).iloc[0]
    return Tuning(method, trials, _LENGTH_OF_NAME.sub("", best["trainer"]), _importance(folder))


def _image_change(results: Path, trainer: str) -> float:
    model = f"{trainer}__{PLANS_NAME}__{CONFIGURATION}"
    path = results / model / f"fold_{TUNING_FOLD}" / "perturbations.csv"
    return float(pd.read_csv(path)["mean_change"].mean()) if path.exists() else float("nan")


def _importance(folder: Path) -> dict[str, float]:
    import optuna

    from nnunet_dro.tuning.storage import closing, open_storage

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with closing(open_storage(None, folder)) as storage:
        return _importance_in(optuna.load_study(study_name=None, storage=storage))


def _importance_in(study: "optuna.Study") -> dict[str, float]:
    import optuna

    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # It would say that all options are equally important.
        warnings.filterwarnings("error", message="The number of trials is too small")
        try:
            found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        except (ValueError, RuntimeError, UserWarning):
            return {}
    return {name: float(share) for name, share in found.items()}
