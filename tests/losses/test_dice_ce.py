"""An adjusted cross-entropy inside Dice + cross-entropy, and what counts as hardness."""

import itertools
import math
import shutil
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from nnunet_dro.losses import DiceCELoss, VoxelLoss
from nnunet_dro.trainers.options import HWSOptions, LSOptions
from nnunet_dro.trainers.weighted_loss import per_case_loss
from tests.losses.test_against_nnunet import (
    CONFIGURATIONS,
    N_CASES,
    NAMES,
    UNKNOWN_LOSSES,
    batch,
    leaves,
    nnunet_loss,
    select,
)

SHARES = (0.6, 0.25, 0.1, 0.05)
ADJUSTED = HWSOptions(logit_adjustment=1.0, vector_scaling=0.3, polynomial_tail=2.0)
ADJUSTMENTS = [
    ({"tau": 1.0, "gamma": 0.3, "alpha": 2.0, "shares": SHARES}, ADJUSTED),
    ({"smoothing": 0.2}, LSOptions(smoothing=0.2)),
]
WEIGHTS = torch.tensor([0.3, 2.0, 5.0])


def scales(outputs, targets):
    """(factor, logits, target) of the resolutions that are looked at."""
    if isinstance(outputs, torch.Tensor):
        return [(1.0, outputs, targets)]
    return list(zip((0.6, 0.4), outputs, targets, strict=False))


def change_of_cross_entropy(outputs, targets, regions, ignore, *, voxel_loss, weights):
    """How much an adjustment adds to sum_i w_i CE_i / sum_i n_i, from torch's cross-entropy."""
    total = 0.0
    for factor, logits, target in scales(outputs, targets):
        if regions:
            plain = F.binary_cross_entropy_with_logits(logits, target[:, :4].float(), reduction="none")
            takes_part = ~target[:, 4:].expand(plain.shape) if ignore else torch.ones_like(plain, dtype=torch.bool)
            # nnU-Net's mean is over voxels, not over regions too, where there is an ignore label.
            n_voxels = takes_part[:, 0].sum() if ignore else takes_part.sum()
        else:
            takes_part = target[:, 0] != 4
            plain = F.cross_entropy(logits, target[:, 0].long(), ignore_index=4, reduction="none")
            n_voxels = takes_part.sum()
        change = (voxel_loss(logits, target, 4 if ignore else None) - plain) * takes_part
        total = total + factor * (weights * change.flatten(1).sum(1)).sum() / n_voxels.clamp_min(1)
    return total


