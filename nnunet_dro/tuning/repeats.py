"""The best trainers of a search, trained again: what they score on average, and how much that varies.

nnU-Net seeds neither its first weights nor its draws, so that the same command is another training. Its results go to a
folder of their own in place of nnUNet_results, or it would be taken for the training that is already there.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from nnunet_dro.nnunet.training import Target
from nnunet_dro.tuning.trials import PLAIN, REPEAT, REPEAT_OF, TRAINER, best_trial, in_order_of_value

#: How many of the best trainers are trained again.
N_BEST = 3


@dataclass(frozen=True)
class Repeated:
    """A trainer that was trained again.

    Attributes:
        trial: Its trial of the search.
        values: Values of the objective of the further trainings. That of the trial is not among them: it was chosen
            because it is high, and is therefore too high on average.
    """

    trial: FrozenTrial
    values: tuple[float, ...]

    @property
    def trainer(self) -> str:
        """The trainer's name."""
        return str(self.trial.user_attrs["trainer"])

    @property
    def mean(self) -> float:
        """Mean of the further trainings."""
        return float(np.mean(self.values))

    @property
    def spread(self) -> float:
        """Standard deviation (n - 1) of the further trainings; NaN for one."""
        return float(np.std(self.values, ddof=1)) if len(self.values) > 1 else float("nan")


def _best(study: optuna.Study) -> list[FrozenTrial]:
    """The best trials of the search with different trainers."""
    by_trainer: dict[str, FrozenTrial] = {}
    for trial in in_order_of_value(study):
        by_trainer.setdefault(trial.user_attrs["trainer"], trial)
    return [*by_trainer.values()][:N_BEST]


def _repetitions(study: optuna.Study, of: FrozenTrial, *states: TrialState) -> dict[int, FrozenTrial]:
    """The repetitions of a trial in these states by their number."""
    trials = study.get_trials(deepcopy=False, states=states)
    mine = (trial for trial in trials if trial.user_attrs.get(REPEAT_OF) == of.number)
    return {trial.user_attrs[REPEAT]: trial for trial in reversed([*mine])}


def repeated(study: optuna.Study) -> list[Repeated]:
    """The best trainers that have been trained again, with the best mean first."""
    found = []
    for trial in _best(study):
        if complete := _repetitions(study, trial, TrialState.COMPLETE):
            values = tuple(float(complete[n].value or 0.0) for n in sorted(complete))
            found.append(Repeated(trial, values))
    sign = -1 if study.direction == optuna.study.StudyDirection.MAXIMIZE else 1
    return sorted(found, key=lambda one: sign * one.mean)


def chosen_trial(study: optuna.Study) -> FrozenTrial | None:
    """The trial whose trainer to use; None without a complete trial.

    That is the one with the best mean of the further trainings, once all of the best have as many; until then, the one
    with the best value.
    """
    found = repeated(study)
    if found and len(found) == len(_best(study)) and len({len(one.values) for one in found}) == 1:
        return found[0].trial
    return best_trial(study)


def queue_next(study: optuna.Study, n_repeats: int) -> bool:
    """Queue the next repetition that is due, if it is not queued yet; tell whether one waits in the queue."""
    for n in range(1, n_repeats + 1):
        for trial in _best(study):
            if n in _repetitions(study, trial, TrialState.COMPLETE, TrialState.RUNNING):
                continue
            if n not in _repetitions(study, trial, TrialState.WAITING):
                same = {name: trial.user_attrs[name] for name in (TRAINER, PLAIN) if name in trial.user_attrs}
                study.enqueue_trial(trial.params, user_attrs={**same, REPEAT: n, REPEAT_OF: trial.number})
            return True
    return False


def target_of(target: Target, folder: Path, repeat: int) -> tuple[Target, dict[str, str]]:
    """The target of a repetition (0: of the search) with its folder of results, and nnU-Net's variables for it."""
    if not repeat:
        return target, {}
    results = folder / "repeats" / str(repeat)
    return replace(target, results=results / target.dataset), {"nnUNet_results": str(results)}
