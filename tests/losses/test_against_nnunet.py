"""The per-case losses against nnU-Net's own, forward and gradient, for every configuration it has."""

import itertools
import shutil

import pytest
import torch
from nnunetv2.training.loss.compound_losses import DC_and_BCE_loss, DC_and_CE_loss, DC_and_topk_loss
from nnunetv2.training.loss.deep_supervision import DeepSupervisionWrapper
from nnunetv2.training.loss.dice import MemoryEfficientSoftDiceLoss, SoftDiceLoss
from torch import nn

from nnunet_dro.losses import CaseByCaseLoss, DiceCELoss
from nnunet_dro.trainers.weighted_loss import per_case_loss

N_CASES = 3
CONFIGURATIONS = list(itertools.product((2, 3), (False, True), (False, True), (False, True), (False, True)))
NAMES = ("dimensions", "regions", "batch_dice", "ignore", "deep_supervision")


def nnunet_loss(regions, batch_dice, ignore, deep_supervision, n_classes=4):
    dice = {"batch_dice": batch_dice, "smooth": 1e-5, "do_bg": regions, "ddp": False}
    if regions:
        loss = DC_and_BCE_loss({}, dice, use_ignore_label=ignore, dice_class=MemoryEfficientSoftDiceLoss)
    else:
        ignore_label = n_classes if ignore else None
        loss = DC_and_CE_loss(dice, {}, ignore_label=ignore_label, dice_class=MemoryEfficientSoftDiceLoss)
    return DeepSupervisionWrapper(loss, (0.6, 0.4, 0.0)) if deep_supervision else loss


def batch(dimensions, regions, ignore, deep_supervision, n_classes=4, n_cases=N_CASES, seed=0):
    """Logits and targets; the last case has neither the last class nor, where there is one, an annotated voxel."""
    generator = torch.Generator().manual_seed(seed)
    outputs, targets = [], []
    for size in (8, 4, 2) if deep_supervision else (8,):
        shape = [size] * dimensions
        outputs.append(2 * torch.randn(n_cases, n_classes, *shape, generator=generator))
        if regions:
            target = torch.rand(n_cases, n_classes + ignore, *shape, generator=generator) < 0.3
            target[-1, n_classes - 1] = False
            if ignore:
                target[-1, -1] = True
        else:
            target = torch.randint(0, n_classes + ignore, (n_cases, 1, *shape), generator=generator).to(torch.int16)
            target[-1][target[-1] == n_classes - 1] = 0
            if ignore:
                target[-1] = n_classes
        targets.append(target)
    for output in outputs:
        output.requires_grad_()
    return (outputs, targets) if deep_supervision else (outputs[0], targets[0])


def leaves(outputs):
    return outputs if isinstance(outputs, list) else [outputs]


def select(values, cases):
    return [value[cases] for value in values] if isinstance(values, list) else values[cases]


@pytest.mark.parametrize(NAMES, CONFIGURATIONS)
def test_hardness_is_nnunets_loss_on_each_case_alone(dimensions, regions, batch_dice, ignore, deep_supervision):
    loss = nnunet_loss(regions, batch_dice, ignore, deep_supervision)
    outputs, targets = batch(dimensions, regions, ignore, deep_supervision)
    mine = per_case_loss(loss)
    assert isinstance(mine, DiceCELoss)
    alone = torch.stack([loss(select(outputs, [i]), select(targets, [i])) for i in range(N_CASES)])
    hardness = mine(outputs, targets).hardness
    assert not hardness.requires_grad
    torch.testing.assert_close(hardness, alone.detach())


@pytest.mark.parametrize(NAMES, CONFIGURATIONS)
def test_training_loss_with_weights_of_one_is_nnunets(dimensions, regions, batch_dice, ignore, deep_supervision):
    loss = nnunet_loss(regions, batch_dice, ignore, deep_supervision)
    outputs, targets = batch(dimensions, regions, ignore, deep_supervision)
    theirs = loss(outputs, targets)
    theirs_gradient = torch.autograd.grad(theirs, leaves(outputs), allow_unused=True)
    mine = per_case_loss(loss)(outputs, targets).weighted(torch.ones(N_CASES))
    my_gradient = torch.autograd.grad(mine, leaves(outputs), allow_unused=True)
    torch.testing.assert_close(mine, theirs)
    for here, there in zip(my_gradient, theirs_gradient, strict=True):
        assert (here is None) == (there is None), "the resolution with factor 0 is not looked at"
        if here is not None:
            torch.testing.assert_close(here, there)


@pytest.mark.parametrize(
    ("dimensions", "regions", "deep_supervision"), [*itertools.product((2, 3), *[(False, True)] * 2)]
)
def test_per_case_dice_makes_the_training_loss_the_weighted_mean_of_the_cases(dimensions, regions, deep_supervision):
    outputs, targets = batch(dimensions, regions, False, deep_supervision)
    cases = per_case_loss(nnunet_loss(regions, False, False, deep_supervision))(outputs, targets)
    weights = torch.tensor([0.3, 2.0, 7.0])
    torch.testing.assert_close(cases.weighted(weights).detach(), (weights * cases.hardness).mean())


