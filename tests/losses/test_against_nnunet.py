"""The per-case losses against nnU-Net's own, forward and gradient, for every configuration it has."""

import shutil

import pytest
import torch
from nnunetv2.training.loss.compound_losses import DC_and_CE_loss
from nnunetv2.training.loss.dice import MemoryEfficientSoftDiceLoss
from nnunetv2.training.loss.robust_ce_loss import RobustCrossEntropyLoss
from torch import nn

from nnunet_dro.losses import CaseByCaseLoss, DiceCELoss
from nnunet_dro.trainers.options import HWSOptions
from nnunet_dro.trainers.weighted_loss import per_case_loss
from tests.losses.configurations import (
    N_CASES,
    UNKNOWN_LOSSES,
    WEIGHTS,
    Configuration,
    alone,
    configurations,
    dice_settings,
    gradients,
    leaves,
    select,
    supervised,
)


@configurations()
def test_hardness_is_nnunets_loss_on_each_case_alone(made):
    loss, (outputs, targets) = made.loss(), made.batch()
    mine = per_case_loss(loss)

    assert isinstance(mine, DiceCELoss)

    hardness = mine(outputs, targets).hardness
    assert not hardness.requires_grad
    torch.testing.assert_close(hardness, alone(loss, outputs, targets))


@configurations()
def test_training_loss_with_weights_of_one_is_nnunets(made):
    loss, (outputs, targets) = made.loss(), made.batch()
    theirs = loss(outputs, targets)

    mine = per_case_loss(loss)(outputs, targets).weighted(torch.ones(N_CASES))

    torch.testing.assert_close(mine, theirs)

    both = (
        torch.autograd.grad(value, leaves(outputs), allow_unused=True) for value in (mine, theirs)
    )
    for here, there in zip(*both, strict=True):
        assert (here is None) == (there is None), "the resolution with factor 0 is not looked at"
        if here is not None:
            torch.testing.assert_close(here, there)


@configurations(batch_dice=False, ignore=False)
def test_per_case_dice_makes_the_loss_the_weighted_mean_of_the_cases(made):
    cases = per_case_loss(made.loss())(*made.batch())
    torch.testing.assert_close(cases.weighted(WEIGHTS).detach(), (WEIGHTS * cases.hardness).mean())


@configurations(dimensions=2, ignore=False)
@pytest.mark.parametrize(
    ("weights", "cases"), [((1.0, 0.0, 1.0), [0, 2]), ((1.0, 2.0, 1.0), [0, 1, 1, 2])]
)
def test_weights_of_zero_and_two_leave_out_and_repeat(made, weights, cases):
    """Up to the factor 1/b: the mean is over the b cases of the batch, whatever their weights."""
    (outputs, targets), mine = made.batch(), per_case_loss(made.loss())
    for mine.weight_ce, mine.weight_dice in ((1.0, 0.0), (0.0, 1.0)):
        weighted = mine(outputs, targets).weighted(torch.tensor(weights))
        explicit = mine(select(outputs, cases), select(targets, cases)).weighted(
            torch.ones(len(cases))
        )
        both = ((value, *gradients(value, outputs)) for value in (weighted, explicit))
        for here, there in zip(*both, strict=True):
            torch.testing.assert_close(here, there * len(cases) / N_CASES)


@pytest.mark.parametrize(("weight_ce", "weight_dice"), [(0.0, 1.0), (1.0, 0.0), (0.5, 2.0)])
def test_factors_of_dice_and_cross_entropy_are_nnunets(weight_ce, weight_dice):
    dice = {**dice_settings(), "smooth": 0.0, "do_bg": True}
    factors = {"weight_ce": weight_ce, "weight_dice": weight_dice}
    loss = DC_and_CE_loss(dice, {}, **factors, dice_class=MemoryEfficientSoftDiceLoss)
    outputs, targets = Configuration().batch()

    mine = per_case_loss(loss)

    assert isinstance(mine, DiceCELoss)
    torch.testing.assert_close(
        mine(outputs, targets).weighted(torch.ones(N_CASES)), loss(outputs, targets)
    )


