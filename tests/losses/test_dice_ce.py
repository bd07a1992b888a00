"""An adjusted cross-entropy inside Dice + cross-entropy, and what counts as hardness."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from nnunet_dro.losses import DiceCELoss, VoxelLoss
from nnunet_dro.trainers.options import HWSOptions, LSOptions
from nnunet_dro.trainers.weighted_loss import per_case_loss
from tests.losses.configurations import (
    N_CASES,
    N_CLASSES,
    UNKNOWN_LOSSES,
    WEIGHTS,
    Configuration,
    alone,
    configurations,
    gradients,
    leaves,
    select,
)

SHARES = (0.6, 0.25, 0.1, 0.05)
ADJUSTED = HWSOptions(logit_adjustment=1.0, vector_scaling=0.3, polynomial_tail=2.0)
ADJUSTMENTS = [
    ({"tau": 1.0, "gamma": 0.3, "alpha": 2.0, "shares": SHARES}, ADJUSTED),
    ({"smoothing": 0.2}, LSOptions(smoothing=0.2)),
]


def scales(outputs, targets):
    """(factor, logits, target) of the resolutions that are looked at."""
    if isinstance(outputs, torch.Tensor):
        return [(1.0, outputs, targets)]
    return list(zip((0.6, 0.4), outputs, targets, strict=False))


def change_of_cross_entropy(outputs, targets, made, *, voxel_loss, weights):
    """How much an adjustment adds to sum_i w_i CE_i / sum_i n_i, from torch's cross-entropy."""
    total = 0.0
    for factor, logits, target in scales(outputs, targets):
        if made.regions:
            plain = F.binary_cross_entropy_with_logits(
                logits, target[:, :N_CLASSES].float(), reduction="none"
            )
            ignored = (
                target[:, N_CLASSES:].expand(plain.shape)
                if made.ignore
                else torch.zeros_like(plain) > 0
            )
            # nnU-Net's mean is over voxels, not over regions too, where there is an ignore label.
            n_voxels = (~ignored[:, 0] if made.ignore else ~ignored).sum()
        else:
            ignored = target[:, 0] == N_CLASSES
            plain = F.cross_entropy(
                logits, target[:, 0].long(), ignore_index=N_CLASSES, reduction="none"
            )
            n_voxels = (~ignored).sum()
        change = (voxel_loss(logits, target, N_CLASSES if made.ignore else None) - plain) * ~ignored
        total = total + factor * (weights * change.flatten(1).sum(1)).sum() / n_voxels.clamp_min(1)
    return total


@pytest.mark.parametrize(("adjustment", "options"), ADJUSTMENTS)
@configurations()
def test_an_adjustment_changes_the_cross_entropy_and_leaves_the_dice(made, adjustment, options):
    loss, (outputs, targets) = made.loss(), made.batch()
    voxel_loss = VoxelLoss(regions=made.regions, **adjustment)
    plain = per_case_loss(loss)(outputs, targets)
    adjusted = per_case_loss(loss, options, shares=SHARES)(outputs, targets)

    def change(outputs, targets, weights):
        return change_of_cross_entropy(
            outputs, targets, made, voxel_loss=voxel_loss, weights=weights
        )

    for weights in (torch.ones(N_CASES), WEIGHTS):
        expected = plain.weighted(weights) + change(outputs, targets, weights)
        value = adjusted.weighted(weights)
        torch.testing.assert_close(value, expected)
        for here, there in zip(
            gradients(value, outputs), gradients(expected, outputs), strict=True
        ):
            assert here.isfinite().all()
            torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-6)

    expected = alone(lambda *case: loss(*case) + change(*case, torch.ones(1)), outputs, targets)

    torch.testing.assert_close(adjusted.hardness, expected, rtol=1e-5, atol=1e-5)


def check_the_training_loss_is_left(loss, cases, outputs, targets):
    """Whatever counts as hardness."""
    assert torch.equal(
        cases.weighted(WEIGHTS), per_case_loss(loss)(outputs, targets).weighted(WEIGHTS)
    )
    assert cases.hardness.shape == (N_CASES,)
    assert not cases.hardness.requires_grad


@configurations()
def test_hardness_ce_is_nnunets_loss_of_each_case_without_dice(made):
    loss, (outputs, targets) = made.loss(), made.batch()
    inner = loss.loss if made.deep_supervision else loss
    inner.weight_ce = 0.5
    cases = per_case_loss(loss, HWSOptions(hardness="ce"))(outputs, targets)
    check_the_training_loss_is_left(loss, cases, outputs, targets)

    inner.weight_dice = 0.0

    torch.testing.assert_close(cases.hardness, alone(loss, outputs, targets), check_dtype=False)


# Hardness by the classes that are present


def log_odds(*probabilities):
    return [math.log(p / (1 - p)) for p in probabilities]


def one_case(probabilities, labels):
    """Logits (1, channels, voxels) and target (1, 1, voxels) of one case from its voxels'
    probabilities."""
    return torch.tensor(probabilities).log().T[None], torch.tensor(labels)[None, None]


