import math

import pytest
import torch

from nnunet_dro.losses import ImportanceWeights

nan = math.nan


def at(beta, n):
    return torch.full((n,), beta)


def test_weights_are_the_exponential_of_the_change_and_clipped():
    weigh = ImportanceWeights(low=0.1, high=10.0)
    losses = torch.tensor([1.0, 1.5, 0.5, 9.0, -9.0])
    weights, clipped = weigh(losses, torch.ones(5), torch.full((5,), 0.2), at(2.0, 5))
    torch.testing.assert_close(weights, torch.tensor([1.0, math.e, 1 / math.e, 10.0, 0.1]))
    assert clipped.tolist() == [False, False, False, True, True]


def test_weight_is_one_at_a_first_visit_and_where_a_loss_is_not_finite():
    weigh = ImportanceWeights()
    weights, clipped = weigh(
        torch.tensor([3.0, nan, math.inf]), torch.tensor([nan, 0.0, 0.0]), torch.full((3,), 1 / 3), at(100.0, 3)
    )
    assert weights.tolist() == [1, 1, 1]
    assert not clipped.any()


def test_weights_are_one_without_robustness_and_finite_with_much_of_it():
    losses, stale = torch.tensor([5.0, -3.0]), torch.tensor([0.0, 0.0])
    weigh, probabilities = ImportanceWeights(), torch.tensor([0.5, 0.5])
    assert weigh(losses, stale, probabilities, at(0.0, 2))[0].tolist() == [1, 1]
    assert weigh(losses, stale, probabilities, at(1e6, 2))[0].tolist() == pytest.approx([10, 0.1])


def test_no_gradient_flows_through_the_weights():
    losses = torch.tensor([1.0], requires_grad=True)
    assert not ImportanceWeights()(losses, torch.zeros(1), torch.ones(1), at(1.0, 1))[0].requires_grad


@pytest.mark.parametrize(("low", "high"), [(-0.1, 10), (1.1, 10), (0.1, 0.9), (0.1, math.inf)])
def test_clip_must_enclose_one(low, high):
    with pytest.raises(ValueError, match="`clip`"):
        ImportanceWeights(low=low, high=high)


def test_exact_weight_is_the_ratio_of_the_probabilities():
    """Fidon et al. 2022, eq. (19): the softmax with the case's fresh loss, over that with its stale one."""
    torch.manual_seed(0)
    beta, stale = 3.0, torch.randn(6, dtype=torch.float64)
    before = torch.softmax(beta * stale, 0)
    weigh = ImportanceWeights(low=0.0, high=1e9, exact=True)
    for i, fresh in enumerate(torch.randn(6, dtype=torch.float64)):
        changed = stale.clone()
        changed[i] = fresh
        ratio = torch.softmax(beta * changed, 0)[i] / before[i]
        weight, _ = weigh(fresh[None], stale[i : i + 1], before[i : i + 1], at(beta, 1))
        torch.testing.assert_close(weight, ratio[None])


def test_exact_weight_is_the_exponential_for_rare_cases_and_bounded_by_one_over_p():
    losses, stale = torch.tensor([1.5, 40.0, -40.0]), torch.zeros(3)
    exact = ImportanceWeights(low=0.0, high=1e30, exact=True)
    torch.testing.assert_close(
        exact(losses, stale, torch.full((3,), 1e-9), at(1.0, 3))[0][:1], torch.tensor([math.e**1.5])
    )
    torch.testing.assert_close(
        exact(losses, stale, torch.full((3,), 0.25), at(1.0, 3))[0][1:], torch.tensor([4.0, math.exp(-40) / 0.75])
    )
    assert exact(losses[:1], torch.tensor([nan]), torch.tensor([0.5]), at(1.0, 1))[0].tolist() == [1]


def test_clipped_weights_are_the_ratios_within_the_clip():
    weigh = ImportanceWeights(low=0.5, high=2.0)
    arguments = (torch.tensor([0.1, 5.0, -5.0]), torch.zeros(3), torch.full((3,), 1 / 3), at(1.0, 3))
    weights, clipped = weigh(*arguments)
    assert weights.tolist() == weigh.ratios(*arguments).clamp(0.5, 2.0).tolist()
    assert clipped.tolist() == [False, True, True]


def test_each_case_is_weighted_by_the_beta_of_its_own_draw():
    """Batches wait in queues while beta is estimated anew."""
    betas = torch.tensor([0.5, 2.0])
    weights, _ = ImportanceWeights()(torch.ones(2), torch.zeros(2), torch.full((2,), 0.1), betas)
    torch.testing.assert_close(weights, torch.tensor([0.5, 2.0]).exp())
