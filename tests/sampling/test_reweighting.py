from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, brentq, linprog, minimize

from nnunet_dro.sampling.reweighting import (
    chi2_probabilities,
    chi2_robust_loss,
    cvar_loss,
    cvar_probabilities,
    doro_probabilities,
    set_aside,
)

# Tenths have many ties, floats hardly any.
one_loss = st.one_of(st.floats(-5, 5), st.integers(-20, 20).map(lambda tenths: tenths / 10))
some_losses = st.lists(one_loss, min_size=1, max_size=25).map(np.array)
betas = st.one_of(st.floats(0, 1000, allow_subnormal=False), st.sampled_from([0.0, 1e-12, 1e-6, 1.0, 1e8]))
alphas = st.one_of(st.floats(0, 1, exclude_min=True), st.sampled_from([0.1, 0.2, 0.25, 0.5, 1.0]))
epsilons = st.one_of(st.floats(0, 0.99), st.sampled_from([0.0, 0.01, 0.1, 0.29, 0.5]))

RULES = {
    "chi2": lambda losses: chi2_probabilities(losses, beta=3.0),
    "chi2 clipped": lambda losses: chi2_probabilities(losses, beta=50.0),
    "cvar": lambda losses: cvar_probabilities(losses, alpha=0.3),
    "doro": lambda losses: doro_probabilities(losses, alpha=0.3, epsilon=0.15),
}
all_rules = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))

SIZES = [1, 2, 3, 7, 40]


def random_losses(n, *, ties):
    losses = np.random.default_rng(n).normal(size=n)
    return np.round(losses * 2) / 2 if ties else losses


def chi2_objective(q, losses, beta):
    return q @ losses - np.mean((len(q) * q - 1) ** 2) / beta


def chi2_by_root_finding(losses, beta):
    """The stationary point of the Lagrangian, its multiplier found by a scalar root finder."""
    n = len(losses)
    slopes = beta * (losses - losses.max()) / 2
    shift = brentq(lambda t: np.maximum(slopes + t, 0).sum() - n, 0, n + 1, xtol=1e-14, rtol=1e-15)
    return np.maximum(slopes + shift, 0) / n


def mean_over_orders_of_ties(losses, alpha, epsilon):
    """CVaR-DORO case by case for one order after the other, every order of the hardest-first list counted once."""
    n = len(losses)
    k = int(epsilon * n)
    total, n_orders = np.zeros(n), 0
    for order in permutations(range(n)):
        if (np.diff(losses[list(order)]) > 0).any():
            continue
        q, left, n_orders = np.zeros(n), 1.0, n_orders + 1
        for i in order[k:]:
            q[i] = min(left, 1 / (alpha * (n - k)))
            left -= q[i]
        total += q
    return total / n_orders


# Pearson chi2


@pytest.mark.parametrize(
    ("beta", "expected"),
    [
        (1.0, [3 / 8, 5 / 8]),  # (1 + beta L / 2) / n = (1/2, 3/4), which sums to 1/4 too much: 1/8 off each
        (4.0, [0.0, 1.0]),  # (1/2, 3/2): 1/2 off each
        (8.0, [0.0, 1.0]),  # (1/2, 5/2): clipped
    ],
)
def test_chi2_probabilities_match_values_computed_by_hand(beta, expected):
    np.testing.assert_allclose(chi2_probabilities(np.array([0.0, 1.0]), beta=beta), expected)


@pytest.mark.parametrize("beta", [1e-12, 1e-3, 0.1, 1.0, 10.0, 1000.0, 1e8])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_chi2_probabilities_equal_those_of_a_root_finder(n, ties, beta):
    losses = random_losses(n, ties=ties)
    np.testing.assert_allclose(chi2_probabilities(losses, beta=beta), chi2_by_root_finding(losses, beta), atol=1e-12)