def hardness_of(output, target, *, hardness="present", **settings):
    loss = DiceCELoss(
        **{"batch_dice": False, "do_bg": False, "smooth": 0.0, "hardness": hardness, **settings}
    )
    (value,) = loss(output, target).hardness.tolist()
    return value


RIGHT_0 = (0.8, 0.1, 0.1)
RIGHT_1 = (0.1, 0.8, 0.1)
RIGHT_2 = (0.1, 0.1, 0.8)


CE_OF_RIGHT = -math.log(0.8)
CE_OF_ONE_WRONG = -(3 * math.log(0.8) + math.log(0.1)) / 4
DICE = 2 * 0.8 / (1 + 1.1)
ONE_OBJECT = ([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_0], [1, 0, 0, 0])


@pytest.mark.parametrize(
    ("case", "settings", "expected"),
    [
        # Class 2 is neither in the patch nor predicted: it has a soft Dice of 0, although nothing
        # is wrong about it.
        (ONE_OBJECT, {"hardness": "loss"}, CE_OF_RIGHT - DICE / 2),
        (ONE_OBJECT, {}, CE_OF_RIGHT - DICE),
        # The background is a class where the Dice counts it: 2 x 2.4 / (3 + 2.5).
        (ONE_OBJECT, {"do_bg": True}, CE_OF_RIGHT - (DICE + 4.8 / 5.5) / 2),
        (ONE_OBJECT, {"hardness": "ce"}, CE_OF_RIGHT),
        (ONE_OBJECT, {"weight_ce": 0.5, "weight_dice": 2.0}, CE_OF_RIGHT / 2 - 2 * DICE),
        # A class that is only predicted counts as zero, and one that is missed counts.
        (
            ([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_2], [1, 0, 0, 0]),
            {},
            CE_OF_ONE_WRONG - (DICE + 0) / 2,
        ),
        (
            ([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_0], [1, 0, 0, 2]),
            {},
            CE_OF_ONE_WRONG - (DICE + 0.2 / 1.4) / 2,
        ),
        # A patch of background has a perfect Dice.
        (([RIGHT_0] * 4, [0] * 4), {}, CE_OF_RIGHT - 1),
        (([RIGHT_0] * 4, [0] * 4), {"hardness": "loss"}, CE_OF_RIGHT),
        # Ignored voxels make no class present.
        (
            ([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_2], [1, 0, 0, 3]),
            {"ignore_label": 3},
            CE_OF_RIGHT - 1.6 / 2.0,
        ),
        (([RIGHT_1, RIGHT_2], [3, 3]), {"ignore_label": 3}, -1),
    ],
)
def test_hardness_by_hand(case, settings, expected):
    assert hardness_of(*one_case(*case), **settings) == pytest.approx(expected)


def test_regions_are_present_by_themselves():
    """Region 0: 2 x 0.75 / (1 + 1). Region 1: not there, below 0.5. Region 2: not there, and
    predicted once."""
    logits = torch.tensor([log_odds(0.75, 0.25), log_odds(0.25, 0.25), log_odds(0.75, 0.25)])[None]
    target = torch.tensor([[1, 0], [0, 0], [0, 0]])[None]
    cross_entropy = -(5 * math.log(0.75) + math.log(0.25)) / 6

    settings = {"regions": True, "do_bg": True}

    assert hardness_of(logits, target, **settings) == pytest.approx(cross_entropy - 0.75 / 2)
    assert hardness_of(logits, target, hardness="loss", **settings) == pytest.approx(
        cross_entropy - 0.75 / 3
    )
    assert hardness_of(-logits.abs(), 0 * target, **settings) == pytest.approx(-math.log(0.75) - 1)

    # Without its first voxel, region 2 is not predicted, nor is region 0 there.
    ignored = torch.cat([target, torch.tensor([[[1, 0]]])], 1).bool()
    settings["ignore_label"] = 1

    assert hardness_of(logits, ignored, **settings) == pytest.approx(-3 * math.log(0.75) - 1)


def test_presence_is_asked_of_each_resolution():
    """Class 1 is lost at the lower resolution, whose Dice is perfect then."""
    high = one_case([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_0], [1, 0, 0, 0])
    low = one_case([RIGHT_0, RIGHT_0], [0, 0])
    unseen = one_case([RIGHT_2], [1])
    outputs, targets = zip(high, low, unseen, strict=True)

    value = hardness_of(outputs, targets, scale_weights=(0.75, 0.25, 0.0))

    assert value == pytest.approx(-math.log(0.8) - 0.75 * 1.6 / 2.1 - 0.25)


@configurations()
def test_hardness_by_present_classes_is_as_by_one_case_and_class_at_a_time(made):
    """In the made batch the last case lacks the last class in its reference; here its logit is low
    everywhere too."""
    loss, (outputs, targets) = made.loss(), made.batch()
    with torch.no_grad():
        for output in leaves(outputs):
            output[-1, -1] = -9.0
            output[0, 1] = -9.0
    cases = per_case_loss(loss, HWSOptions(hardness="present"))(outputs, targets)
    check_the_training_loss_is_left(loss, cases, outputs, targets)
    for i in range(N_CASES):
        expected = sum(
            factor * expected_of_one(made, logits.detach()[0], target[0])
            for factor, logits, target in scales(select(outputs, [i]), select(targets, [i]))
        )
        assert float(cases.hardness[i]) == pytest.approx(expected, rel=1e-5)


