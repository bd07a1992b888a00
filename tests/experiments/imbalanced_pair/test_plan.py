from experiments.imbalanced_pair.plan import (
    PUBLISHED_LENGTH,
    TUNING_SEED,
    chosen_rate,
    planned_runs,
    published_runs,
    tuning_runs,
)
from experiments.imbalanced_pair.training import (
    Outcome,
    Run,
)


def test_planned_runs_cross_everything_and_one_rate_has_the_published_length():
    runs = planned_runs(0.2, quick=False)
    assert len(runs) == len(set(runs)) == 6 * 4 * 5 * 2
    lengths = {run.learning_rate * run.steps for run in runs}
    assert lengths == {PUBLISHED_LENGTH, 0.2 * 320} == {1e-3 * 8000, 64}
    tuning = tuning_runs(quick=False)
    assert {run.method for run in tuning} == {"plain"}
    assert {run.seed for run in tuning} == {TUNING_SEED}
    assert TUNING_SEED not in {run.seed for run in runs}


def _outcome(rare, common=0.0):
    return Outcome(rare, common, halfway=20.0, weight=50.0, effective=7.0, seconds=1.0)


def test_chosen_rate_has_the_lowest_error_and_is_the_smaller_of_two():
    def results(**errors):
        return [
            (Run("plain", ratio, 100, rate), _outcome(error))
            for rate, pair in zip((0.4, 0.1, 0.2), errors.values(), strict=True)
            for ratio, error in zip((1, 84), pair, strict=True)
        ]

    assert chosen_rate(results(a=(0.0, 30.0), b=(0.0, 50.0), c=(10.0, 10.0))) == 0.2
    assert chosen_rate(results(a=(0.0, 30.0), b=(10.0, 20.0), c=(20.0, 20.0))) == 0.1


def test_published_runs_have_the_settings_of_the_published_code():
    runs = published_runs(quick=False)
    assert len(runs) == len(set(runs)) == 2 * 5 * 5
    assert {(run.learning_rate, run.momentum, run.batch, run.n_train) for run in runs} == {(1e-3, 0.9, 100, 5000)}
    assert {run.steps for run in runs if run.method == "L2RW"} == {4000}
    assert {run.steps for run in runs if run.method != "L2RW"} == {8000}
    assert {run.n_rare for run in runs} == {25, 455}