@pytest.mark.parametrize("beta", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("n", [2, 3, 7])
def test_chi2_probabilities_and_loss_equal_those_of_a_general_optimiser(n, beta):
    losses = random_losses(n, ties=False)
    found = minimize(
        lambda q: -beta * chi2_objective(q, losses, beta),
        np.full(n, 1 / n),
        jac=lambda q: -beta * losses + 2 * (n * q - 1),
        method="SLSQP",
        bounds=[(0, 1)] * n,
        constraints=LinearConstraint(np.ones(n), 1, 1),
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    np.testing.assert_allclose(chi2_probabilities(losses, beta=beta), found.x, atol=1e-8)
    assert chi2_robust_loss(losses, beta=beta) == pytest.approx(chi2_objective(found.x, losses, beta), abs=1e-8)


def test_chi2_probabilities_go_from_uniform_to_the_hardest_cases():
    losses = np.array([-9.1, 0.5, 0.3, 0.5])
    np.testing.assert_array_equal(chi2_probabilities(losses, beta=0.0), np.full(4, 0.25))
    np.testing.assert_allclose(chi2_probabilities(losses, beta=1e-12), np.full(4, 0.25), atol=1e-12)
    for beta in (1e8, 1e300, np.finfo(float).max):
        np.testing.assert_array_equal(chi2_probabilities(losses, beta=beta), [0, 0.5, 0, 0.5])


def test_chi2_leaves_the_hardest_case_alone_from_twice_n_over_the_gap_on():
    losses = np.array([0.0, 0.3, 0.8])
    beta = 2 * 3 / 0.5
    np.testing.assert_allclose(chi2_probabilities(losses, beta=beta), [0, 0, 1], atol=1e-15)
    assert chi2_probabilities(losses, beta=0.99 * beta)[1] > 0


def test_chi2_probabilities_do_not_lose_precision_far_from_zero():
    losses = np.array([0.0, 0.25, 0.5, 1.0])
    np.testing.assert_array_equal(chi2_probabilities(losses + 2.0**40, beta=1.7), chi2_probabilities(losses, beta=1.7))


def test_chi2_probabilities_of_a_million_cases_sum_to_one():
    losses = np.random.default_rng(0).normal(size=1_000_000)
    for beta in (1.0, 100.0, 1e6):
        assert chi2_probabilities(losses, beta=beta).sum() == pytest.approx(1, abs=1e-12)
        weights = chi2_by_root_finding(losses, beta)
        np.testing.assert_allclose(chi2_probabilities(losses, beta=beta), weights / weights.sum(), atol=1e-12)


@given(some_losses, betas, st.integers(0, 24), st.floats(0, 5))
def test_chi2_gives_more_to_a_case_that_grew_harder_and_no_more_to_any_other(losses, beta, case, growth):
    case %= len(losses)
    harder = losses.copy()
    harder[case] += growth
    change = chi2_probabilities(harder, beta=beta) - chi2_probabilities(losses, beta=beta)
    assert change[case] >= -1e-12
    assert (np.delete(change, case) <= 1e-12).all()


@given(some_losses, betas)
def test_chi2_robust_loss_is_what_its_distribution_reaches(losses, beta):
    robust = chi2_robust_loss(losses, beta=beta)
    assert losses.mean() <= robust <= losses.max() or robust == pytest.approx(losses.mean(), abs=1e-14)
    if beta >= 1e-6:
        reached = chi2_objective(chi2_probabilities(losses, beta=beta), losses, beta)
        assert robust == pytest.approx(reached, abs=1e-9)


def test_chi2_robust_loss_goes_from_the_mean_to_the_maximum():
    losses = np.array([0.1, 0.5, 0.3])
    for beta in (0.0, 5e-324, 1e-200, 1e-40, 1e-15):
        assert chi2_robust_loss(losses, beta=beta) == pytest.approx(0.3, abs=1e-15)
    assert chi2_robust_loss(losses, beta=1e10) == pytest.approx(0.5, abs=1e-9)


def test_chi2_robust_loss_adds_a_quarter_of_beta_times_the_variance_while_none_is_clipped():
    losses = np.array([0.1, 0.5, 0.3])
    assert chi2_robust_loss(losses, beta=2.0) == pytest.approx(0.3 + losses.var() / 2, abs=1e-15)


# CVaR


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [
        (0.4, [0, 0.5, 0, 0.5, 0]),
        (0.5, [0.2, 0.4, 0, 0.4, 0]),
        (0.2, [0, 1, 0, 0, 0]),
        (0.01, [0, 1, 0, 0, 0]),
        (1.0, [0.2, 0.2, 0.2, 0.2, 0.2]),
    ],
)
def test_cvar_probabilities_match_values_computed_by_hand(alpha, expected):
    losses = np.array([3.0, 5.0, 1.0, 4.0, 2.0])
    np.testing.assert_allclose(cvar_probabilities(losses, alpha=alpha), expected, atol=1e-16)


def test_cvar_shares_the_rest_among_equal_losses_at_the_boundary():
    losses = np.array([2.0, 1.0, 2.0, 3.0, 2.0])
    np.testing.assert_allclose(cvar_probabilities(losses, alpha=0.4), [1 / 6, 0, 1 / 6, 1 / 2, 1 / 6])


def test_cvar_of_equal_losses_is_uniform():
    np.testing.assert_allclose(cvar_probabilities(np.zeros(7), alpha=0.1), np.full(7, 1 / 7))


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
    assert cvar_loss(losses, alpha=alpha) == pytest.approx(-program.fun, abs=1e-8)
    if len(set(losses)) == n:
        np.testing.assert_allclose(probabilities, program.x, atol=1e-8)


@given(some_losses, alphas)
def test_cvar_loss_equals_its_dual(losses, alpha):
    # The dual is piecewise linear in eta with its kinks at the losses.
    assume(alpha > 1e-6)
    dual = min(eta + np.maximum(losses - eta, 0).mean() / alpha for eta in losses)
    assert cvar_loss(losses, alpha=alpha) == pytest.approx(dual, abs=1e-8)


@given(some_losses, alphas, st.integers(0, 24), st.floats(0, 5))
def test_cvar_gives_no_less_to_a_case_that_grew_harder_and_no_more_to_any_other(losses, alpha, case, growth):
    case %= len(losses)
    harder = losses.copy()
    harder[case] += growth
    change = cvar_probabilities(harder, alpha=alpha) - cvar_probabilities(losses, alpha=alpha)
    assert change[case] >= -1e-12
    assert (np.delete(change, case) <= 1e-12).all()


def test_cvar_loss_goes_from_the_mean_to_the_maximum():
    losses = np.array([0.1, 0.5, 0.3])
    assert cvar_loss(losses, alpha=1.0) == pytest.approx(0.3)
    assert cvar_loss(losses, alpha=1e-300) == 0.5


# DORO


def test_doro_probabilities_match_a_value_computed_by_hand():
    # 10 cases, the hardest 2 set aside, a quarter of the 8 left: ranks 2 and 3.
    losses = np.arange(10.0)
    expected = [0, 0, 0, 0, 0, 0, 0.5, 0.5, 0, 0]
    np.testing.assert_array_equal(doro_probabilities(losses, alpha=0.25, epsilon=0.2), expected)


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.25, 0.2), (0.5, 0.4), (1.0, 0.1), (0.2, 0.0)])
def test_doro_reaches_the_papers_objective_where_it_counts_whole_cases(alpha, epsilon):
    """Hardest first: sum(losses[k : m]) / (alpha (n - k)), k = epsilon n, m = (epsilon + alpha (1 - epsilon)) n."""
    losses = random_losses(20, ties=False)
    k, m = round(epsilon * 20), round((epsilon + alpha * (1 - epsilon)) * 20)
    expected = np.sort(losses)[::-1][k:m].sum() / (alpha * (20 - k))
    assert doro_probabilities(losses, alpha=alpha, epsilon=epsilon) @ losses == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4, 0.65])
