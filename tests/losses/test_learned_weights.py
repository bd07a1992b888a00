"""Weights learnt from trusted cases are those of Ren et al. 2018, Algorithm 1, and the network
stays what it was."""

import copy
import sys

import pytest
import torch
from dynamic_network_architectures.architectures.unet import PlainConvUNet
from torch import distributed as dist
from torch import multiprocessing as mp
from torch import nn
from torch.nn import functional as F  # noqa: N812

from nnunet_dro.losses import CaseByCaseLoss, DiceCELoss, LearnedWeights
from tests.nnunet_project import run_module

WAYS = pytest.mark.parametrize("at_once", [False, True], ids=["case by case", "at once"])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def unet(dimensions=3, *, deep_supervision=True):
    convolution, norm = {2: (nn.Conv2d, nn.InstanceNorm2d), 3: (nn.Conv3d, nn.InstanceNorm3d)}[
        dimensions
    ]
    settings = {"conv_bias": True, "norm_op": norm, "norm_op_kwargs": {"eps": 1e-5, "affine": True}}
    settings |= {
        "nonlin": nn.LeakyReLU,
        "nonlin_kwargs": {"inplace": True},
        "deep_supervision": deep_supervision,
    }
    return PlainConvUNet(
        2, 3, [4, 6, 8], convolution, 3, [1, 2, 2], [1, 1, 1], 3, [1, 1], **settings
    )


LOSSES = {
    "labels": DiceCELoss(batch_dice=False, do_bg=False, scale_weights=(2 / 3, 1 / 3)),
    "batch Dice": DiceCELoss(batch_dice=True, do_bg=False, scale_weights=(2 / 3, 1 / 3)),
    "ignore": DiceCELoss(
        batch_dice=False, do_bg=False, scale_weights=(2 / 3, 1 / 3), ignore_label=2
    ),
    "regions": DiceCELoss(batch_dice=False, do_bg=True, regions=True, scale_weights=(2 / 3, 1 / 3)),
}


def batch(n_cases, dimensions=3, kind="labels"):
    data = torch.randn(n_cases, 2, *[8] * dimensions)
    channels = 3 if kind == "regions" else 1
    largest = 2 if kind == "regions" else 3
    return data, [
        torch.randint(0, largest, (n_cases, channels, *[8 >> k] * dimensions)) for k in range(2)
    ]


def learned(network, loss, **settings):
    return LearnedWeights(network, lambda output, target: loss(output, target).losses, **settings)


def look_ahead_weights(network, loss, cases, trusted, step=0.7):
    """Algorithm 1 as it stands: a step with weights epsilon, and the derivative of the trusted loss
    by them."""
    parameters = dict(network.named_parameters())
    epsilon = torch.zeros(len(cases[0]), requires_grad=True)
    total = (epsilon * loss(network(cases[0]), cases[1]).losses).sum()
    gradients = torch.autograd.grad(
        total, list(parameters.values()), create_graph=True, allow_unused=True
    )
    ahead = copy.deepcopy(network)
    moved = {
        id(own): parameter if gradient is None else parameter - step * gradient
        for (name, parameter), gradient, own in zip(
            parameters.items(), gradients, ahead.parameters(), strict=True
        )
    }
    for module in ahead.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[name] = moved[id(parameter)]
    trusted_loss = loss(ahead(trusted[0]), trusted[1]).losses.mean()
    (slope,) = torch.autograd.grad(trusted_loss, epsilon)
    weights = (-slope).clamp_min(0)
    return weights / weights.sum() if weights.sum() > 0 else weights


