"""The inner maximisation: x <- x + eta grad { l - gamma/2 ||z - z_0||^2 }, on small networks."""

from itertools import pairwise

import pytest
import torch
from dynamic_network_architectures.architectures.unet import PlainConvUNet, ResidualEncoderUNet
from torch import nn
from torch.nn import functional as F  # noqa: N812

from nnunet_dro.trainers.gils.perturbation import Ascent, ascend, bare, find_features_module


def small_network(seed=0):
    torch.manual_seed(seed)
    first = nn.Conv2d(1, 6, 3, padding=1)
    return nn.Sequential(
        first, nn.InstanceNorm2d(6, affine=True), nn.LeakyReLU(), nn.Conv2d(6, 3, 1)
    )


def linear_network(n_channels=2, n_features=4, n_classes=3):
    """Features and logits are linear in the image, voxel by voxel."""
    torch.manual_seed(0)
    sizes = ((n_channels, n_features), (n_features, n_classes))
    return nn.Sequential(*(nn.Conv2d(*pair, 1, bias=False) for pair in sizes))


def batch(n_channels=1, shape=(3, 8, 10)):
    generator = torch.Generator().manual_seed(1)
    n_cases, *spatial = shape
    data = torch.randn(n_cases, n_channels, *spatial, generator=generator)
    return data, torch.randint(0, 3, (n_cases, *spatial), generator=generator)


def mean_cross_entropy(target):
    return lambda output: F.cross_entropy(output, target, reduction="none").flatten(1).mean(1)


def ascended(network, data, target, *, n_channels=None, **settings):
    losses = mean_cross_entropy(target)
    return ascend(network, network[-1], data, losses, Ascent(**settings), n_channels=n_channels)


def surrogates(network, data, original, target, gamma):
    """The formula, written without the code under test."""
    z = network[:-1](data)
    z0 = network[:-1](original)
    return mean_cross_entropy(target)(network[-1](z)) - gamma / 2 * (z - z0).square().sum(1).mean(
        (1, 2)
    )


def test_no_step_leaves_the_batch_and_its_loss():
    network, (data, target) = small_network(), batch()
    done = ascended(network, data, target, steps=0, eta=1.0, gamma=1e-3)

    assert torch.equal(done.data, data)
    assert not done.change.any()
    assert not done.feature_distance.any()
    torch.testing.assert_close(
        done.surrogate_before, mean_cross_entropy(target)(network(data)).detach()
    )
    assert torch.equal(done.surrogate_after, done.surrogate_before)

    done = ascended(network, data, target, steps=15, eta=1.0, gamma=1e12)
    assert float((done.data - data).abs().max()) < 1e-6

    free = ascended(network, data, target, steps=15, eta=1.0, gamma=0.0)
    assert (free.change > 0.1).all()


