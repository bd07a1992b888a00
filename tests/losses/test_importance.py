import math

import numpy as np
import pytest
import torch

from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import HardnessTable

nan = math.nan


def drawn(beta, n=1, *, share=0.0, explored=0.0):
    """The numbers of n draws: betas, shares of the softmax, and parts of exploration."""
    names = {"betas": beta, "shares": share, "explored": explored}
    return {name: torch.as_tensor(value).expand(n) for name, value in names.items()}


def test_weights_are_the_exponential_of_the_change_and_clipped():
    weigh = ImportanceWeights(low=0.1, high=10.0)
    losses = torch.tensor([1.0, 1.5, 0.5, 9.0, -9.0])
    weights, clipped = weigh(losses, torch.ones(5), **drawn(2.0, 5, share=0.2))
    torch.testing.assert_close(weights, torch.tensor([1.0, math.e, 1 / math.e, 10.0, 0.1]))
    assert clipped.tolist() == [False, False, False, True, True]


def test_weight_is_one_at_a_first_visit_and_where_a_loss_is_not_finite():
    weigh = ImportanceWeights()
    weights, clipped = weigh(
        torch.tensor([3.0, nan, math.inf]), torch.tensor([nan, 0.0, 0.0]), **drawn(100.0, 3, share=1 / 3)
    )
    assert weights.tolist() == [1, 1, 1]
    assert not clipped.any()


def test_weights_are_one_without_robustness_and_finite_with_much_of_it():
    losses, stale = torch.tensor([5.0, -3.0]), torch.tensor([0.0, 0.0])
    weigh = ImportanceWeights()
    assert weigh(losses, stale, **drawn(0.0, 2, share=0.5))[0].tolist() == [1, 1]
    assert weigh(losses, stale, **drawn(1e6, 2, share=0.5))[0].tolist() == pytest.approx([10, 0.1])


def test_no_gradient_flows_through_the_weights():
    losses = torch.tensor([1.0], requires_grad=True)
    assert not ImportanceWeights()(losses, torch.zeros(1), **drawn(1.0, share=1.0))[0].requires_grad


@pytest.mark.parametrize(("low", "high"), [(-0.1, 10), (1.1, 10), (0.1, 0.9), (0.1, math.inf)])
def test_clip_must_enclose_one(low, high):
    with pytest.raises(ValueError, match="`clip`"):
        ImportanceWeights(low=low, high=high)


def test_exact_weight_is_the_exponential_for_rare_cases_and_bounded_by_one_over_p():
    losses, stale = torch.tensor([1.5, 40.0, -40.0]), torch.zeros(3)
    exact = ImportanceWeights(low=0.0, high=1e30, exact=True)
    rare, common = (
        exact(losses, stale, **drawn(1.0, 3, share=1e-9))[0],
        exact(losses, stale, **drawn(1.0, 3, share=0.25))[0],
    )
    torch.testing.assert_close(rare[:1], torch.tensor([math.e**1.5]))
    torch.testing.assert_close(common[1:], torch.tensor([4.0, math.exp(-40) / 0.75]))
    assert exact(losses[:1], torch.tensor([nan]), **drawn(1.0, share=0.5))[0].tolist() == [1]


@pytest.mark.parametrize("exact", [False, True])
def test_a_draw_of_exploration_alone_has_the_weight_one(exact):
    weigh = ImportanceWeights(exact=exact)
    assert weigh(torch.ones(1), torch.zeros(1), **drawn(100.0, share=1e-30, explored=1.0))[0].tolist() == [1]


def test_each_case_is_weighted_by_the_beta_of_its_own_draw():
    """Batches wait in queues while beta is estimated anew."""
    betas = torch.tensor([0.5, 2.0])
    weights, _ = ImportanceWeights()(torch.ones(2), torch.zeros(2), **drawn(betas, 2, share=0.1))
    torch.testing.assert_close(weights, torch.tensor([0.5, 2.0]).exp())


MOMENTA = pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])


