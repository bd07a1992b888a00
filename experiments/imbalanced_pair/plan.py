"""Which trainings there are, and how the learning rate is chosen."""

from collections.abc import Sequence

from experiments.imbalanced_pair.training import METHODS, Outcome, Run

#: 9s for each 4 in training.
RATIOS = (1, 10, 30, 84)

#: Learning rate times steps of Ren et al.: 1e-3 and 8,000.
PUBLISHED_LENGTH = 8.0

#: Of plain training on this seed, the rate with the lowest test error is everybody's.
RATES, TUNING_SEED = (0.05, 0.1, 0.2, 0.4), 100


def tuning_runs(*, quick: bool) -> list[Run]:
    """Plain training with every learning rate, on a seed of its own."""
    if quick:
        return [_quick(rate, 16, TUNING_SEED, "plain") for rate in RATES[:2]]
    return [Run("plain", ratio, TUNING_SEED, rate) for rate in RATES for ratio in RATIOS]


def chosen_rate(results: Sequence[tuple[Run, Outcome]]) -> float:
    """The learning rate with the lowest test error over all ratios, the smaller of two that are equal."""
    errors: dict[float, float] = {}
    for run, outcome in results:
        errors[run.learning_rate] = errors.get(run.learning_rate, 0.0) + outcome.rare + outcome.common
    return min(sorted(errors), key=errors.__getitem__)


def planned_runs(tuned: float, *, quick: bool) -> list[Run]:
    """All trainings that are compared, with the published length of training and as tuned, a seed at a time."""
    if quick:
        return [_quick(tuned, ratio, seed, method) for seed in (0, 1) for ratio in (1, 16) for method in METHODS]
    rates = (PUBLISHED_LENGTH / Run.steps, tuned)
    return [Run(m, ratio, seed, rate) for rate in rates for seed in range(5) for ratio in RATIOS for m in METHODS]


def _quick(rate: float, ratio: int, seed: int, method: str) -> Run:
    return Run(method, ratio, seed, rate, n_train=85, n_test=20, steps=40)