@pytest.mark.parametrize("alpha", [0.1, 0.37, 0.5, 1.0])
@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0], [2.0, 2.0], [3, 1, 2, 5, 4, 0], [1, 2, 2, 2, 3, 3], [1] * 6])
def test_doro_is_the_mean_over_all_orders_of_equal_losses(values, alpha, epsilon):
    losses = np.array(values, dtype=float)
    alpha = max(alpha, 1 / (len(losses) - int(epsilon * len(losses))))
    expected = mean_over_orders_of_ties(losses, alpha, epsilon)
    np.testing.assert_allclose(doro_probabilities(losses, alpha=alpha, epsilon=epsilon), expected, atol=1e-12)


@given(some_losses, alphas)
def test_doro_without_a_case_to_set_aside_is_cvar(losses, alpha):
    expected = cvar_probabilities(losses, alpha=alpha)
    for epsilon in (0.0, 0.9 / len(losses)):
        np.testing.assert_array_equal(doro_probabilities(losses, alpha=alpha, epsilon=epsilon), expected)


@given(some_losses, alphas, epsilons)
def test_doro_never_draws_what_is_set_aside_and_is_cvar_of_the_rest(losses, alpha, epsilon):
    probabilities = doro_probabilities(losses, alpha=alpha, epsilon=epsilon)
    aside = set_aside(losses, epsilon=epsilon)
    assert probabilities[aside].sum() == 0
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    if len(set(losses)) == len(losses):
        rest = cvar_probabilities(np.delete(losses, aside), alpha=alpha)
        np.testing.assert_allclose(np.delete(probabilities, aside), rest, atol=1e-12)