def expected_of_one(made, logits, target):
    """Of one case, (channels, *spatial), at one resolution."""
    takes_part = torch.ones(logits.shape[1:], dtype=torch.bool)
    if made.ignore:
        takes_part = ~target[-1] if made.regions else target[0] != N_CLASSES
    values = logits[:, takes_part]
    if made.regions:
        reference = target[:N_CLASSES][:, takes_part].float()
        soft = values.sigmoid()
        predicted = soft > 0.5
        first = 0
        voxelwise = F.binary_cross_entropy(soft, reference, reduction="sum") / (
            1 if made.ignore else N_CLASSES
        )
    else:
        reference = F.one_hot(target[0][takes_part].long(), N_CLASSES).T.float()
        soft = values.softmax(0)
        first = 1
        predicted = F.one_hot(values.argmax(0), N_CLASSES).T > 0
        voxelwise = -(reference * soft.log()).sum()
    dice = [
        (2 * (soft[c] * reference[c]).sum() + 1e-5) / (soft[c].sum() + reference[c].sum() + 1e-5)
        for c in range(first, N_CLASSES)
        if reference[c].any() or predicted[c].any()
    ]
    return float(voxelwise / max(int(takes_part.sum()), 1) - (sum(dice) / len(dice) if dice else 1))


# Precision


@pytest.mark.parametrize(
    "options",
    [HWSOptions(), HWSOptions(hardness="present"), replace(ADJUSTED, hardness="ce"), ADJUSTED],
    ids=lambda options: options.suffix(),
)
@configurations(dimensions=3, batch_dice=False, deep_supervision=True)
def test_half_logits_give_what_single_precision_gives(made, options):
    outputs, targets = made.batch()
    loss = per_case_loss(made.loss(), options, shares=SHARES)
    halves = [output.detach().to(torch.bfloat16) for output in outputs]
    expected = loss([half.float() for half in halves], targets)
    halves = [half.requires_grad_() for half in halves]

    with torch.autocast("cpu", dtype=torch.bfloat16):
        cases = loss(halves, targets)
        value = cases.weighted(WEIGHTS)
        hardness = cases.hardness

    assert value.dtype == hardness.dtype == torch.float32
    torch.testing.assert_close(value, expected.weighted(WEIGHTS), rtol=0.01, atol=0.01)
    torch.testing.assert_close(hardness, expected.hardness, rtol=0.01, atol=0.01)
    for gradient in torch.autograd.grad(value, halves[:2]):
        assert gradient.isfinite().all()
        assert gradient.any()


# What is refused


@pytest.mark.parametrize("name", UNKNOWN_LOSSES)
@pytest.mark.filterwarnings("ignore:size_average and reduce")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (HWSOptions(logit_adjustment=1.0), "la1"),
        (HWSOptions(vector_scaling=0.2), "vs0.2"),
        (HWSOptions(polynomial_tail=1.5), "poly1.5"),
        (HWSOptions(hardness="ce"), "hardCE"),
        (HWSOptions(hardness="present"), "hardPresent"),
        (LSOptions(), "alpha0.1"),
        (replace(ADJUSTED, hardness="ce"), "hardCE, la1, vs0.3, poly2"),
    ],
)
def test_options_of_the_known_loss_are_refused_with_another(name, options, words):
    loss = UNKNOWN_LOSSES[name]()
    message = rf"^{words} must be left out .*\({type(loss).__name__}\).* Leave the option out"

    with pytest.raises(ValueError, match=message):
        per_case_loss(loss, options, shares=SHARES)


def test_missing_shares_are_refused():
    made = Configuration()
    adjusted = per_case_loss(made.loss(), HWSOptions(logit_adjustment=1.0))
    with pytest.raises(ValueError, match="`shares` must have one number per channel, got 0 for "):
        adjusted(*made.batch())

    assert per_case_loss(made.loss())(*made.batch()).is_predicted is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hardness": "dice"}, "`hardness` must be one of loss, ce, present, pooled, got"),
        (
            {"voxel_loss": VoxelLoss(regions=True)},
            "`voxel_loss` must be for a label map, as this loss is, got one for reg",
        ),
        (
            {"voxel_loss": VoxelLoss(regions=False), "regions": True},
            "`voxel_loss` must be for regions",
        ),
        ({"hardness": "ce", "weight_ce": 0.0}, "`hardness` 'ce' needs a cross-entropy"),
        (
            {"voxel_loss": VoxelLoss(regions=False, alpha=1.0), "weight_ce": 0},
            "An adjusted `voxel_loss` needs",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DiceCELoss(batch_dice=False, do_bg=False, **settings)