@WAYS
@pytest.mark.parametrize("kind", list(LOSSES))
@pytest.mark.parametrize("dimensions", [2, 3])
def test_weights_are_those_of_the_look_ahead_step(dimensions, kind, at_once):
    """Ren et al. 2018, Algorithm 1 with the second derivative, instance norm and deep supervision
    included."""
    network = unet(dimensions)
    loss = LOSSES[kind]
    cases = batch(5, dimensions, kind)
    trusted = batch(3, dimensions, kind)
    expected = look_ahead_weights(network, loss, cases, trusted)

    found = learned(network, loss, at_once=at_once).gradient(cases, trusted)

    assert expected.std() > 0.01, "otherwise there is nothing to find"
    torch.testing.assert_close(found.weights, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(
        found.losses, loss(network(cases[0]), cases[1]).losses.detach(), rtol=1e-5, atol=1e-6
    )


@WAYS
def test_the_gradient_is_that_of_the_weighted_losses(at_once):
    network = unet()
    loss = LOSSES["labels"]
    cases = batch(4)
    learner = learned(network, loss, at_once=at_once)

    found = learner.gradient(cases, batch(2))

    assert all(parameter.grad is None for parameter in network.parameters()), (
        "nothing is written before `write`"
    )

    found.write()
    mine = [parameter.grad for parameter in network.parameters()]
    network.zero_grad()
    (found.weights * loss(network(cases[0]), cases[1]).losses).sum().backward()

    for gradient, parameter in zip(mine, network.parameters(), strict=True):
        if parameter.grad is None:
            assert gradient is None, (
                "an output that deep supervision does not look at gets no weight decay either"
            )
        else:
            torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-7)


