"""What every rule does, and what all functions of losses refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnunet_dro.sampling import Balanced, BalancedBall, ByWeight, GroupDRO, HardnessTable
from nnunet_dro.sampling.divergences import (
    chi2_probabilities,
    chi2_robust_loss,
    kl_percentile_bound,
    kl_probabilities,
    kl_robust_loss,
)
from nnunet_dro.sampling.rules import KLBall
from nnunet_dro.sampling.uncertainty_sets import cvar_probabilities, kl_ball_beta, set_aside
from tests.sampling.made_losses import some_losses

RULES = {
    "kl": lambda losses: kl_probabilities(losses, beta=3.0),
    "chi2": lambda losses: chi2_probabilities(losses, beta=3.0),
    "chi2 clipped": lambda losses: chi2_probabilities(losses, beta=50.0),
    "cvar": lambda losses: cvar_probabilities(losses, alpha=0.3),
    "doro": lambda losses: cvar_probabilities(losses, alpha=0.3, epsilon=0.15),
}
all_rules = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


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


@pytest.mark.parametrize("probabilities", [kl_probabilities, chi2_probabilities])
@pytest.mark.parametrize("beta", [0.5, 50.0])
@given(losses=some_losses, seed=st.integers(0, 1000))
def test_probabilities_change_no_more_than_lemma_4_1_allows(probabilities, beta, losses, seed):
    """Lemma 4.1 of Fidon et al. 2020, with rho of 1/n for KL and 2 for Pearson's divergence."""
    others = losses + np.random.default_rng(seed).normal(size=len(losses))
    changed = np.linalg.norm(probabilities(losses, beta=beta) - probabilities(others, beta=beta))

    factor = beta if probabilities is kl_probabilities else beta / (2 * len(losses))

    assert changed <= factor * np.linalg.norm(losses - others) * (1 + 1e-9) + 1e-12


BETA = {"beta": 1.0}
ALPHA = {"alpha": 0.5}
SHARE = {"share": 0.5}
FUNCTIONS = [
    *(
        (kl_probabilities, BETA),
        (kl_robust_loss, BETA),
        (chi2_probabilities, BETA),
        (chi2_robust_loss, BETA),
    ),
    *((kl_percentile_bound, BETA | SHARE), (kl_ball_beta, SHARE)),
    *((cvar_probabilities, ALPHA | {"epsilon": 0.1}), (set_aside, {"epsilon": 0.1})),
]
OUT_OF_RANGE = {
    "beta": (-1.0, np.nan, np.inf),
    "alpha": (0.0, -0.1, 1.1, np.nan),
    "epsilon": (-0.1, 1.0, np.nan),
}
OUT_OF_RANGE["share"] = (0.0, -0.5, 1.1, np.nan)


@pytest.mark.parametrize(("function", "options"), FUNCTIONS)
@pytest.mark.parametrize(
    ("losses", "message"),
    [
        ([], "at least one case"),
        ([0.0, np.nan], "finite, got"),
        ([np.inf], "finite, got"),
        ([[0.0]], "vector"),
    ],
)
def test_bad_losses_are_refused(function, options, losses, message):
    with pytest.raises(ValueError, match=message):
        function(np.array(losses), **options)


@pytest.mark.parametrize(
    ("function", "options"), [*FUNCTIONS, (lambda _, share: KLBall(0.0, share), SHARE)]
)
def test_options_out_of_range_are_refused(function, options):
    for name in options:
        for value in OUT_OF_RANGE[name]:
            with pytest.raises(ValueError, match=f"`{name}` must be"):
                function(np.ones(3), **(options | {name: value}))


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (HardnessTable, {"cases": [], "beta": 1.0}, "at least one training case"),
        (HardnessTable, {"cases": ["a", "b", "a"], "beta": 1.0}, "unique, got a twice"),
        (HardnessTable, {"cases": ["a"], "beta": -1.0}, "`beta`"),
        (HardnessTable, {"cases": ["a"], "beta": 1.0, "momentum": 1.0}, "`momentum`"),
        (HardnessTable, {"cases": ["a"], "beta": 1.0, "exploration": 2.0}, "`exploration`"),
        (GroupDRO, {"groups": []}, "`groups`"),
        (GroupDRO, {"groups": ["a"], "nu": 0.0}, "`nu`"),
        (GroupDRO, {"groups": ["a"], "nu": np.nan}, "`nu`"),
        (GroupDRO, {"groups": ["a"], "adjustment": -1.0}, "`adjustment`"),
        (GroupDRO, {"groups": ["a"], "momentum": 1.0}, "`momentum`"),
        (Balanced, {"groups": ["a"], "power": 1.1}, "`power`"),
        (Balanced, {"groups": ["a"], "power": np.nan}, "`power`"),
        (BalancedBall, {"groups": ["a"], "share": 0.0}, "`share`"),
        (BalancedBall, {"groups": ["a"], "exploration": 1.1}, "`exploration`"),
        *(
            (ByWeight, {"weights": bad}, "`weights`")
            for bad in ([], [1, 0], [1, -1], [1, np.inf], [np.nan], [[1]])
        ),
    ],
)
def test_tables_and_rules_refuse_bad_input(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)
