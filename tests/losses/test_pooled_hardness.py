import math

import numpy as np
import pytest
import torch

from nnunet_dro.losses import DiceCELoss, PooledHardness


def batch(n=2, size=8, classes=3, seed=0, labels=None):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, classes, size, size, generator=generator)
    target = (
        torch.randint(0, classes, (n, 1, size, size), generator=generator)
        if labels is None
        else labels
    )
    return logits, target


def loss_of(**settings):
    return DiceCELoss(**{"batch_dice": False, "do_bg": False, "smooth": 1e-5, **settings})


def test_without_memory_it_is_the_loss_of_a_patch_that_has_all_classes():
    loss = loss_of()
    cases = loss(*batch())

    pooled = PooledHardness(5, memory=0.0)

    for _ in range(2):
        torch.testing.assert_close(pooled(torch.tensor([3, 1]), cases), cases.hardness)

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 2, 6, 6, generator=generator)
    target = torch.randint(0, 2, (2, 3, 6, 6), generator=generator)
    loss = loss_of(regions=True, do_bg=True, ignore_label=1)
    cases = loss(logits, target)

    torch.testing.assert_close(
        PooledHardness(2, memory=0.5)(torch.arange(2), cases), cases.hardness
    )


@pytest.mark.parametrize("batch_dice", [False, True])
def test_the_patches_of_a_case_count_as_one_image(batch_dice):
    """With a memory near 1, two patches have the Dice and cross-entropy of both side by side."""
    loss = loss_of(batch_dice=batch_dice)
    one = batch(1, seed=1)
    other = batch(1, seed=2)
    pooled = PooledHardness(1, memory=1 - 1e-9)
    pooled(torch.tensor([0]), loss(*one))

    both = loss(*(torch.cat(pair, -1) for pair in zip(one, other, strict=True)))

    torch.testing.assert_close(
        pooled(torch.tensor([0]), loss(*other)), both.hardness, rtol=1e-5, atol=1e-6
    )


def test_the_past_fades():
    loss = loss_of()
    pooled = PooledHardness(1, memory=0.5)
    pooled(torch.tensor([0]), loss(*batch(1, seed=1)))
    last = loss(*batch(1, seed=2))

    for _ in range(30):
        hardness = pooled(torch.tensor([0]), last)

    torch.testing.assert_close(hardness, last.hardness)


def test_an_empty_patch_leaves_the_dice_of_the_case_alone():
    """The soft Dice of an empty patch is near 0 however good the network is; pooled, the patch
    changes nothing."""
    full = torch.zeros(1, 1, 8, 8, dtype=torch.int64)
    full[..., :4] = 1
    empty = torch.zeros_like(full)
    right = [
        8.0 * torch.nn.functional.one_hot(target[:, 0], 2).movedim(-1, 1)
        for target in (full, empty)
    ]
    loss = loss_of()

    pooled = PooledHardness(1, memory=0.9)

    assert pooled(torch.tensor([0]), loss(right[0], full)).item() == pytest.approx(-1, abs=2e-3)
    assert loss(right[1], empty).hardness.item() > -0.9
    assert pooled(torch.tensor([0]), loss(right[1], empty)).item() == pytest.approx(-1, abs=2e-3)


def test_a_case_without_any_class_is_as_hard_as_its_cross_entropy():
    empty = torch.zeros(1, 1, 8, 8, dtype=torch.int64)
    cases = loss_of()(batch(1)[0], empty)

    hardness = PooledHardness(1, memory=0.9)(torch.tensor([0]), cases)

    torch.testing.assert_close(hardness, cases.cross_entropy[0] / 64 - 1)

    labels = torch.zeros(1, 1, 8, 8, dtype=torch.int64)
    labels[..., :3] = 1
    logits, _ = batch(1)
    cases = loss_of()(logits, labels)
    (dice,) = (2 * cases.intersection[0, 0, :1] + 1e-5) / (
        cases.predicted + cases.reference + 1e-5
    )[0, 0, :1]
    hardness = PooledHardness(1, memory=0.9)(torch.tensor([0]), cases)

    torch.testing.assert_close(hardness, cases.cross_entropy[0] / 64 - dice)


def test_a_case_that_comes_twice_in_a_batch_counts_with_both_patches():
    loss = loss_of()
    pooled = PooledHardness(1, memory=0.5)
    logits, target = batch(2)

    both = loss(torch.cat([*logits.split(1)], -1), torch.cat([*target.split(1)], -1)).hardness

    torch.testing.assert_close(pooled(torch.tensor([0, 0]), loss(logits, target)), both.expand(2))


def test_a_patch_that_is_not_finite_is_refused_and_forgotten():
    loss = loss_of()
    pooled = PooledHardness(2, memory=0.9)
    logits, target = batch(2)
    before = pooled(torch.arange(2), loss(logits, target))
    spoilt = logits.clone()
    spoilt[0, 0, 0, 0] = math.nan

    hardness = pooled(torch.arange(2), loss(spoilt, target))

    assert math.isnan(hardness[0])
    torch.testing.assert_close(hardness[1], before[1])
    torch.testing.assert_close(pooled(torch.arange(2), loss(logits, target))[0], before[0])


def test_no_gradient_and_full_resolution_only():
    loss = loss_of(scale_weights=(2 / 3, 1 / 3))
    logits, target = batch(2)
    logits.requires_grad_()
    coarse = (logits[..., ::2, ::2], target[..., ::2, ::2])

    hardness = PooledHardness(2, memory=0.9)(
        torch.arange(2), loss([logits, coarse[0]], [target, coarse[1]])
    )

    assert not hardness.requires_grad
    torch.testing.assert_close(hardness, loss_of()(logits, target).hardness)


def test_it_is_restored_by_the_positions_of_the_cases():
    loss = loss_of()
    pooled = PooledHardness(3, memory=0.9)
    pooled(torch.arange(3), loss(*batch(3, seed=1)))
    again = PooledHardness(2, memory=0.9)
    again.load_state_dict(pooled.state_dict(), np.array([0]), np.array([2]))
    cases = loss(*batch(2, seed=2))

    hardness = again(torch.arange(2), cases)

    torch.testing.assert_close(hardness[:1], pooled(torch.tensor([2, 0]), cases)[:1])
    torch.testing.assert_close(hardness[1:], cases.hardness[1:])

    again.load_state_dict(PooledHardness(2, memory=0.9).state_dict(), np.arange(2), np.arange(2))
    torch.testing.assert_close(again(torch.arange(2), cases), cases.hardness)


@pytest.mark.parametrize("memory", [-0.1, 1.0, math.nan])
def test_a_memory_out_of_range_is_refused(memory):
    with pytest.raises(ValueError, match=r"`memory` must be in \[0, 1\)"):
        PooledHardness(1, memory=memory)