@pytest.mark.parametrize(("regions", "batch_dice", "deep_supervision"), [*itertools.product(*[(False, True)] * 3)])
@pytest.mark.parametrize(("weights", "cases"), [((1.0, 0.0, 1.0), [0, 2]), ((1.0, 2.0, 1.0), [0, 1, 1, 2])])
def test_weights_of_zero_and_two_leave_out_and_repeat(regions, batch_dice, deep_supervision, weights, cases):
    """Up to the factor 1/b: the mean is over the b cases of the batch, whatever their weights."""
    loss = nnunet_loss(regions, batch_dice, False, deep_supervision)
    outputs, targets = batch(2, regions, False, deep_supervision)
    mine = per_case_loss(loss)
    weighted = gradients_and_parts(mine, outputs, targets, torch.tensor(weights))
    explicit = gradients_and_parts(
        mine, select(outputs, cases), select(targets, cases), torch.ones(len(cases)), outputs
    )
    for here, there in zip(weighted, explicit, strict=True):
        for a, b in zip(here, there, strict=True):
            torch.testing.assert_close(a, b * len(cases) / N_CASES)


def gradients_and_parts(mine, outputs, targets, weights, inputs=None):
    """Value and gradient of the cross-entropy alone, then of the Dice alone."""
    parts = []
    for mine.weight_ce, mine.weight_dice in ((1.0, 0.0), (0.0, 1.0)):
        value = mine(outputs, targets).weighted(weights)
        inputs_used = leaves(outputs if inputs is None else inputs)[:2]
        gradient = torch.autograd.grad(value, inputs_used, retain_graph=True)
        parts.append([value.detach(), *gradient])
    return parts


@pytest.mark.parametrize("weighting", [(0.0, 1.0), (1.0, 0.0), (0.5, 2.0)])
def test_factors_of_dice_and_cross_entropy_are_nnunets(weighting):
    weight_ce, weight_dice = weighting
    dice = {"batch_dice": False, "smooth": 0.0, "do_bg": True, "ddp": False}
    loss = DC_and_CE_loss(
        dice, {}, weight_ce=weight_ce, weight_dice=weight_dice, dice_class=MemoryEfficientSoftDiceLoss
    )
    outputs, targets = batch(2, False, False, False)
    mine = per_case_loss(loss)
    assert isinstance(mine, DiceCELoss)
    torch.testing.assert_close(mine(outputs, targets).weighted(torch.ones(N_CASES)), loss(outputs, targets))


def dice_settings():
    return {"batch_dice": False, "smooth": 1e-5, "do_bg": False, "ddp": False}


UNKNOWN_LOSSES = {
    "other Dice": lambda: DC_and_CE_loss(dice_settings(), {}, dice_class=SoftDiceLoss),
    "top-k": lambda: DC_and_topk_loss(dice_settings(), {"k": 10}),
    "class weights": lambda: DC_and_CE_loss(
        dice_settings(), {"weight": torch.arange(1.0, 5.0)}, dice_class=MemoryEfficientSoftDiceLoss
    ),
    "label smoothing": lambda: DC_and_CE_loss(
        dice_settings(), {"label_smoothing": 0.1}, dice_class=MemoryEfficientSoftDiceLoss
    ),
}


@pytest.mark.parametrize("name", UNKNOWN_LOSSES)
@pytest.mark.filterwarnings("ignore:size_average and reduce")
@pytest.mark.parametrize("deep_supervision", [False, True])
def test_an_unknown_loss_is_evaluated_case_by_case(name, deep_supervision):
    loss = UNKNOWN_LOSSES[name]()
    loss = DeepSupervisionWrapper(loss, (0.6, 0.4, 0.0)) if deep_supervision else loss
    outputs, targets = batch(2, False, False, deep_supervision)
    mine = per_case_loss(loss)
    assert isinstance(mine, CaseByCaseLoss)
    alone = torch.stack([loss(select(outputs, [i]), select(targets, [i])) for i in range(N_CASES)])
    cases = mine(outputs, targets)
    torch.testing.assert_close(cases.hardness, alone.detach())
    weights = torch.tensor([0.5, 0.0, 4.0])
    torch.testing.assert_close(cases.weighted(weights), (weights * alone).mean())


def test_a_loss_on_one_case_does_not_wait_for_the_other_ranks():
    dice = {"batch_dice": True, "smooth": 1e-5, "do_bg": False, "ddp": True}
    loss = DC_and_CE_loss(dice, {"label_smoothing": 0.1}, dice_class=MemoryEfficientSoftDiceLoss)
    outputs, targets = batch(2, False, False, False)
    assert per_case_loss(loss)(outputs, targets).hardness.shape == (N_CASES,)


def test_a_subclass_of_a_known_loss_is_not_taken_for_it():
    class Mine(DC_and_CE_loss):
        def forward(self, net_output, target):
            return super().forward(net_output, target) ** 2

    assert isinstance(per_case_loss(Mine(dice_settings(), {}, dice_class=MemoryEfficientSoftDiceLoss)), CaseByCaseLoss)
    assert isinstance(per_case_loss(nn.CrossEntropyLoss()), CaseByCaseLoss)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("regions", "ignore"), [*itertools.product((False, True), repeat=2)])
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
def test_compiled_as_nnunet_compiles_it_gives_the_same(regions, ignore):
    loss = nnunet_loss(regions, False, ignore, True)
    outputs, targets = batch(3, regions, ignore, True)
    theirs = loss(outputs, targets)
    theirs_gradient = torch.autograd.grad(theirs, outputs[:2])
    loss.loss.dc = torch.compile(loss.loss.dc)  # what nnU-Net does with its Dice, on CUDA by default
    mine = per_case_loss(loss)
    assert isinstance(mine.voxel_sums, torch._dynamo.OptimizedModule)
    torch._dynamo.utils.counters.clear()
    value = mine(outputs, targets).weighted(torch.ones(N_CASES))
    torch.testing.assert_close(value, theirs)
    for here, there in zip(torch.autograd.grad(value, outputs[:2]), theirs_gradient, strict=True):
        torch.testing.assert_close(here, there)
    assert not torch._dynamo.utils.counters["graph_break"]
