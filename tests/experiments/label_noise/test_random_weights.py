import numpy as np
import pytest
import torch

from experiments.label_noise.random_weights import RectifiedGaussianWeights, random_weights_trainer
from nnunet_dro.losses import DiceCELoss
from nnunet_dro.sampling import UNIFORM, HardnessTable
from nnunet_dro.trainers.case_columns import entry_of
from nnunet_dro.trainers.weighted_loss import HardnessWeightedLoss


def test_weights_are_random_and_sum_to_the_number_of_cases():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    drawn = [RectifiedGaussianWeights(seed)(torch.arange(4.0)) for seed in range(200)]

    weights, clipped = (torch.stack(parts) for parts in zip(*drawn, strict=True))

    torch.testing.assert_close(weights.sum(1), torch.full((200,), 4.0))
    assert (weights >= 0).all()
    assert torch.equal(torch.get_rng_state(), before), "the global stream is not touched"
    assert not clipped.any()
    # Half of them are 0, but never all; and no case is preferred.
    assert 0.4 < (weights == 0).float().mean() < 0.55
    torch.testing.assert_close(weights.mean(0), torch.ones(4), atol=0.25, rtol=0)

    again, _ = RectifiedGaussianWeights(3)(torch.zeros(4))
    torch.testing.assert_close(again, weights[3], msg="the losses do not count")


def test_the_loss_of_a_batch_is_the_sum_of_its_weighted_losses():
    torch.manual_seed(0)
    per_case = DiceCELoss(batch_dice=False, do_bg=False)
    importance = RectifiedGaussianWeights(1)
    loss = HardnessWeightedLoss(
        torch.nn.Identity(), per_case, importance=importance, max_cases=4, is_ddp=False
    )
    logits = torch.randn(4, 2, 6)
    target = torch.randint(0, 2, (4, 1, 6))
    draws = HardnessTable(list("abcd"), rule=UNIFORM).draw(4, rng=np.random.default_rng(0))
    with loss.drawn(entry_of(draws)):
        found = loss(logits, target)

    weights, _ = RectifiedGaussianWeights(1)(torch.zeros(4))

    torch.testing.assert_close(found, (weights / 4 * per_case(logits, target).losses).sum())


def test_the_trainer_is_plain_training_of_the_length_in_its_name():
    made = random_weights_trainer("nnUNetTrainerRandomWeights_3epochs_4iters")
    assert made.__name__ == "nnUNetTrainerRandomWeights_3epochs_4iters"
    assert (made.options.beta, made.options.epochs, made.options.iterations) == (0, 3, 4)
    with pytest.raises(ValueError):
        random_weights_trainer("nnUNetTrainerRandomWeights_3epoch")
