from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from nnunet_dro.sampling import CVaR
from nnunet_dro.sampling.uncertainty_sets import cvar_probabilities, set_aside
from tests.sampling.made_losses import SIZES, alphas, epsilons, random_losses, some_losses


def mean_over_orders_of_ties(losses, alpha, epsilon):
    """CVaR-DORO case by case for one order after the other, every order of the hardest-first list
    counted once."""
    n = len(losses)
    k = int(epsilon * n)
    total = np.zeros(n)
    n_orders = 0
    for order in permutations(range(n)):
        if (np.diff(losses[list(order)]) > 0).any():
            continue
        q = np.zeros(n)
        left = 1.0
        n_orders = n_orders + 1
        for i in order[k:]:
            q[i] = min(left, 1 / (alpha * (n - k)))
            left -= q[i]
        total += q
    return total / n_orders


# CVaR


@pytest.mark.parametrize("n", [10, 30, 100, 1000])
def test_cvar_draws_no_sliver_of_a_case_that_rounding_adds(n):
    losses = np.arange(float(n))
    for percent in range(10, 101, 10):
        drawn = np.count_nonzero(cvar_probabilities(losses, alpha=percent / 100))
        assert drawn == percent * n // 100


@pytest.mark.parametrize("alpha", [1e-6, 0.1, 1 / 3, 0.5, 0.73, 1.0])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_cvar_equals_a_linear_program(n, ties, alpha):
    losses = random_losses(n, ties=ties)
    cap = min(1 / (alpha * n), 1.0)
    program = linprog(-losses, A_eq=np.ones((1, n)), b_eq=[1], bounds=[(0, cap)] * n)

    probabilities = cvar_probabilities(losses, alpha=alpha)

    assert probabilities.max() <= cap + 1e-15
    assert CVaR(alpha).robust_loss(losses) == pytest.approx(-program.fun, abs=1e-8)
    if len(set(losses)) == n:
        np.testing.assert_allclose(probabilities, program.x, atol=1e-8)


@given(some_losses, alphas)
def test_robust_loss_equals_its_dual(losses, alpha):
    # The dual is piecewise linear in eta with its kinks at the losses.
    assume(alpha > 1e-6)
    dual = min(eta + np.maximum(losses - eta, 0).mean() / alpha for eta in losses)

    assert CVaR(alpha).robust_loss(losses) == pytest.approx(dual, abs=1e-8)


@given(some_losses, alphas, st.integers(0, 24), st.floats(0, 5))
def test_cvar_gives_no_less_to_a_case_that_grew_harder(losses, alpha, case, growth):
    case %= len(losses)
    harder = losses.copy()
    harder[case] += growth

    change = cvar_probabilities(harder, alpha=alpha) - cvar_probabilities(losses, alpha=alpha)

    assert change[case] >= -1e-12
    assert (np.delete(change, case) <= 1e-12).all()


def test_robust_loss_goes_from_the_mean_to_the_maximum():
    losses = np.array([0.1, 0.5, 0.3])
    assert CVaR(1.0).robust_loss(losses) == pytest.approx(0.3)
    assert CVaR(1e-300).robust_loss(losses) == 0.5


# DORO


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.25, 0.2), (0.5, 0.4), (1.0, 0.1), (0.2, 0.0)])
def test_doro_reaches_the_papers_objective_where_it_counts_whole_cases(alpha, epsilon):
    """Hardest first: sum(losses[k : m]) / (alpha (n - k)), k = epsilon n, m = (epsilon + alpha (1 -
    epsilon)) n."""
    losses = random_losses(20, ties=False)
    k = round(epsilon * 20)
    m = round((epsilon + alpha * (1 - epsilon)) * 20)

    expected = np.sort(losses)[::-1][k:m].sum() / (alpha * (20 - k))

    assert cvar_probabilities(losses, alpha=alpha, epsilon=epsilon) @ losses == pytest.approx(
        expected, abs=1e-12
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4, 0.65])
@pytest.mark.parametrize("alpha", [0.1, 0.37, 0.5, 1.0])
@pytest.mark.parametrize(
    "values", [[1.0], [1.0, 2.0], [2.0, 2.0], [3, 1, 2, 5, 4, 0], [1, 2, 2, 2, 3, 3], [1] * 6]
)
def test_doro_is_the_mean_over_all_orders_of_equal_losses(values, alpha, epsilon):
    losses = np.array(values, dtype=float)
    alpha = max(alpha, 1 / (len(losses) - int(epsilon * len(losses))))

    expected = mean_over_orders_of_ties(losses, alpha, epsilon)

    np.testing.assert_allclose(
        cvar_probabilities(losses, alpha=alpha, epsilon=epsilon), expected, atol=1e-12
    )


@given(some_losses, alphas)
def test_doro_without_a_case_to_set_aside_is_cvar(losses, alpha):
    few = cvar_probabilities(losses, alpha=alpha, epsilon=0.9 / len(losses))
    np.testing.assert_array_equal(few, cvar_probabilities(losses, alpha=alpha))


@given(some_losses, alphas, epsilons)
def test_doro_never_draws_what_is_set_aside_and_is_cvar_of_the_rest(losses, alpha, epsilon):
    probabilities = cvar_probabilities(losses, alpha=alpha, epsilon=epsilon)
    aside = set_aside(losses, epsilon=epsilon)

    assert probabilities[aside].sum() == 0
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)

    if len(set(losses)) == len(losses):
        rest = cvar_probabilities(np.delete(losses, aside), alpha=alpha)
        np.testing.assert_allclose(np.delete(probabilities, aside), rest, atol=1e-12)


def test_set_aside_names_the_hardest_and_always_leaves_a_case():
    losses = np.array([0.1, 0.9, 0.4, 1.7, 0.2])
    assert set_aside(losses, epsilon=0.4).tolist() == [3, 1]
    assert set_aside(losses, epsilon=0.39).tolist() == [3]
    assert set_aside(losses, epsilon=0.0).tolist() == []
    # 0.29 * 100 is 28.999999999999996.
    assert len(set_aside(np.arange(100.0), epsilon=0.29)) == 29
    assert set_aside(np.array([2.0, 3.0, 2.0, 1.0, 0.0]), epsilon=0.4).tolist() == [1]
    assert set_aside(np.array([2.0, 3.0, 2.0, 1.0, 0.0]), epsilon=0.6).tolist() == [1, 0, 2]
    assert set_aside(np.ones(5), epsilon=0.8).tolist() == []
    np.testing.assert_array_equal(cvar_probabilities(np.array([5.0]), alpha=0.5, epsilon=0.99), [1])

    almost_all = np.nextafter(1.0, 0)
    np.testing.assert_array_equal(
        cvar_probabilities(np.array([1.0, 2, 3]), alpha=1.0, epsilon=almost_all), [1, 0, 0]
    )


@given(some_losses, epsilons)
def test_set_aside_are_the_hardest_and_no_more_than_the_share(losses, epsilon):
    aside = set_aside(losses, epsilon=epsilon)
    assert len(aside) <= epsilon * len(losses) + 1e-9

    rest = np.delete(losses, aside)
    assert len(rest) > 0
    assert (losses[aside] > rest.max()).all()
    assert (np.diff(losses[aside]) <= 0).all()