def test_doro_always_leaves_a_case():
    np.testing.assert_array_equal(doro_probabilities(np.array([5.0]), alpha=0.5, epsilon=0.99), [1])
    almost_all = np.nextafter(1.0, 0)
    np.testing.assert_array_equal(doro_probabilities(np.array([1.0, 2, 3]), alpha=1.0, epsilon=almost_all), [1, 0, 0])


def test_set_aside_names_the_hardest_first():
    losses = np.array([0.1, 0.9, 0.4, 1.7, 0.2])
    assert set_aside(losses, epsilon=0.4).tolist() == [3, 1]
    assert set_aside(losses, epsilon=0.39).tolist() == [3]
    assert set_aside(losses, epsilon=0.0).tolist() == []


def test_set_aside_counts_the_share_that_was_meant():
    # 0.29 * 100 is 28.999999999999996.
    assert len(set_aside(np.arange(100.0), epsilon=0.29)) == 29


def test_set_aside_names_no_case_that_an_equal_one_could_replace():
    assert set_aside(np.array([2.0, 3.0, 2.0, 1.0, 0.0]), epsilon=0.4).tolist() == [1]
    assert set_aside(np.array([2.0, 3.0, 2.0, 1.0, 0.0]), epsilon=0.6).tolist() == [1, 0, 2]
    assert set_aside(np.ones(5), epsilon=0.8).tolist() == []


@given(some_losses, epsilons)
def test_set_aside_names_no_more_than_the_share_and_none_easier_than_the_rest(losses, epsilon):
    aside = set_aside(losses, epsilon=epsilon)
    assert len(aside) <= epsilon * len(losses) + 1e-9
    rest = np.delete(losses, aside)
    assert len(rest) > 0
    assert (losses[aside] > rest.max()).all()
    assert (np.diff(losses[aside]) <= 0).all()


# All rules


@all_rules
@given(losses=some_losses)
def test_probabilities_are_a_distribution_and_losses_stay_as_they_were(rule, losses):
    before = losses.copy()
    probabilities = rule(losses)
    assert probabilities.shape == losses.shape
    assert probabilities.dtype == np.float64
    assert (probabilities >= 0).all()
    assert probabilities.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_array_equal(losses, before)


@all_rules
@given(losses=some_losses, seed=st.integers(0, 1000))
def test_probabilities_move_with_their_cases(rule, losses, seed):
    order = np.random.default_rng(seed).permutation(len(losses))
    np.testing.assert_allclose(rule(losses[order]), rule(losses)[order], rtol=1e-12, atol=1e-14)


@all_rules
@given(losses=some_losses)
def test_equal_losses_get_equal_probabilities(rule, losses):
    probabilities = rule(np.concatenate([losses, losses]))
    np.testing.assert_array_equal(probabilities[: len(losses)], probabilities[len(losses) :])


@all_rules
@pytest.mark.parametrize("n", [1, 2, 5])
def test_probabilities_of_equal_losses_are_uniform(rule, n):
    np.testing.assert_allclose(rule(np.full(n, 0.7)), np.full(n, 1 / n), rtol=1e-15)


@pytest.mark.parametrize(
    "function",
    [
        *RULES.values(),
        lambda losses: chi2_robust_loss(losses, beta=1.0),
        lambda losses: cvar_loss(losses, alpha=0.5),
        lambda losses: set_aside(losses, epsilon=0.1),
    ],
)
@pytest.mark.parametrize(
    ("losses", "message"),
    [([], "at least one case"), ([0.0, np.nan], "finite, got"), ([np.inf], "finite, got"), ([[0.0]], "vector")],
)
def test_bad_losses_are_refused(function, losses, message):
    with pytest.raises(ValueError, match=message):
        function(np.array(losses))


@pytest.mark.parametrize("beta", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("function", [chi2_probabilities, chi2_robust_loss])
def test_chi2_refuses_a_bad_beta(function, beta):
    with pytest.raises(ValueError, match="`beta` must be"):
        function(np.ones(3), beta=beta)


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.1, np.nan])
@pytest.mark.parametrize("function", [cvar_probabilities, cvar_loss])
def test_cvar_refuses_a_bad_alpha(function, alpha):
    with pytest.raises(ValueError, match="`alpha` must be"):
        function(np.ones(3), alpha=alpha)


@pytest.mark.parametrize("epsilon", [-0.1, 1.0, np.nan])
def test_doro_refuses_a_bad_epsilon(epsilon):
    with pytest.raises(ValueError, match="`epsilon` must be"):
        doro_probabilities(np.ones(3), alpha=0.5, epsilon=epsilon)
    with pytest.raises(ValueError, match="`epsilon` must be"):
        set_aside(np.ones(3), epsilon=epsilon)
