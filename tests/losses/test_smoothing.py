"""Label smoothing of the cross-entropy: 1 - a for the label, a / (k - 1) for each other class."""

import math

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from nnunet_dro.losses import DiceCELoss, VoxelLoss


def drawn(k=4, *, regions=False, shape=(2, 5, 6)):
    torch.manual_seed(0)
    logits = torch.randn(shape[0], k, *shape[1:], dtype=torch.float64, requires_grad=True)
    if regions:
        return logits, torch.randint(0, 2, (shape[0], k, *shape[1:]))
    return logits, torch.randint(0, k, (shape[0], 1, *shape[1:]))


def test_a_voxel_by_hand():
    logits = torch.tensor([0.5, 0.3, 0.2]).log().view(1, 3, 1, 1)
    loss = VoxelLoss(regions=False, smoothing=0.2)(logits, torch.zeros(1, 1, 1, 1))
    assert float(loss) == pytest.approx(-(0.8 * math.log(0.5) + 0.1 * math.log(0.3) + 0.1 * math.log(0.2)), rel=1e-6)


def test_a_region_by_hand():
    logits = torch.tensor([0.0, math.log(3)]).view(1, 2, 1, 1)  # probabilities 1/2 and 3/4
    target = torch.tensor([1, 0]).view(1, 2, 1, 1)
    loss = VoxelLoss(regions=True, smoothing=0.1)(logits, target)
    expected = [math.log(2), -(0.1 * math.log(0.75) + 0.9 * math.log(0.25))]
    torch.testing.assert_close(loss.flatten(), torch.tensor(expected))


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("shape", [(2, 5, 6), (1, 3, 4, 5)])
def test_labels_are_as_the_cross_entropy_with_soft_labels(k, shape):
    logits, target = drawn(k, shape=shape)
    soft = torch.full_like(logits, 0.3 / (k - 1)).scatter(1, target, 0.7)
    loss = VoxelLoss(regions=False, smoothing=0.3)(logits, target)
    torch.testing.assert_close(loss, F.cross_entropy(logits, soft, reduction="none"))


def test_two_classes_are_as_one_region():
    logits, target = drawn(2)
    one = (logits[:, 1:] - logits[:, :1]).detach()
    as_region = VoxelLoss(regions=True, smoothing=0.25)(one, target)
    torch.testing.assert_close(as_region[:, 0], VoxelLoss(regions=False, smoothing=0.25)(logits, target).detach())


@pytest.mark.parametrize("regions", [False, True])
def test_the_best_prediction_is_the_smoothed_label(regions):
    _, target = drawn(3, regions=regions)
    best = torch.where(target == 1, 0.8, 0.2) if regions else torch.full((2, 3, 5, 6), 0.1).scatter(1, target, 0.8)
    logits = (best.logit() if regions else best.log()).double().requires_grad_()
    VoxelLoss(regions=regions, smoothing=0.2)(logits, target).sum().backward()
    assert float(logits.grad.abs().max()) < 1e-6


@pytest.mark.parametrize("regions", [False, True])
def test_no_smoothing_is_the_plain_cross_entropy_to_the_bit(regions):
    logits, target = drawn(regions=regions)
    plain, smoothed = VoxelLoss(regions=regions), VoxelLoss(regions=regions, smoothing=0.0)
    assert torch.equal(plain(logits, target), smoothed(logits, target))
    assert not smoothed.is_adjusted
    assert VoxelLoss(regions=regions, smoothing=0.1).is_adjusted


@pytest.mark.parametrize("ignore_label", [4, -1])
def test_ignored_voxels_of_a_label_map_count_for_nothing(ignore_label):
    logits, target = drawn()
    target[:, :, 2] = ignore_label
    loss = VoxelLoss(regions=False, smoothing=0.2)(logits, target, ignore_label)
    loss.sum().backward()
    assert torch.equal(loss[:, 2], torch.zeros_like(loss[:, 2]))
    assert torch.equal(logits.grad[:, :, 2], torch.zeros_like(logits.grad[:, :, 2]))
    assert logits.grad.isfinite().all()
    others = [0, 1, 3, 4]
    expected = VoxelLoss(regions=False, smoothing=0.2)(logits[:, :, others], target[:, :, others])
    torch.testing.assert_close(loss[:, others], expected)


def test_ignored_voxels_of_regions_count_for_nothing():
    logits, target = drawn(regions=True)
    marks = torch.zeros_like(target[:, :1])
    marks[:, :, 1] = 1
    loss = VoxelLoss(regions=True, smoothing=0.2)(logits, torch.cat([target, marks], 1), 9)
    loss.sum().backward()
    assert not loss[:, :, 1].any()
    assert not logits.grad[:, :, 1].any()
    expected = VoxelLoss(regions=True, smoothing=0.2)(logits, target)
    torch.testing.assert_close(loss[:, :, 0], expected[:, :, 0])


def test_a_patch_of_ignored_voxels_alone_has_no_loss_and_no_nan():
    logits, target = drawn()
    loss = VoxelLoss(regions=False, smoothing=0.2)(logits, torch.full_like(target, 4), 4)
    loss.sum().backward()
    assert not loss.any()
    assert not logits.grad.any()


def test_smoothing_is_of_the_adjusted_logits():
    logits, target = drawn(3)
    shares = (0.7, 0.2, 0.1)
    adjusted = VoxelLoss(regions=False, shares=shares, tau=1.0, smoothing=0.2)(logits, target)
    shifted = logits + torch.tensor(shares).log().view(1, 3, 1, 1)
    torch.testing.assert_close(adjusted, VoxelLoss(regions=False, smoothing=0.2)(shifted, target))


@pytest.mark.parametrize("batch_dice", [False, True])
def test_the_dice_is_on_hard_labels(batch_dice):
    logits, target = drawn(3)
    smoothed, plain = (
        DiceCELoss(batch_dice=batch_dice, do_bg=False, voxel_loss=VoxelLoss(regions=False, smoothing=a))(logits, target)
        for a in (0.2, 0.0)
    )
    ones = torch.ones(2)
    difference = [(loss.cross_entropy / loss.n_voxels).mean() for loss in (smoothed, plain)]
    torch.testing.assert_close(
        (smoothed.weighted(ones) - plain.weighted(ones)).float(), (difference[0] - difference[1]).float()
    )
    for name in ("intersection", "predicted", "reference"):
        assert torch.equal(getattr(smoothed, name), getattr(plain, name))


@pytest.mark.parametrize("value", [-0.1, 0.51, math.nan])
def test_a_smoothing_out_of_range_is_refused(value):
    with pytest.raises(ValueError, match=r"`smoothing` must be a number in \[0, 0.5\]"):
        VoxelLoss(regions=False, smoothing=value)


def test_a_polynomial_tail_has_no_smoothed_form():
    with pytest.raises(ValueError, match="`smoothing` must be 0 with a polynomial tail"):
        VoxelLoss(regions=False, alpha=1.0, smoothing=0.1)
