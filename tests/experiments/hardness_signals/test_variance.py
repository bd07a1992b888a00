import numpy as np
import pytest

from experiments.hardness_signals.variance import share_between, variance_parts


def test_variance_is_split_between_and_within_cases():
    rng = np.random.default_rng(0)
    cases = np.repeat(np.arange(400), rng.integers(5, 40, size=400))
    values = rng.normal(0, 0.3, size=400)[cases] + rng.normal(0, 0.8, size=len(cases))
    between, within = variance_parts(values, cases)
    assert between == pytest.approx(0.09, rel=0.15)
    assert within == pytest.approx(0.64, rel=0.05)


def test_variance_of_a_balanced_table_by_hand():
    # Means 1 and 3, mean squares between 8 and within 2 / 3.
    between, within = variance_parts(np.array([0.5, 1.5, 1.0, 2.0, 4.0, 3.0]), np.array([7, 7, 7, 2, 2, 2]))
    assert within == pytest.approx((0.25 + 0.25 + 1 + 1) / 4)
    assert between == pytest.approx((3 * 2 * 1**2 - within) / 3)


def test_no_difference_between_cases_is_not_less_than_none():
    assert variance_parts(np.array([0.0, 2.0, 0.0, 2.0]), np.array([0, 0, 1, 1]))[0] == 0


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_a_history_shrinks_what_is_within_a_case(momentum):
    rng = np.random.default_rng(0)
    history = noise = rng.normal(0, 2, size=5000)
    for _ in range(100):
        noise = rng.normal(0, 2, size=5000)
        history = momentum * history + (1 - momentum) * noise
    simulated = 1 / (1 + history.var())
    assert share_between(1.0, 4.0, momentum=momentum) == pytest.approx(simulated, rel=0.05)
