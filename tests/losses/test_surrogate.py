import pytest
import torch

from nnunet_dro.losses import (
    DiceCELoss,
    VoxelLoss,
    cross_entropies,
    mean_squared_distance,
    surrogate,
)


@pytest.mark.parametrize("ignores", [False, True])
@pytest.mark.parametrize("regions", [False, True])
def test_cross_entropies_are_the_loss_without_its_dice(regions, ignores):
    torch.manual_seed(0)
    loss = DiceCELoss(
        regions=regions, batch_dice=False, do_bg=regions, ignore_label=2 if ignores else None, weight_ce=0.7,
        weight_dice=0.0, scale_weights=(0.6, 0.4, 0.0), voxel_loss=VoxelLoss(regions=regions, smoothing=0.1),
    )  # fmt: skip
    outputs = [torch.randn(3, 2, n, n, requires_grad=True) for n in (8, 4, 2)]
    n_channels = 2 + ignores if regions else 1
    targets = [
        torch.randint(0, 2 if regions else 2 + ignores, (3, n_channels, n, n)) for n in (8, 4, 2)
    ]
    targets[0][1] = (
        1 if regions else 2 * ignores
    )  # nothing but voxels to ignore, where there are such
    expected = loss(outputs, targets).losses

    result = cross_entropies(loss, outputs, targets)

    torch.testing.assert_close(result, expected)

    both = (torch.autograd.grad(losses.sum(), outputs[:2]) for losses in (result, expected))
    for mine, other in zip(*both, strict=True):
        torch.testing.assert_close(mine, other)


def test_one_output_is_no_list():
    logits = torch.randn(2, 3, 5)
    target = torch.randint(0, 3, (2, 1, 5))
    loss = DiceCELoss(batch_dice=True, do_bg=False)

    expected = torch.nn.functional.cross_entropy(logits, target[:, 0], reduction="none").mean(1)

    torch.testing.assert_close(cross_entropies(loss, logits, target), expected)


def plain_distance(features, original):
    return (features.float() - original.float()).flatten(2).square().sum(1).mean(1)


@pytest.mark.parametrize("chunk", [1, 70, 10**9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_distance_is_a_mean_over_voxels_with_its_gradient(monkeypatch, dtype, chunk):
    monkeypatch.setattr(surrogate, "_CHUNK", chunk)
    torch.manual_seed(0)
    original = torch.randn(3, 5, 4, 6).to(dtype)
    features = (original + torch.randn(3, 5, 4, 6)).to(dtype).requires_grad_()
    weights = torch.tensor([1.0, -2.0, 0.5])
    results = []

    for distance in (mean_squared_distance, plain_distance):
        value = distance(features, original)
        (gradient,) = torch.autograd.grad((weights * value).sum(), features)
        assert value.dtype == torch.float32
        assert gradient.dtype == dtype
        results.append((value, gradient))

    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_numbers_whose_squares_half_precision_cannot_hold():
    features = torch.full((1, 2, 3), 300.0, dtype=torch.float16)
    assert mean_squared_distance(features, -features).item() == 2 * 600.0**2