@pytest.mark.parametrize(("adjustment", "options"), ADJUSTMENTS)
@pytest.mark.parametrize(NAMES, CONFIGURATIONS)
def test_an_adjustment_changes_the_cross_entropy_and_leaves_the_dice(
    dimensions, regions, batch_dice, ignore, deep_supervision, adjustment, options
):
    loss = nnunet_loss(regions, batch_dice, ignore, deep_supervision)
    outputs, targets = batch(dimensions, regions, ignore, deep_supervision)
    voxel_loss = VoxelLoss(regions=regions, **adjustment)
    plain, adjusted = (
        per_case_loss(loss)(outputs, targets),
        per_case_loss(loss, options, shares=SHARES)(outputs, targets),
    )

    for weights in (torch.ones(N_CASES), WEIGHTS):
        expected = plain.weighted(weights) + change_of_cross_entropy(
            outputs, targets, regions, ignore, voxel_loss=voxel_loss, weights=weights
        )
        value = adjusted.weighted(weights)
        torch.testing.assert_close(value, expected)
        used = leaves(outputs)[:2]
        mine, theirs = (torch.autograd.grad(v, used, retain_graph=True) for v in (value, expected))
        for here, there in zip(mine, theirs, strict=True):
            assert here.isfinite().all()
            torch.testing.assert_close(here, there, rtol=1e-4, atol=1e-6)

    for i in range(N_CASES):
        output, target = select(outputs, [i]), select(targets, [i])
        change = change_of_cross_entropy(output, target, regions, ignore, voxel_loss=voxel_loss, weights=torch.ones(1))
        alone = (loss(output, target) + change).detach()
        torch.testing.assert_close(adjusted.hardness[i], alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("hardness", ["ce", "present"])
@pytest.mark.parametrize(NAMES, CONFIGURATIONS)
def test_another_hardness_leaves_the_training_loss(dimensions, regions, batch_dice, ignore, deep_supervision, hardness):
    loss = nnunet_loss(regions, batch_dice, ignore, deep_supervision)
    outputs, targets = batch(dimensions, regions, ignore, deep_supervision)
    usual, other = (
        per_case_loss(loss)(outputs, targets),
        per_case_loss(loss, HWSOptions(hardness=hardness))(outputs, targets),
    )
    assert torch.equal(other.weighted(WEIGHTS), usual.weighted(WEIGHTS))
    assert other.hardness.shape == (N_CASES,)
    assert not other.hardness.requires_grad


@pytest.mark.parametrize(NAMES, CONFIGURATIONS)
def test_hardness_ce_is_nnunets_loss_of_each_case_without_dice(
    dimensions, regions, batch_dice, ignore, deep_supervision
):
    loss = nnunet_loss(regions, batch_dice, ignore, deep_supervision)
    inner = loss.loss if deep_supervision else loss
    outputs, targets = batch(dimensions, regions, ignore, deep_supervision)
    inner.weight_ce = 0.5
    hardness = per_case_loss(loss, HWSOptions(hardness="ce"))(outputs, targets).hardness
    inner.weight_dice = 0.0
    alone = [torch.as_tensor(loss(select(outputs, [i]), select(targets, [i]))).detach() for i in range(N_CASES)]
    torch.testing.assert_close(hardness, torch.stack(alone), check_dtype=False)


# Hardness by the classes that are present


def log_odds(*probabilities):
    return [math.log(p / (1 - p)) for p in probabilities]


def one_case(probabilities, labels):
    """Logits (1, channels, voxels) and target (1, 1, voxels) of one case from its voxels' probabilities."""
    return torch.tensor(probabilities).log().T[None], torch.tensor(labels)[None, None]


def hardness_of(output, target, *, hardness="present", **settings):
    loss = DiceCELoss(**{"batch_dice": False, "do_bg": False, "smooth": 0.0, "hardness": hardness, **settings})
    (value,) = loss(output, target).hardness.tolist()
    return value


RIGHT_0, RIGHT_1, RIGHT_2 = (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8)


def test_a_class_that_is_neither_in_the_patch_nor_predicted_is_left_out():
    """Class 1: 2 x 0.8 / (1 + 1.1). Class 2 has a soft Dice of 0, although nothing is wrong about it."""
    case = one_case([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_0], [1, 0, 0, 0])
    cross_entropy, dice = -math.log(0.8), 1.6 / 2.1
    assert hardness_of(*case, hardness="loss") == pytest.approx(cross_entropy - dice / 2)
    assert hardness_of(*case) == pytest.approx(cross_entropy - dice)
    # The background is a class where the Dice counts it: 2 x 2.4 / (3 + 2.5).
    assert hardness_of(*case, do_bg=True) == pytest.approx(cross_entropy - (dice + 4.8 / 5.5) / 2)
    assert hardness_of(*case, hardness="ce") == pytest.approx(cross_entropy)
    assert hardness_of(*case, weight_ce=0.5, weight_dice=2.0) == pytest.approx(cross_entropy / 2 - 2 * dice)


def test_a_class_that_is_only_predicted_counts_as_zero():
    case = one_case([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_2], [1, 0, 0, 0])
    cross_entropy = -(3 * math.log(0.8) + math.log(0.1)) / 4
    assert hardness_of(*case) == pytest.approx(cross_entropy - (1.6 / 2.1 + 0) / 2)


def test_a_class_that_is_missed_counts():
    case = one_case([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_0], [1, 0, 0, 2])
    cross_entropy = -(3 * math.log(0.8) + math.log(0.1)) / 4
    assert hardness_of(*case) == pytest.approx(cross_entropy - (1.6 / 2.1 + 0.2 / 1.4) / 2)


def test_a_patch_of_background_has_a_perfect_dice():
    case = one_case([RIGHT_0] * 4, [0] * 4)
    assert hardness_of(*case) == pytest.approx(-math.log(0.8) - 1)
    assert hardness_of(*case, hardness="loss") == pytest.approx(-math.log(0.8))


def test_ignored_voxels_make_no_class_present():
    case = one_case([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_2], [1, 0, 0, 3])
    assert hardness_of(*case, ignore_label=3) == pytest.approx(-math.log(0.8) - 1.6 / 2.0)
    nothing = one_case([RIGHT_1, RIGHT_2], [3, 3])
    assert hardness_of(*nothing, ignore_label=3) == -1


def test_regions_are_present_by_themselves():
    """Region 0: 2 x 0.75 / (1 + 1). Region 1: not there, below 0.5. Region 2: not there, and predicted once."""
    logits = torch.tensor([log_odds(0.75, 0.25), log_odds(0.25, 0.25), log_odds(0.75, 0.25)])[None]
    target = torch.tensor([[1, 0], [0, 0], [0, 0]])[None]
    cross_entropy = -(5 * math.log(0.75) + math.log(0.25)) / 6
    settings = {"regions": True, "do_bg": True}
    assert hardness_of(logits, target, **settings) == pytest.approx(cross_entropy - 0.75 / 2)
    assert hardness_of(logits, target, hardness="loss", **settings) == pytest.approx(cross_entropy - 0.75 / 3)
    assert hardness_of(-logits.abs(), 0 * target, **settings) == pytest.approx(-math.log(0.75) - 1)
    # Without its first voxel, region 2 is not predicted, nor is region 0 there.
    ignored = torch.cat([target, torch.tensor([[[1, 0]]])], 1).bool()
    settings["ignore_label"] = 1
    assert hardness_of(logits, ignored, **settings) == pytest.approx(-3 * math.log(0.75) - 1)


def test_presence_is_asked_of_each_resolution():
    """Class 1 is lost at the lower resolution, whose Dice is perfect then."""
    high = one_case([RIGHT_1, RIGHT_0, RIGHT_0, RIGHT_0], [1, 0, 0, 0])
    low, unseen = one_case([RIGHT_0, RIGHT_0], [0, 0]), one_case([RIGHT_2], [1])
    outputs, targets = zip(high, low, unseen, strict=True)
    value = hardness_of(outputs, targets, scale_weights=(0.75, 0.25, 0.0))
    assert value == pytest.approx(-math.log(0.8) - 0.75 * 1.6 / 2.1 - 0.25)


def test_each_case_has_its_own_classes():
    cases = [
        one_case([RIGHT_1, RIGHT_0, RIGHT_0], [1, 0, 0]),
        one_case([RIGHT_0, RIGHT_2, RIGHT_0], [0, 2, 0]),
        one_case([RIGHT_0, RIGHT_0, RIGHT_0], [0, 0, 0]),
    ]
    for batch_dice in (False, True):
        loss = DiceCELoss(batch_dice=batch_dice, do_bg=False, smooth=0.0, hardness="present")
        together = loss(*(torch.cat(parts) for parts in zip(*cases, strict=True))).hardness
        assert together.tolist() == pytest.approx([hardness_of(*case) for case in cases])


@pytest.mark.parametrize(NAMES, CONFIGURATIONS)
def test_hardness_by_present_classes_is_as_by_one_case_and_class_at_a_time(
    dimensions, regions, batch_dice, ignore, deep_supervision
):
    """In the made batch the last case lacks the last class in its reference; here its logit is low everywhere too."""
    outputs, targets = batch(dimensions, regions, ignore, deep_supervision)
    with torch.no_grad():
        for output in leaves(outputs):
            output[-1, -1] = -9.0
            output[0, 1] = -9.0
    loss = per_case_loss(nnunet_loss(regions, batch_dice, ignore, deep_supervision), HWSOptions(hardness="present"))
    hardness = loss(outputs, targets).hardness
    for i in range(N_CASES):
        expected = 0.0
        for factor, logits, target in scales(select(outputs, [i]), select(targets, [i])):
            takes_part = torch.ones(logits.shape[2:], dtype=torch.bool)
            if ignore:
                takes_part = ~target[0, -1] if regions else target[0, 0] != 4
            values = logits.detach()[0][:, takes_part]
            if regions:
                reference, soft = target[0, :4][:, takes_part].float(), values.sigmoid()
                predicted, first = soft > 0.5, 0
                voxelwise = F.binary_cross_entropy(soft, reference, reduction="sum") / (1 if ignore else 4)
            else:
                reference = F.one_hot(target[0, 0][takes_part].long(), 4).T.float()
                soft, first = values.softmax(0), 1
                predicted = F.one_hot(values.argmax(0), 4).T > 0
                voxelwise = -(reference * soft.log()).sum()
            dice = [
                (2 * (soft[c] * reference[c]).sum() + 1e-5) / (soft[c].sum() + reference[c].sum() + 1e-5)
                for c in range(first, 4)
                if reference[c].any() or predicted[c].any()
            ]
            expected += factor * float(
                voxelwise / max(int(takes_part.sum()), 1) - (sum(dice) / len(dice) if dice else 1)
            )
        assert float(hardness[i]) == pytest.approx(expected, rel=1e-5)


def test_presence_is_not_looked_for_unless_asked():
    outputs, targets = batch(2, False, False, False)
    assert per_case_loss(nnunet_loss(False, False, False, False))(outputs, targets).is_predicted is None


# Precision and compilation


@pytest.mark.parametrize(
    "options",
    [HWSOptions(), HWSOptions(hardness="present"), replace(ADJUSTED, hardness="ce"), ADJUSTED],
    ids=lambda options: options.suffix(),
)
@pytest.mark.parametrize(("regions", "ignore"), [*itertools.product((False, True), repeat=2)])
def test_half_logits_give_what_single_precision_gives(regions, ignore, options):
    outputs, targets = batch(3, regions, ignore, True)
    loss = per_case_loss(nnunet_loss(regions, False, ignore, True), options, shares=SHARES)
    halves = [output.detach().to(torch.bfloat16) for output in outputs]
    expected = loss([half.float() for half in halves], targets)
    halves = [half.requires_grad_() for half in halves]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cases = loss(halves, targets)
        value, hardness = cases.weighted(WEIGHTS), cases.hardness
    assert value.dtype == hardness.dtype == torch.float32
    torch.testing.assert_close(value, expected.weighted(WEIGHTS), rtol=0.01, atol=0.01)
    torch.testing.assert_close(hardness, expected.hardness, rtol=0.01, atol=0.01)
    for gradient in torch.autograd.grad(value, halves[:2]):
        assert gradient.isfinite().all()
        assert gradient.any()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
@pytest.mark.parametrize("regions", [False, True])
def test_compiled_as_nnunet_compiles_it_gives_the_same(regions):
    loss = nnunet_loss(regions, False, True, True)
    outputs, targets = batch(3, regions, True, True)
    eager = per_case_loss(loss, replace(ADJUSTED, hardness="present"), shares=SHARES)(outputs, targets)
    loss.loss.dc = torch.compile(loss.loss.dc)
    compiled = per_case_loss(loss, replace(ADJUSTED, hardness="present"), shares=SHARES)
    assert isinstance(compiled.voxel_sums, torch._dynamo.OptimizedModule)
    cases = compiled(outputs, targets)
    torch.testing.assert_close(cases.hardness, eager.hardness)
    torch.testing.assert_close(cases.weighted(WEIGHTS), eager.weighted(WEIGHTS))


# What is refused


@pytest.mark.parametrize("name", UNKNOWN_LOSSES)
@pytest.mark.filterwarnings("ignore:size_average and reduce")
@pytest.mark.parametrize(
    ("options", "word"),
    [
        (HWSOptions(logit_adjustment=1.0), "la1"),
        (HWSOptions(vector_scaling=0.2), "vs0.2"),
        (HWSOptions(polynomial_tail=1.5), "poly1.5"),
        (HWSOptions(hardness="ce"), "hardCE"),
        (HWSOptions(hardness="present"), "hardPresent"),
        (LSOptions(), "alpha0.1"),
    ],
)
def test_options_of_the_known_loss_are_refused_with_another(name, options, word):
    loss = UNKNOWN_LOSSES[name]()
    with pytest.raises(
        ValueError, match=rf"^{word} must be left out .*\({type(loss).__name__}\).* Leave the option out"
    ):
        per_case_loss(loss, options, shares=SHARES)


def test_all_refused_options_are_named():
    loss = UNKNOWN_LOSSES["other Dice"]()
    with pytest.raises(ValueError, match=r"^hardCE, la1, vs0.3, poly2 must"):
        per_case_loss(loss, replace(ADJUSTED, hardness="ce"), shares=SHARES)


def test_missing_shares_are_refused():
    with pytest.raises(ValueError, match="`shares`"):
        per_case_loss(nnunet_loss(False, False, False, True), HWSOptions(logit_adjustment=1.0))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hardness": "dice"}, "`hardness` must be one of loss, ce, present, got 'dice'"),
        (
            {"voxel_loss": VoxelLoss(regions=True)},
            "`voxel_loss` must be for a label map, as this loss is, got one for reg",
        ),
        ({"voxel_loss": VoxelLoss(regions=False), "regions": True}, "`voxel_loss` must be for regions"),
        ({"hardness": "ce", "weight_ce": 0.0}, "`hardness` 'ce' needs a loss with a cross-entropy"),
        ({"voxel_loss": VoxelLoss(regions=False, alpha=1.0), "weight_ce": 0}, "An adjusted `voxel_loss` needs"),
    ],
)
def test_what_contradicts_itself_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DiceCELoss(batch_dice=False, do_bg=False, **settings)