class Line(nn.Module):
    """A linear model whose gradients can be read off."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))

    def forward(self, data):
        return data @ self.weight


def slope(output, target):
    return output * target


@WAYS
def test_cases_against_the_trusted_ones_weigh_nothing(at_once):
    network = Line()
    data = torch.tensor([[2.0, 0.0], [1.0, 5.0], [-1.0, 3.0], [0.0, 1.0]])
    trusted = (torch.tensor([[1.0, 0.0]]), torch.ones(1))

    found = LearnedWeights(network, slope, at_once=at_once).gradient((data, torch.ones(4)), trusted)

    torch.testing.assert_close(found.weights, torch.tensor([2 / 3, 1 / 3, 0.0, 0.0]))
    torch.testing.assert_close(found.gradient, torch.tensor([2 / 3 * 2 + 1 / 3, 5 / 3]))


@WAYS
def test_no_case_that_helps_is_no_step(at_once):
    network = Line()
    trusted = (torch.tensor([[1.0, 0.0]]), torch.ones(1))
    cases = (torch.tensor([[-1.0, 0.0], [-2.0, 1.0]]), torch.ones(2))

    found = LearnedWeights(network, slope, at_once=at_once).gradient(cases, trusted)

    assert found.total == 0
    assert found.weights.tolist() == [0, 0]
    assert found.gradient.tolist() == [0, 0]

    nothing_to_learn = (torch.zeros(1, 2), torch.ones(1))
    found = LearnedWeights(network, slope, at_once=at_once).gradient(cases, nothing_to_learn)

    assert found.total == 0
    assert torch.isfinite(found.gradient).all()


@WAYS
def test_the_scale_of_the_loss_cancels_in_the_weights_alone(at_once):
    network = unet(2)
    loss = LOSSES["labels"]
    cases = batch(3, 2)
    trusted = batch(2, 2)
    plain = learned(network, loss, at_once=at_once).gradient(cases, trusted)

    scaled = learned(network, loss, at_once=at_once, scale=lambda value: value * 2.0**16).gradient(
        cases, trusted
    )

    torch.testing.assert_close(scaled.weights, plain.weights, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(scaled.gradient, plain.gradient * 2**16, rtol=1e-3, atol=1e-1)


@WAYS
def test_half_precision_finds_nearly_the_same_weights(at_once):
    network = unet(2)
    loss = LOSSES["labels"]
    cases = batch(6, 2)
    trusted = batch(4, 2)
    exact = learned(network, loss).gradient(cases, trusted)
    settings = {"autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16), "at_once": at_once}

    half = learned(network, loss, **settings).gradient(cases, trusted)

    assert half.gradient.dtype == torch.float32
    torch.testing.assert_close(half.weights, exact.weights, rtol=0.1, atol=0.02)


@WAYS
def test_a_gradient_that_is_not_finite_is_told(at_once):
    network = unet(2)
    loss = LOSSES["labels"]
    overflow = {"at_once": at_once, "scale": lambda value: value * torch.tensor(float("inf"))}

    found = learned(network, loss, **overflow).gradient(batch(3, 2), batch(2, 2))

    assert not torch.isfinite(found.total)
    assert found.weights.isnan().all()
    assert found.gradient.isnan().all(), "so that a gradient scaler skips the step"


@WAYS
def test_the_network_stays_what_it_was(at_once):
    """Its parameters under all names, for nnU-Net's networks have sub-modules under two; frozen
    ones stay frozen."""
    network = unet()
    loss = LOSSES["labels"]
    frozen = next(network.parameters())
    frozen.requires_grad_(False)

    def state():
        return [
            (
                id(module),
                name,
                id(parameter),
                type(parameter),
                getattr(parameter, "requires_grad", None),
            )
            for module in network.modules()
            for name, parameter in module._parameters.items()
        ]

    before = state()
    values = {name: value.clone() for name, value in network.state_dict().items()}

    found = learned(network, loss, at_once=at_once).gradient(batch(3), batch(2))

    assert all(parameter is not frozen for parameter in found.parameters)
    assert state() == before
    assert all(type(parameter) is nn.Parameter for parameter in network.parameters())
    for name, value in network.state_dict().items():
        assert torch.equal(value, values[name])

    class StopHereError(Exception):
        pass

    def interrupt(*_):
        raise StopHereError

    hook = network.decoder.seg_layers[-1].register_forward_pre_hook(interrupt)

    with pytest.raises(StopHereError):
        learned(network, loss, at_once=at_once).gradient(batch(3), batch(2))

    hook.remove()
    assert state() == before


class OneWay(torch.autograd.Function):
    """Twice its argument, without a forward-mode derivative."""

    @staticmethod
    def forward(ctx, values):
        return values * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_at_once_works_with_any_loss():
    """Forward-mode differentiation ends at the outputs: a loss needs a backward pass alone."""

    class Loss(nn.Module):
        def forward(self, output, target):
            return F.cross_entropy(OneWay.apply(output), target[:, 0])

    network = unet(2, deep_supervision=False)
    loss = CaseByCaseLoss(Loss())
    (data, targets), (trusted, trusted_targets) = batch(4, 2), batch(2, 2)

    both = [
        learned(network, loss, at_once=at_once).gradient(
            (data, targets[0]), (trusted, trusted_targets[0])
        )
        for at_once in (False, True)
    ]

    torch.testing.assert_close(both[0].weights, both[1].weights, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(both[0].gradient, both[1].gradient, rtol=1e-4, atol=1e-6)


def test_a_network_without_forward_derivatives_is_seen_case_by_case():
    class Network(Line):
        def forward(self, data):
            return OneWay.apply(super().forward(data))

    cases = (torch.randn(4, 2), torch.ones(4))
    trusted = (torch.randn(2, 2), torch.ones(2))
    network = Network()
    learner = LearnedWeights(network, slope, at_once=True)

    found = learner.gradient(cases, trusted)

    assert not learner.at_once
    assert learner.not_at_once
    assert type(network.weight) is nn.Parameter
    torch.testing.assert_close(
        found.weights, LearnedWeights(network, slope).gradient(cases, trusted).weights
    )


def _rank(rank, folder):
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    torch.set_num_threads(1)
    network, cases, trusted = _scene()
    part, trusted_part = (slice(0, 3), slice(0, 1)) if rank == 0 else (slice(3, 5), slice(1, 2))
    for at_once in (False, True):
        learner = learned(
            network, LOSSES["labels"], at_once=at_once, sum_over_ranks=dist.all_reduce
        )
        found = learner.gradient(_part(cases, part), _part(trusted, trusted_part))
        torch.save((found.weights, found.gradient, found.total), f"{folder}/{rank}_{at_once}.pth")
    # A rank that leaves while the other still exchanges can abort it, or be aborted.
    dist.barrier()
    dist.destroy_process_group()


def _scene():
    torch.manual_seed(3)
    return unet(2), batch(5, 2), batch(2, 2)


def _part(cases, part):
    return cases[0][part], [target[part] for target in cases[1]]


def test_two_ranks_find_what_one_finds(tmp_path):
    run_module("tests.losses.test_learned_weights", tmp_path)
    network, cases, trusted = _scene()
    for at_once in (False, True):
        ranks = [torch.load(tmp_path / f"{rank}_{at_once}.pth") for rank in range(2)]
        single = learned(network, LOSSES["labels"], at_once=at_once).gradient(cases, trusted)
        torch.testing.assert_close(
            torch.cat([rank[0] for rank in ranks]), single.weights, rtol=1e-4, atol=1e-6
        )
        for rank in ranks:
            torch.testing.assert_close(rank[1], single.gradient, rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(rank[2], single.total, rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    mp.start_processes(_rank, args=sys.argv[1:], nprocs=2, start_method="fork")
