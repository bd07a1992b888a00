"""Which trainings there are, and how the learning rate is chosen."""

from collections.abc import Sequence

from experiments.imbalanced_pair.training import METHODS, Outcome, Run

#: Methods at the published settings, 9s for each 4 there, and steps of L2RW and of the others.
PUBLISHED_METHODS = tuple(method for method in METHODS if method != "random")
PUBLISHED_RATIOS, PUBLISHED_STEPS = (199, 10), {"L2RW": 4000, "other": 8000}

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


def published_runs(*, quick: bool) -> list[Run]:
    """All trainings at the settings of the published code, a ratio at a time, the largest first."""
    seeds = range(2) if quick else range(5)
    return [
        _published(method, ratio, seed, quick=quick)
        for ratio in PUBLISHED_RATIOS
        for seed in seeds
        for method in PUBLISHED_METHODS
    ]


def _published(method: str, ratio: int, seed: int, *, quick: bool) -> Run:
    steps = 20 if quick else PUBLISHED_STEPS["L2RW" if method == "L2RW" else "other"]
    n_train, n_test, test_every = (400, 20, 5) if quick else (5000, 40, 100)
    ratio = 40 if quick and ratio > PUBLISHED_RATIOS[1] else ratio
    fixed = {"n_train": n_train, "n_test": n_test, "steps": steps, "test_every": test_every}
    return Run(method, ratio, seed, 0.02 if quick else 1e-3, **fixed, momentum=0.9, made=True)


def _quick(rate: float, ratio: int, seed: int, method: str) -> Run:
    return Run(method, ratio, seed, rate, n_train=85, n_test=20, steps=40)