@pytest.mark.parametrize("name", UNKNOWN_LOSSES)
@pytest.mark.filterwarnings("ignore:size_average and reduce")
@pytest.mark.parametrize("deep_supervision", [False, True])
def test_an_unknown_loss_is_evaluated_case_by_case(name, deep_supervision):
    loss = supervised(UNKNOWN_LOSSES[name]()) if deep_supervision else UNKNOWN_LOSSES[name]()
    outputs, targets = Configuration(deep_supervision=deep_supervision).batch()

    mine = per_case_loss(loss)

    assert isinstance(mine, CaseByCaseLoss)

    expected = alone(loss, outputs, targets)
    cases = mine(outputs, targets)

    torch.testing.assert_close(cases.hardness, expected)

    weights = torch.tensor([0.5, 0.0, 4.0])
    torch.testing.assert_close(cases.weighted(weights).detach(), (weights * expected).mean())


def test_a_loss_on_one_case_does_not_wait_for_the_other_ranks():
    dice = {**dice_settings(), "batch_dice": True, "ddp": True}
    loss = DC_and_CE_loss(dice, {"label_smoothing": 0.1}, dice_class=MemoryEfficientSoftDiceLoss)

    assert per_case_loss(loss)(*Configuration().batch()).hardness.shape == (N_CASES,)
    assert loss.dc.ddp, "nnU-Net's validation loss gathers as before"


def test_a_patch_in_which_nothing_is_annotated_has_no_loss_and_no_gradient():
    loss = per_case_loss(RobustCrossEntropyLoss(ignore_index=4))
    output = torch.randn(3, 4, 5, 5, requires_grad=True)
    target = torch.randint(4, (3, 1, 5, 5))
    target[1] = 4

    cases = loss(output, target)

    assert cases.hardness.isnan().tolist() == [False, True, False]

    cases.weighted(torch.tensor([1.0, torch.nan, 1.0])).backward()
    assert output.grad.isfinite().all()
    assert loss(torch.nan * output, target).weighted(torch.ones(3)).isnan(), (
        "a network that has diverged shows"
    )


def test_a_subclass_of_a_known_loss_is_not_taken_for_it():
    class Mine(DC_and_CE_loss):
        def forward(self, net_output, target):
            return super().forward(net_output, target) ** 2

    assert isinstance(
        per_case_loss(Mine(dice_settings(), {}, dice_class=MemoryEfficientSoftDiceLoss)),
        CaseByCaseLoss,
    )
    assert isinstance(per_case_loss(nn.CrossEntropyLoss()), CaseByCaseLoss)


PLAIN = HWSOptions()
ADJUSTED = HWSOptions(
    logit_adjustment=1.0, vector_scaling=0.3, polynomial_tail=2.0, hardness="present"
)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("regions", [False, True])
@pytest.mark.parametrize(("ignore", "options"), [(False, PLAIN), (True, ADJUSTED)])
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
def test_compiled_as_nnunet_compiles_it_gives_the_same(regions, ignore, options):
    made = Configuration(3, regions=regions, ignore=ignore, deep_supervision=True)
    shares = (0.6, 0.25, 0.1, 0.05)
    loss, (outputs, targets) = made.loss(), made.batch()
    expected = per_case_loss(loss, options, shares=shares)(outputs, targets)
    theirs = loss(outputs, targets) if options is PLAIN else expected.weighted(torch.ones(N_CASES))
    loss.loss.dc = torch.compile(
        loss.loss.dc
    )  # what nnU-Net does with its Dice, on CUDA by default

    mine = per_case_loss(loss, options, shares=shares)

    assert isinstance(mine.voxel_sums, torch._dynamo.OptimizedModule)

    torch._dynamo.utils.counters.clear()
    cases = mine(outputs, targets)
    value = cases.weighted(torch.ones(N_CASES))

    torch.testing.assert_close(cases.hardness, expected.hardness)
    torch.testing.assert_close(value, theirs)
    for here, there in zip(gradients(value, outputs), gradients(theirs, outputs), strict=True):
        torch.testing.assert_close(here, there)
    assert not torch._dynamo.utils.counters["graph_break"]
