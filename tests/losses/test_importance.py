import math

import pytest
import torch

from nnunet_dro.losses import ImportanceWeights

nan = math.nan


def test_weights_are_the_exponential_of_the_change_and_clipped():
    weigh = ImportanceWeights(beta=2.0, low=0.1, high=10.0)
    losses = torch.tensor([1.0, 1.5, 0.5, 9.0, -9.0])
    weights = weigh(losses, torch.ones(5))
    torch.testing.assert_close(weights, torch.tensor([1.0, math.e, 1 / math.e, 10.0, 0.1]))


def test_weight_is_one_at_a_first_visit_and_where_a_loss_is_not_finite():
    weigh = ImportanceWeights(beta=100.0)
    weights = weigh(torch.tensor([3.0, nan, math.inf]), torch.tensor([nan, 0.0, 0.0]))
    assert weights.tolist() == [1, 1, 1]


def test_weights_are_one_without_robustness_and_finite_with_much_of_it():
    losses, stale = torch.tensor([5.0, -3.0]), torch.tensor([0.0, 0.0])
    assert ImportanceWeights(beta=0.0)(losses, stale).tolist() == [1, 1]
    assert ImportanceWeights(beta=1e6)(losses, stale).tolist() == pytest.approx([10, 0.1])


def test_no_gradient_flows_through_the_weights():
    losses = torch.tensor([1.0], requires_grad=True)
    assert not ImportanceWeights(beta=1.0)(losses, torch.zeros(1)).requires_grad


@pytest.mark.parametrize(("low", "high"), [(-0.1, 10), (1.1, 10), (0.1, 0.9), (0.1, math.inf)])
def test_clip_must_enclose_one(low, high):
    with pytest.raises(ValueError, match="`clip`"):
        ImportanceWeights(beta=1.0, low=low, high=high)