def test_steps_follow_the_formula():
    network, (data, target) = small_network(), batch()
    eta = 0.05
    gamma = 0.3
    x = data.clone()
    for _ in range(3):
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(surrogates(network, x, data, target, gamma).sum(), x)
        x = x + eta * 80 * gradient

    done = ascended(network, data, target, steps=3, eta=eta, gamma=gamma)

    assert not done.n_rejected.any()
    torch.testing.assert_close(done.data, x.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(done.change, (done.data - data).square().mean((1, 2, 3)).sqrt())

    distance = (network[:-1](x) - network[:-1](data)).square().sum(1).mean((1, 2)).sqrt().detach()
    torch.testing.assert_close(done.feature_distance, distance, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cap", [None, 0.1])
@pytest.mark.parametrize("gamma", [0.0, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize("eta", [0.01, 1.0, 100.0, 1e6])
def test_the_ascent_increases_the_surrogate_with_every_step(eta, gamma, cap):
    network, (data, target) = small_network(), batch()
    values = []
    settings = {"eta": eta, "gamma": gamma, "largest_change": cap}

    for steps in range(7):
        done = ascended(network, data, target, steps=steps, **settings)
        values.append(done.surrogate_after)
        independent = surrogates(network, done.data, data, target, gamma).detach()
        torch.testing.assert_close(done.surrogate_after, independent, rtol=1e-4, atol=1e-4)

    assert all((new >= old).all() for old, new in pairwise(values))
    if eta <= 1 and gamma <= 1:
        assert (values[-1] > values[0] + 0.001).all()
    if cap and eta == 1:
        assert (values[-1] > values[1] + 1e-4).all(), "it moves on along the bound"


@pytest.mark.parametrize("gamma", [0.5, 5.0, 50.0])
@pytest.mark.parametrize(("eta", "steps"), [(1.0, 5), (0.2, 300)])
def test_linear_features_move_by_three_lipschitz_constants_over_gamma(eta, steps, gamma):
    network, (data, target) = linear_network(), batch(2)
    # The gradient of a voxel's cross-entropy by its features is W^T (p - y), and ||p - y|| <=
    # sqrt(2).
    lipschitz = 2**0.5 * float(torch.linalg.matrix_norm(network[1].weight.detach()[:, :, 0, 0], 2))
    done = ascended(network, data, target, steps=steps, eta=eta, gamma=gamma)

    distance = (network[0](done.data) - network[0](data)).square().sum(1).mean((1, 2)).sqrt()

    assert (distance <= 3 * lipschitz / gamma).all()
    assert (distance <= 2 * lipschitz / gamma * 1.0001).all()
    if steps > 100:
        assert (distance > 0.1 * lipschitz / gamma).all(), "the bound is not met by standing still"


def test_plain_steps_would_break_the_bound():
    """What taking steps back is for: eta gamma times the curvature of the distance is above 2 here."""
    network, (data, target) = linear_network(), batch(2)
    eta = 1.0
    gamma = 50.0
    x = data.clone()

    for _ in range(15):
        x = x.detach().requires_grad_()
        x = (
            x
            + eta
            * 80
            * torch.autograd.grad(surrogates(network, x, data, target, gamma).sum(), x)[0]
        )

    assert float((x.detach() - data).abs().max()) > 1e6

    done = ascended(network, data, target, steps=15, eta=eta, gamma=gamma)
    assert done.n_rejected.any()
    assert float(done.change.max()) < 1


def test_a_linear_loss_ends_at_its_closed_form():
    """l = <g, z> and z = x: the maximum of l - gamma/2 ||z - z_0||^2 is at x_0 + g / gamma, from
    any start."""
    data = batch(2)[0]
    network = nn.Sequential(nn.Identity(), nn.Identity())
    g = torch.tensor([0.6, -0.8])
    gamma = 4.0
    losses = lambda output: (output * g.view(1, 2, 1, 1)).sum(1).mean((1, 2))  # noqa: E731

    done = ascend(network, network[1], data, losses, Ascent(steps=60, eta=0.1, gamma=gamma))

    torch.testing.assert_close(done.data, data + g.view(1, 2, 1, 1) / gamma, rtol=0, atol=3e-4)
    torch.testing.assert_close(
        done.feature_distance, torch.full((3,), 1 / gamma), rtol=1e-3, atol=0
    )

    gain = done.surrogate_after - done.surrogate_before
    torch.testing.assert_close(gain, torch.full((3,), 0.5 / gamma), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("tiling", [(1, 1, 2), (1, 2, 2), (1, 4, 3)])
def test_the_size_of_the_patch_does_not_matter(tiling):
    network, (data, target) = linear_network(), batch(2)
    settings = {"steps": 4, "eta": 0.3, "gamma": 0.5}
    small = ascended(network, data, target, **settings)

    large = ascended(network, data.repeat(1, *tiling), target.repeat(tiling), **settings)

    torch.testing.assert_close(large.data, small.data.repeat(1, *tiling), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(large.change, small.change, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(large.feature_distance, small.feature_distance, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n_channels", [None, 1])
@pytest.mark.parametrize("eta", [0.01, 1.0, 100.0])
def test_a_cap_bounds_the_change_in_standard_deviations_of_the_image(eta, n_channels):
    network, (data, target) = linear_network(), batch(2)
    data = data * torch.tensor([0.1, 1.0, 10.0]).view(3, 1, 1, 1) + 5
    settings = {"steps": 6, "eta": eta, "gamma": 0.1, "n_channels": n_channels}
    free = ascended(network, data, target, **settings)
    deviation = data[:, :n_channels].var((2, 3), correction=0).mean(1).sqrt()

    for cap in (1e-3, 0.05, 0.5):
        done = ascended(network, data, target, **settings, largest_change=cap)
        assert (done.change <= cap * deviation * 1.001).all()
        assert (done.surrogate_after >= done.surrogate_before).all()
        is_far = free.change > 3 * cap * deviation
        assert (done.change > 0.5 * cap * deviation)[is_far].all(), (
            "what would go far goes to the bound"
        )

    assert is_far.any() or eta < 1

    unbound = ascended(network, data, target, **settings, largest_change=1e6)
    torch.testing.assert_close(unbound.data, free.data)


def test_voxels_cases_and_channels_move_by_themselves():
    """With an ignore label the loss is a mean over fewer voxels, and the step stays that of the
    voxel."""
    network, (data, target) = linear_network(), batch(2)
    settings = {"steps": 3, "eta": 0.3, "gamma": 0.5}
    full = ascended(network, data, target, **settings)
    few = target.clone()
    few[:, 2:] = -100

    def annotated(output):
        return F.cross_entropy(output, few, reduction="none").flatten(1).sum(1) / 20

    n_voxels = torch.tensor([20, 20, 20])
    done = ascend(network, network[-1], data, annotated, Ascent(**settings), n_voxels=n_voxels)

    torch.testing.assert_close(done.data[:, :, :2], full.data[:, :, :2], rtol=1e-4, atol=1e-5)
    assert torch.equal(done.data[:, :, 2:], data[:, :, 2:])

    data[1] = 3.0
    done = ascended(network, data, target, steps=3, eta=0.3, gamma=0.1, largest_change=0.2)

    assert torch.equal(done.data[1], data[1])
    assert (done.change[[0, 2]] > 0).all()
    assert not done.is_non_finite.any()

    alone = ascended(network, data, target, steps=3, eta=0.3, gamma=0.1)
    data[1, 0, 0, 0] = float("nan")
    done = ascended(network, data, target, steps=3, eta=0.3, gamma=0.1)

    assert done.is_non_finite.tolist() == [False, True, False]
    assert torch.equal(done.data[[0, 2]], alone.data[[0, 2]])
    assert torch.equal(done.data[1].nan_to_num(7), data[1].nan_to_num(7))

    network, (data, target) = linear_network(3), batch(3)
    done = ascended(network, data, target, steps=3, eta=0.3, gamma=0.1, n_channels=1)

    assert torch.equal(done.data[:, 1:], data[:, 1:])
    torch.testing.assert_close(done.change, (done.data - data)[:, 0].square().mean((1, 2)).sqrt())
    assert (done.change > 0).all()


def test_a_case_moves_by_itself_and_the_same_each_time():
    torch.manual_seed(0)
    noisy = (nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout2d(0.5))
    network = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), *noisy, nn.Conv2d(6, 3, 1))
    data, target = batch()

    runs = [ascended(network, data, target, steps=4, eta=0.5, gamma=0.1) for _ in range(2)]

    assert torch.equal(runs[0].data, runs[1].data)

    for i in range(3):
        alone = ascended(network, data[i : i + 1], target[i : i + 1], steps=4, eta=0.5, gamma=0.1)
        torch.testing.assert_close(alone.data[0], runs[0].data[i], rtol=1e-4, atol=1e-5)


class BrokenError(RuntimeError):
    pass


@pytest.mark.parametrize("fails", [False, True])
def test_the_network_is_left_as_it_was(fails):
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Dropout(0.5), nn.ReLU())
    network = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), inner, nn.Conv2d(6, 3, 1))
    network.train()
    network[2].eval()
    network[0].bias.requires_grad_(False)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    parameters = list(network.parameters())
    wants = [p.requires_grad for p in parameters]
    modes = [m.training for m in network.modules()]
    data, target = batch()
    seen = []

    def losses(output):
        seen.append(any(p.requires_grad for p in network.parameters()))
        if fails and len(seen) == 2:
            raise BrokenError
        return mean_cross_entropy(target[:, 1:-1, 1:-1])(output)

    try:
        ascend(network, network[-1], data, losses, Ascent(steps=2, eta=0.5, gamma=0.1))
    except BrokenError:
        assert fails

    assert seen == [False] * (2 if fails else 3), "parameters take no gradient during the ascent"
    assert all(new is old for new, old in zip(network.parameters(), parameters, strict=True))
    assert [p.requires_grad for p in network.parameters()] == wants
    assert [m.training for m in network.modules()] == modes
    assert all(p.grad is None for p in parameters)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    assert not any(m._forward_pre_hooks for m in network.modules())
    assert not data.requires_grad


@pytest.mark.parametrize("explosion", [torch.exp, torch.log, lambda v: v / (v < 30)])
def test_a_loss_that_explodes_leaves_finite_images(explosion):
    network, (data, _) = linear_network(), batch(2)
    data[0] = data[0].abs() + 5
    data[1:] *= 1e-3

    def losses(output):
        return explosion(output.square().sum(1).mean((1, 2)).square() + 1e-6)

    done = ascend(network, network[-1], data, losses, Ascent(steps=10, eta=1e4, gamma=0.0))

    assert done.data.isfinite().all()
    assert losses(network(done.data)).isfinite()[1:].all()

    start = losses(network(data))
    if not start[0].isfinite():
        assert done.is_non_finite[0]
        assert torch.equal(done.data[0], data[0])


class InHalf(nn.Module):
    """Convolutions in half precision, as autocast has them on a GPU."""

    def __init__(self, first, last):
        super().__init__()
        self.first, self.last = first, last

    def forward(self, x):
        return self.last(self.first(x.half()))


def test_gradients_do_not_underflow_in_half_precision():
    """The gradient of a mean over a patch of 512 x 512 voxels is below what half precision can
    hold."""
    network = linear_network(1)
    data, target = batch(1, (1, 512, 512))
    half = InHalf(nn.Conv2d(1, 4, 1, bias=False), nn.Conv2d(4, 3, 1, bias=False))
    with torch.no_grad():
        half.first.weight.copy_(network[0].weight)
        half.last.weight.copy_(1e-2 * network[1].weight)
        network[1].weight.mul_(1e-2)
    half.half()
    settings = {"steps": 1, "eta": 50.0, "gamma": 0.0}
    losses = lambda output: mean_cross_entropy(target)(output.float())  # noqa: E731
    done = ascend(half, half.last, data, losses, Ascent(**settings))

    exact = ascended(network, data, target, **settings)

    assert float(exact.change) > 0.01
    torch.testing.assert_close(done.data - data, exact.data - data, rtol=0.05, atol=2e-3)

    x = data.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(mean_cross_entropy(target)(half(x).float()).sum(), x)

    assert float((gradient == 0).float().mean()) > 0.5, "without the scale most of it is lost"


@pytest.mark.parametrize("deep_supervision", [True, False])
@pytest.mark.parametrize(
    ("kind", "blocks"),
    [(PlainConvUNet, "n_conv_per_stage"), (ResidualEncoderUNet, "n_blocks_per_stage")],
)
def test_the_features_of_nnunets_networks_are_those_of_full_resolution(
    kind, blocks, deep_supervision
):
    network = kind(
        1, 3, [4, 8, 16], nn.Conv2d, 3, [1, 2, 2], **{blocks: 1}, num_classes=3, n_conv_per_stage_decoder=1,
        norm_op=nn.InstanceNorm2d, nonlin=nn.ReLU, deep_supervision=deep_supervision,
    )  # fmt: skip
    module = find_features_module(network, "")
    seen = []
    module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape))

    output = network(torch.zeros(1, 1, 16, 16))

    assert seen == [(1, 4, 16, 16)]

    finest = output[0] if deep_supervision else output
    assert finest.shape == (1, 3, 16, 16)


def test_features_of_other_networks_are_found_by_name():
    network = nn.ModuleDict(
        {"body": nn.Conv2d(1, 2, 1), "head": nn.Sequential(nn.ReLU(), nn.Conv2d(2, 3, 1))}
    )
    assert find_features_module(network, "head.1") is network["head"][1]

    known = r"The last ones are: body, head, head.0, head.1\."
    with pytest.raises(ValueError, match=rf"got 'head.2'.*set `features_module`.*{known}"):
        find_features_module(network, "head.2")
    with pytest.raises(
        ValueError, match=r"ModuleDict has no `decoder.seg_layers`.*set `features_module`"
    ):
        find_features_module(network, "")

    network, (data, target) = small_network(), batch()
    with pytest.raises(
        ValueError,
        match=r"`features_module` must be a module that the network calls .* does not call",
    ):
        ascend(
            network,
            nn.Conv2d(1, 1, 1),
            data,
            mean_cross_entropy(target),
            Ascent(steps=1, eta=1.0, gamma=0.0),
        )


def test_wrappers_are_taken_off(tmp_path):
    network, (data, target) = small_network(), batch()
    assert bare(network) is network
    assert bare(torch.compile(network)) is network

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1
    )
    try:
        wrapped = nn.parallel.DistributedDataParallel(network)
        assert bare(wrapped) is network
        ascend(
            bare(wrapped),
            network[-1],
            data,
            mean_cross_entropy(target),
            Ascent(steps=1, eta=0.1, gamma=0.0),
        )
        for _ in range(2):  # the second raises if the first did not reach every parameter
            mean_cross_entropy(target)(wrapped(data)).mean().backward()
        assert all(p.grad is not None and p.grad.any() for p in network.parameters() if p.ndim > 1)
    finally:
        torch.distributed.destroy_process_group()
