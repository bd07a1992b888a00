"""The adjusted cross-entropy: what its papers claim, then its formulas voxel by voxel."""

import itertools
import math

import pytest
import torch
from scipy.stats import norm
from torch.nn import functional as F  # noqa: N812

from nnunet_dro.losses import VoxelLoss
from nnunet_dro.losses.voxel_loss import polynomially_tailed

SHARES = (0.9, 0.07, 0.03)
VALUES = itertools.product((0.0, 1.0, 0.7), (0.0, 0.2), (None, 1.0, 3.5))
ADJUSTMENTS = [{"tau": tau, "gamma": gamma, "alpha": alpha} for tau, gamma, alpha in VALUES]
ADJUSTMENTS += [
    {"tau": tau, "gamma": gamma, "smoothing": 0.3} for tau, gamma in ((0.0, 0.0), (0.7, 0.2))
]


@pytest.fixture(autouse=True)
def float64():
    """The formulas are compared in double precision."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


# What the papers claim


def fitted(features, target, *, n_outputs, **adjustment):
    """The linear classifier of least loss, as (n_outputs, features + 1); target is (n, 1) labels or
    regions."""
    inputs = torch.cat([features, torch.ones(len(features), 1)], 1)
    weights = torch.zeros(n_outputs, inputs.shape[1], requires_grad=True)
    loss = VoxelLoss(**adjustment)
    optimiser = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        value = loss((inputs @ weights.T)[..., None], target[..., None]).mean()
        value.backward()
        return value

    optimiser.step(closure)
    return weights.detach()


def two_gaussians(n=100_000, rare=0.02):
    """Means -1 (common) and 1 (rare), variance 1, at their quantiles: no error is smaller than at
    the threshold 0."""
    n_rare = round(rare * n)
    common = torch.from_numpy(norm.ppf((torch.arange(n - n_rare) + 0.5).numpy() / (n - n_rare))) - 1
    hard = torch.from_numpy(norm.ppf((torch.arange(n_rare) + 0.5).numpy() / n_rare)) + 1
    is_rare = torch.cat([torch.zeros(n - n_rare), torch.ones(n_rare)])
    return torch.cat([common, hard])[:, None], is_rare.long()[:, None]


def balanced_error(threshold):
    return (norm.sf(threshold + 1) + norm.cdf(threshold - 1)) / 2


@pytest.mark.parametrize("regions", [False, True])
def test_logit_adjustment_gives_the_classifier_of_least_balanced_error(regions):
    """Menon et al. 2021: the posterior odds of the balanced problem, where the plain ones are off
    by the prior odds."""
    features, target = two_gaussians()
    thresholds = {}

    for tau in (0.0, 1.0):
        settings = {"regions": regions, "tau": tau, "shares": (0.02,) if regions else (0.98, 0.02)}
        weights = fitted(features, target, n_outputs=1 if regions else 2, **settings)
        slope, intercept = weights[0] if regions else weights[1] - weights[0]
        thresholds[tau] = float(-intercept / slope)

    assert thresholds[0.0] == pytest.approx(math.log(49) / 2, abs=0.02)
    assert thresholds[1.0] == pytest.approx(0, abs=0.02)
    assert balanced_error(thresholds[1.0]) == pytest.approx(norm.cdf(-1), abs=1e-4)
    assert balanced_error(thresholds[0.0]) > 0.4


def test_logit_adjustment_balances_three_classes():
    """Each class is found as often as any other by the symmetry of their means, whatever their
    shares."""
    generator = torch.Generator().manual_seed(0)
    angles = 2 * math.pi * torch.arange(3) / 3
    means = 1.5 * torch.stack([angles.cos(), angles.sin()], 1)
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor([90_000, 7_000, 3_000]))
    features = means[labels] + torch.randn(len(labels), 2, generator=generator)
    test_labels = torch.repeat_interleave(torch.arange(3), 20_000)
    test_features = means[test_labels] + torch.randn(len(test_labels), 2, generator=generator)

    def recalls(weights):
        found = (torch.cat([test_features, torch.ones(len(test_labels), 1)], 1) @ weights.T).argmax(
            1
        ) == test_labels
        return found.view(3, -1).double().mean(1)

    nearest_mean = torch.cat([means, -means.square().sum(1, keepdim=True) / 2], 1)
    plain = recalls(fitted(features, labels[:, None], n_outputs=3, regions=False))
    adjusted = recalls(
        fitted(features, labels[:, None], n_outputs=3, regions=False, tau=1.0, shares=SHARES)
    )

    best = recalls(nearest_mean)

    assert plain[2] < 0.6
    assert plain[0] > 0.98
    torch.testing.assert_close(adjusted, best, atol=0.03, rtol=0)
    assert adjusted.mean() > best.mean() - 0.003


def separated_margins(weights, *, until, **adjustment):
    """Margins (rare, common) that gradient descent gives one point each at 1 (rare) and -1
    (common).

    Each step is 0.5 % of the margins, downhill: what gradient flow does in a time that no fixed
    rate reaches. Without a tail it must end before margins of 37, where the probability is 1 in
    double precision and the gradient 0.
    """
    loss = VoxelLoss(regions=True, **adjustment)
    inputs = torch.tensor([[1.0, 1.0], [-1.0, 1.0]])
    target = torch.tensor([[1.0], [0.0]])
    line = torch.tensor([1.0, 0.0], requires_grad=True)
    while line.norm() < until:
        voxelwise = loss((inputs @ line)[:, None, None], target[..., None]).flatten()
        (slope,) = torch.autograd.grad((torch.tensor(weights) * voxelwise).sum(), line)
        line = (line - 0.005 * line.norm() * slope / slope.norm()).detach().requires_grad_()
    rare, common = (inputs @ line.detach() * torch.tensor([1.0, -1.0])).tolist()
    return rare, common


def test_only_the_multiplicative_adjustment_moves_a_separated_boundary():
    """Kini et al. 2021: the margins of separated classes end in the ratio of the scales; shifts and
    weights fade."""
    ratio = (0.9 / 0.1) ** 0.5
    rare, common = separated_margins((1.0, 1.0), until=75, shares=(0.1,), gamma=0.5)

    # Gradient flow has rare = ratio (common - 2 log ratio) here: 2.8, on its way to 3.
    assert rare == pytest.approx(ratio * (common - 2 * math.log(ratio)), rel=0.02)
    assert rare / common > 2.7

    # A shift of log 9 on both sides, and a weight of 9: what they add to the margin is all they
    # ever add.
    for settings, difference in (
        ({"shares": (0.1,), "tau": 1.0}, math.log(9 * 81)),
        ({}, math.log(9)),
    ):
        for until in (15, 34):
            rare, common = separated_margins((9.0, 1.0), until=until, **settings)
            assert rare - common == pytest.approx(difference, abs=0.25)


def test_weights_go_on_to_matter_with_a_polynomial_tail():
    """Wang et al. 2022: w u^-alpha + v^-alpha, u and v the margins, is descended along u / v = w^(1
    / (alpha + 2)).

    The cross-entropy forgets its weights on the same data, as the test above says.
    """
    rare, common = separated_margins((16.0, 1.0), until=300, alpha=2.0)
    assert rare / common == pytest.approx(16 ** (1 / 4), rel=0.02)


# The formulas


def losses_one_by_one(logits, target, ignored, *, regions, tau, gamma, alpha=None, smoothing=0.0):
    """The loss of each voxel that takes part, as a dictionary by position, from the formulas of the
    papers."""
    losses = {}
    for position in itertools.product(*map(range, (len(logits), *logits.shape[2:]))):
        case = position[0]
        voxel = position[1:]
        if ignored[(case, 0, *voxel)]:
            continue
        values = [logits[(case, channel, *voxel)] for channel in range(logits.shape[1])]
        if regions:
            for channel, value in enumerate(values):
                is_inside = bool(target[(case, channel, *voxel)])
                share = SHARES[channel]
                scale = ((share if is_inside else 1 - share) / max(share, 1 - share)) ** gamma
                value = scale * value + tau * math.log(share / (1 - share))
                margin = value if is_inside else -value
                loss = (1 - smoothing) * of_margin(margin, alpha) + smoothing * of_margin(
                    -margin, alpha
                )
                losses[(case, channel, *voxel)] = loss
        else:
            values = [
                (share / max(SHARES)) ** gamma * value + tau * math.log(share)
                for share, value in zip(SHARES, values, strict=True)
            ]
            of_class = [
                of_margin(
                    value - sum(other.exp() for other in values if other is not value).log(), alpha
                )
                for value in values
            ]
            own = of_class.pop(int(target[(case, 0, *voxel)]))
            losses[(case, *voxel)] = (1 - smoothing) * own + smoothing * sum(of_class) / len(
                of_class
            )
    return losses


def of_margin(z, alpha):
    if alpha is None or z <= 0:
        return torch.log(1 + torch.exp(-z))
    return math.log(2) * (1 + z / (2 * alpha * math.log(2))) ** -alpha


def made_batch(regions, ignore, dimensions, dtype=torch.float64):
    """Logits, target, and which voxels are ignored."""
    generator = torch.Generator().manual_seed(dimensions)
    shape = (2, 3, 2, 2)[: dimensions + 1]
    logits = 3 * torch.randn(2, 3, *shape[1:], generator=generator)
    ignored = (
        torch.rand(2, 1, *shape[1:], generator=generator) < 0.3
        if ignore
        else torch.zeros(2, 1, *shape[1:]) > 0
    )
    if regions:
        target = torch.rand(logits.shape, generator=generator) < 0.4
        target = torch.cat([target, ignored], 1) if ignore else target
    else:
        target = (
            torch.randint(0, 3, ignored.shape, generator=generator)
            .masked_fill(ignored, 3)
            .to(torch.int16)
        )
    return logits.to(dtype).requires_grad_(), target, ignored


@pytest.mark.parametrize("adjustment", ADJUSTMENTS, ids=str)
@pytest.mark.parametrize(
    ("regions", "ignore", "dimensions"),
    # Every two of them, with every adjustment.
    [(False, False, 2), (False, True, 3), (True, False, 3), (True, True, 2)],
)
def test_every_voxel_is_as_the_formulas_say(regions, ignore, dimensions, adjustment):
    logits, target, ignored = made_batch(regions, ignore, dimensions)
    voxelwise = VoxelLoss(regions=regions, shares=SHARES, **adjustment)(
        logits, target, 3 if ignore else None
    )

    expected = losses_one_by_one(logits, target, ignored, regions=regions, **adjustment)

    assert voxelwise.shape == (logits.shape if regions else (len(logits), *logits.shape[2:]))
    assert 0 < len(expected) < voxelwise.numel() if ignore else len(expected) == voxelwise.numel()

    importance = torch.rand(voxelwise.shape, generator=torch.Generator().manual_seed(0))
    for position in itertools.product(*map(range, voxelwise.shape)):
        # The shares are kept in single precision, as the network's output is.
        loss = expected.get(position, torch.zeros(()))
        torch.testing.assert_close(
            voxelwise[position], loss, rtol=1e-6, atol=1e-7, check_dtype=False
        )
    (mine,) = torch.autograd.grad((importance * voxelwise).sum(), logits)
    (theirs,) = torch.autograd.grad(
        sum(importance[position] * loss for position, loss in expected.items()), logits
    )

    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)


def test_the_default_is_torchs_cross_entropy_to_the_last_bit():
    logits, target, _ = made_batch(False, False, 3, torch.float32)
    loss = VoxelLoss(regions=False, shares=SHARES)

    assert not loss.is_adjusted
    assert torch.equal(
        loss(logits, target), F.cross_entropy(logits, target[:, 0].long(), reduction="none")
    )

    logits, target, _ = made_batch(True, False, 3, torch.float32)
    expected = F.binary_cross_entropy_with_logits(logits, target.float(), reduction="none")

    assert torch.equal(VoxelLoss(regions=True)(logits, target), expected)


# The tail


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0, 100.0])
def test_tail_joins_smoothly(alpha):
    sides = torch.tensor([-1e-7, 0.0, 1e-7], requires_grad=True)
    values = polynomially_tailed(sides, alpha=alpha)

    (slopes,) = torch.autograd.grad(values.sum(), sides)

    torch.testing.assert_close(values, torch.full((3,), math.log(2)), atol=1e-7, rtol=0)
    torch.testing.assert_close(slopes, torch.full((3,), -0.5), atol=1e-6, rtol=0)


def test_misclassified_voxels_have_the_cross_entropy_whatever_the_tail():
    margins = torch.tensor([-800.0, -30.0, -2.0, -1e-3])
    expected = torch.log1p(margins.exp()) - margins

    for alpha in (0.5, 50.0):
        torch.testing.assert_close(
            polynomially_tailed(margins, alpha=alpha), expected, rtol=1e-14, atol=0
        )


@pytest.mark.parametrize("z", [0.1, 3.0, 40.0])
def test_tail_by_hand_and_its_exponential_limit(z):
    margin = torch.tensor(z)
    assert float(polynomially_tailed(margin, alpha=1.0)) == pytest.approx(
        math.log(2) / (1 + z / (2 * math.log(2)))
    )

    limit = math.log(2) * math.exp(-z / (2 * math.log(2)))
    assert float(polynomially_tailed(margin, alpha=1e9)) == pytest.approx(limit, rel=1e-5)
    assert float(polynomially_tailed(margin.float(), alpha=1e9)) == pytest.approx(limit, rel=1e-4)


def kept_for_the_gradient(loss, logits, target):
    """Bytes that autograd keeps between the passes, beside the logits and the target."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        value = loss(logits, target).mean()
    value.backward()
    return sum(
        n for place, n in kept.items() if place not in (logits.data_ptr(), target.data_ptr())
    )