def change_of_probabilities(momentum, seed, *, beta=3.0, n_cases=7, size=1, exploration=0.0, auto_beta=False):
    """A case that is drawn from a table and updated: its draw, its fresh loss, the probabilities before and after."""
    rng = np.random.default_rng(seed)
    cases = [f"case_{i}" for i in range(n_cases)]
    table = HardnessTable(cases, beta=beta, momentum=momentum, exploration=exploration, auto_beta=auto_beta)
    for _ in range(3):
        table.update(np.arange(n_cases), rng.normal(size=n_cases))
    if auto_beta:
        table.estimate_beta()
    draws = table.draw(size, rng=rng)
    before, fresh = table.probabilities(), rng.normal(size=1)
    table.update(draws.indices[:1], fresh)
    return draws, fresh, before, table.probabilities()


def weight_of(draws, fresh, **settings):
    """The weight of the first of the draws."""
    stale, *numbers = (
        torch.as_tensor(values)[:1] for values in (draws.stale_losses, draws.shares, draws.explored, draws.betas)
    )
    weigh = ImportanceWeights(low=0.0, high=1e9, **settings)
    return float(
        weigh(torch.as_tensor(fresh), stale, **dict(zip(("shares", "explored", "betas"), numbers, strict=True)))[0]
    )


@MOMENTA
@pytest.mark.parametrize("auto_beta", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_the_exact_weight_is_what_an_update_does_to_the_probability_of_its_case(momentum, auto_beta, seed):
    """Fidon et al. 2022, eq. (19): the softmax with the case's fresh loss, over that with its stale one."""
    draws, fresh, before, after = change_of_probabilities(momentum, seed, auto_beta=auto_beta)
    (case,) = draws.indices
    assert weight_of(draws, fresh, exact=True, momentum=momentum) == pytest.approx(after[case] / before[case], rel=1e-9)


@MOMENTA
@pytest.mark.parametrize("seed", range(5))
def test_the_exact_weight_knows_the_share_of_a_case_that_is_in_every_batch_and_the_exploration(momentum, seed):
    """The softmax, not the limit of 1/b of a case that is in every batch, and no more than exploration leaves."""
    draws, fresh, before, after = change_of_probabilities(momentum, seed, beta=6.0, size=3, exploration=0.3)
    assert (before > 1 / 3).any(), "one case must be in every batch"
    case = draws.indices[0]
    assert weight_of(draws, fresh, exact=True, momentum=momentum) == pytest.approx(after[case] / before[case], rel=1e-9)


@MOMENTA
@pytest.mark.parametrize("seed", range(5))
def test_the_weight_is_what_an_update_does_to_the_odds_against_another_case(momentum, seed):
    draws, fresh, before, after = change_of_probabilities(momentum, seed)
    (case,) = draws.indices
    other = (case + 1) % len(before)
    ratio = (after[case] / after[other]) / (before[case] / before[other])
    assert weight_of(draws, fresh, momentum=momentum) == pytest.approx(ratio, rel=1e-9)


@MOMENTA
@pytest.mark.parametrize("exact", [False, True])
def test_a_first_visit_has_the_weight_one_whatever_the_momentum(momentum, exact):
    table = HardnessTable(["a", "b"], beta=10.0, momentum=momentum)
    draws = table.draw(1, rng=np.random.default_rng(0))
    assert weight_of(draws, np.array([5.0]), exact=exact, momentum=momentum) == 1


def test_a_long_history_makes_calm_weights():
    """Losses of 0 with a patch noise s: log w has the standard deviation beta s (1 - m) sqrt(2 / (1 + m))."""
    beta, noise, rng = 10.0, 0.2, np.random.default_rng(0)
    table = HardnessTable([f"case_{i}" for i in range(5000)], beta=beta, momentum=0.9)
    every = np.arange(len(table))
    for _ in range(60):
        table.update(every, rng.normal(scale=noise, size=len(table)))
    fresh, stale = torch.tensor(rng.normal(scale=noise, size=len(table))), torch.tensor(table.losses)
    weights, clipped = ImportanceWeights(momentum=0.9)(fresh, stale, **drawn(beta, len(table)))
    assert float(weights.log().std()) == pytest.approx(beta * noise * 0.1 * math.sqrt(2 / 1.9), rel=0.05)
    assert not clipped.any()
    assert float(weights.sum() ** 2 / weights.square().sum() / len(table)) == pytest.approx(0.96, abs=0.01)


@pytest.mark.parametrize("momentum", [-0.1, 1.0, nan])
def test_a_momentum_outside_of_its_range_is_refused(momentum):
    with pytest.raises(ValueError, match=r"`momentum` must be a number in \[0, 1\), got"):
        ImportanceWeights(momentum=momentum)
