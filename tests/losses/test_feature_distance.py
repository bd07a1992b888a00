import pytest
import torch

from nnunet_dro.losses import feature_distance, mean_squared_distance


def plain(features, original):
    return (features.float() - original.float()).flatten(2).square().sum(1).mean(1)


@pytest.mark.parametrize("chunk", [1, 70, 10**9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_it_is_the_mean_over_voxels_with_its_gradient(monkeypatch, dtype, chunk):
    monkeypatch.setattr(feature_distance, "_CHUNK", chunk)
    torch.manual_seed(0)
    original = torch.randn(3, 5, 4, 6).to(dtype)
    features = (original + torch.randn(3, 5, 4, 6)).to(dtype).requires_grad_()
    weights = torch.tensor([1.0, -2.0, 0.5])
    results = []
    for distance in (mean_squared_distance, plain):
        value = distance(features, original)
        (gradient,) = torch.autograd.grad((weights * value).sum(), features)
        assert value.dtype == torch.float32
        assert gradient.dtype == dtype
        results.append((value, gradient))
    torch.testing.assert_close(results[0], results[1], rtol=1e-5, atol=1e-6)


def test_numbers_whose_squares_half_precision_cannot_hold():
    features = torch.full((1, 2, 3), 300.0, dtype=torch.float16)
    assert mean_squared_distance(features, -features).item() == 2 * 600.0**2