@pytest.mark.parametrize("adjustment", [{}, {"tau": 1.0, "shares": SHARES}])
def test_the_tail_of_regions_keeps_no_more_memory_than_the_plain_loss(adjustment):
    logits = torch.randn(2, len(SHARES), 16, 16, dtype=torch.float32, requires_grad=True)
    target = torch.rand(2, len(SHARES), 16, 16) < 0.3
    plain = kept_for_the_gradient(VoxelLoss(regions=True, **adjustment), logits, target)

    tailed = kept_for_the_gradient(VoxelLoss(regions=True, alpha=1.0, **adjustment), logits, target)

    assert plain > 0
    assert tailed <= plain


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("regions", [False, True])
def test_a_margin_of_a_thousand_still_has_a_gradient(regions, dtype):
    """From the probability, which is 1 there, there would be none; the cross-entropy has none left."""
    values = [[1000.0], [-1000.0]] if regions else [[1000.0], [0.0]]
    logits = torch.tensor([values], dtype=dtype, requires_grad=True)
    target = torch.tensor([[[1], [0]]]) if regions else torch.zeros(1, 1, 1, dtype=torch.int16)
    tailed = VoxelLoss(regions=regions, alpha=1.0)(logits, target)
    (gradient,) = torch.autograd.grad(tailed.sum(), logits)
    slope = -0.5 * (1 + 1000 / (2 * math.log(2))) ** -2

    expected = torch.tensor([[[slope], [-slope]]], dtype=dtype)

    torch.testing.assert_close(
        gradient, expected, rtol=0.02, atol=6e-8
    )  # float16 has no finer steps there
    assert gradient[0, 0] < 0 < gradient[0, 1]

    plain = VoxelLoss(regions=regions)(logits.float(), target)
    assert not torch.autograd.grad(plain.sum(), logits)[0].any()


# Precision, and voxels that take no part


SOME = [
    {"tau": 1.0},
    {"gamma": 0.5},
    {"alpha": 1.0},
    {"tau": 1.0, "gamma": 0.5, "alpha": 2.0},
    {"smoothing": 0.2},
]


@pytest.mark.parametrize("adjustment", SOME, ids=str)
@pytest.mark.parametrize("regions", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_logits_are_adjusted_in_single_precision(regions, dtype, adjustment):
    logits, target, _ = made_batch(regions, True, 3, dtype)
    loss = VoxelLoss(regions=regions, shares=SHARES, **adjustment)
    expected = loss(logits.detach().float(), target, 3)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        autocast = loss(logits, target, 3)

    for value in (loss(logits, target, 3), autocast):
        assert value.dtype == torch.float32
        torch.testing.assert_close(value.detach(), expected)

    autocast.sum().backward()
    assert logits.grad.dtype == dtype
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("adjustment", [{}, *SOME], ids=str)
@pytest.mark.parametrize("regions", [False, True])
def test_ignored_voxels_have_neither_loss_nor_gradient(regions, adjustment):
    logits, target, ignored = made_batch(regions, True, 3, torch.float32)
    with torch.no_grad():
        logits.copy_(torch.where(ignored, 1e30 * torch.sign(logits), logits))
    voxelwise = VoxelLoss(regions=regions, shares=SHARES, **adjustment)(logits, target, 3)
    (gradient,) = torch.autograd.grad(voxelwise.sum(), logits)

    everywhere = ignored.expand(logits.shape)

    assert (voxelwise[everywhere if regions else ignored[:, 0]] == 0).all()
    assert (gradient[everywhere] == 0).all()
    assert gradient.isfinite().all()
    assert (gradient[~everywhere] != 0).any()


@pytest.mark.parametrize("regions", [False, True])
@pytest.mark.parametrize("label", [0, 1])
def test_extreme_logits_have_finite_losses_and_gradients(regions, label):
    logits = torch.tensor([[[3e4], [-3e4]]], dtype=torch.float16, requires_grad=True)
    target = torch.tensor([[[label], [1 - label]]]) if regions else torch.full((1, 1, 1), label)
    value = VoxelLoss(regions=regions, shares=(0.99, 0.01), tau=1.0, gamma=0.5, alpha=1.0)(
        logits, target
    ).sum()

    value.backward()

    assert value.isfinite()
    assert logits.grad.isfinite().all()


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tau": -1.0}, "`tau` must be a number >= 0, got -1.0"),
        ({"tau": math.nan}, "`tau`"),
        ({"gamma": -0.1}, "`gamma`"),
        ({"gamma": math.inf}, "`gamma`"),
        ({"alpha": 0.0}, "`alpha` must be a number > 0, got 0.0"),
        ({"alpha": math.inf}, "`alpha`"),
        ({"tau": 1.0, "shares": ()}, "`shares` must be positive"),
        ({"tau": 1.0, "shares": (1.0, 0.0)}, "`shares` must be positive"),
        ({"tau": 1.0, "shares": (1.0, math.nan)}, "`shares` must be positive"),
        ({"tau": 1.0, "shares": (1.0, 0.5), "regions": True}, "`shares` must be between 0 and 1"),
        *(
            ({"smoothing": value}, r"`smoothing` must be a number in \[0, 0.5\]")
            for value in (-0.1, 0.51, math.nan)
        ),
        ({"alpha": 1.0, "smoothing": 0.1}, "`smoothing` must be 0 with a polynomial tail"),
    ],
)
def test_numbers_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        VoxelLoss(**{"regions": False, **settings})


@pytest.mark.parametrize("regions", [False, True])
@pytest.mark.parametrize("adjustment", [{"tau": 1.0}, {"gamma": 1.0}])
@pytest.mark.parametrize(("shares", "n_shares"), [((0.6, 0.4), 2), (None, 0)])
def test_there_must_be_a_share_per_channel(regions, adjustment, shares, n_shares):
    logits, target, _ = made_batch(regions, False, 2)
    with pytest.raises(ValueError, match=f"got {n_shares} for 3 channels"):
        VoxelLoss(regions=regions, shares=shares, **adjustment)(logits, target)


def test_shares_follow_the_loss_to_its_device_and_not_into_its_state():
    loss = VoxelLoss(regions=True, shares=(0.5,), gamma=1.0, tau=1.0)
    assert not loss.state_dict()
    assert {buffer.device.type for buffer in loss.to("meta").buffers()} == {"meta"}
    assert len(list(loss.buffers())) == 3
