"""Weights inside one Dice for the whole batch: of degree one, as the rest of the loss is."""

import itertools

import pytest
import torch

from nnunet_dro.losses import DiceCELoss
from nnunet_dro.trainers.weighted_loss import per_case_loss
from tests.losses.configurations import N_CASES, WEIGHTS, Configuration, configurations, gradients


@configurations()
def test_a_common_factor_of_the_weights_is_one_of_the_loss(made):
    """Of the Dice as of the cross-entropy, so that a weight changes the step and not the balance of
    the two.

    Without any weight nothing is learnt.
    """
    (outputs, targets), mine = made.batch(), per_case_loss(made.loss())
    for mine.weight_ce, mine.weight_dice in ((1.0, 1.0), (0.0, 1.0), (1.0, 0.0)):
        cases = mine(outputs, targets)
        for weights in (torch.ones(N_CASES), WEIGHTS):
            once, *others = (
                (value, *gradients(value, outputs))
                for value in (cases.weighted(factor * weights) for factor in (1.0, 10.0, 0.1, 0.0))
            )
            for factor, often in zip((10.0, 0.1, 0.0), others, strict=True):
                for here, there in zip(often, once, strict=True):
                    torch.testing.assert_close(
                        here, factor * there, rtol=1e-4, atol=1e-7 if factor else 0
                    )


def test_a_common_factor_is_exact_however_large_smooth_is():
    """As on slices without a class, where `smooth` is all there is in the Dice."""
    outputs, targets = Configuration().batch()
    cases = DiceCELoss(batch_dice=True, do_bg=False, smooth=50.0, weight_ce=0.0)(outputs, targets)

    torch.testing.assert_close(
        cases.weighted(8 * WEIGHTS), 8 * cases.weighted(WEIGHTS), rtol=1e-6, atol=0
    )


def test_the_dice_of_two_cases_by_hand():
    """Weights 3 and 1 of mean 2: 2 x Dice of 1.5 and 0.5 times the volumes."""
    loss = DiceCELoss(regions=True, batch_dice=True, do_bg=True, smooth=0.0, weight_ce=0.0)
    probabilities = torch.tensor([[[0.8, 0.4]], [[0.1, 0.5]]])
    cases = loss(torch.logit(probabilities), torch.tensor([[[1, 0]], [[1, 1]]]))

    expected = 2 * (2 * (1.5 * 0.8 + 0.5 * 0.6) / (1.5 * (1.2 + 1) + 0.5 * (0.6 + 2)))

    assert float(cases.weighted(torch.tensor([3.0, 1.0]))) == pytest.approx(-expected)


def some_slices(seed):
    """Slices with objects that are found, missed and invented: logits and labels of 2 to 8 cases,
    and weights."""
    generator = torch.Generator().manual_seed(seed)

    def whole(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    n_cases = whole(2, 9)
    size = 12
    logits = torch.randn(n_cases, 3, size, size, generator=generator)
    logits[:, 0] += 2
    labels = torch.zeros(n_cases, 1, size, size, dtype=torch.int64)
    for case, label in itertools.product(range(n_cases), (1, 2)):
        is_there, is_seen = torch.rand(2, generator=generator) < torch.tensor([0.7, 0.7])
        width = whole(1, 7)
        corner = [whole(0, size - width + 1) for _ in range(2)]
        square = tuple(slice(start, start + width) for start in corner)
        if is_there:
            labels[case, 0][square] = label
        if is_seen:
            logits[case, label][square] += 6 * torch.rand(1, generator=generator)
    weights = torch.randn(n_cases, generator=generator).exp().clamp(0.1, 10)
    return logits.requires_grad_(), labels, weights


@pytest.mark.parametrize("weight_ce", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(20))
def test_a_case_moves_the_network_more_the_larger_its_own_weight_is(weight_ce, seed):
    logits, labels, weights = some_slices(seed)
    cases = DiceCELoss(batch_dice=True, do_bg=False, weight_ce=weight_ce)(logits, labels)
    for i in range(len(weights)):
        norms = []
        for own in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0):
            changed = torch.where(torch.arange(len(weights)) == i, own, weights)
            (gradient,) = torch.autograd.grad(cases.weighted(changed), logits, retain_graph=True)
            norms.append(float(gradient[i].norm()))
        assert norms == sorted(norms)
        assert norms[0] < norms[-1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
@pytest.mark.parametrize("batch_dice", [False, True])
def test_compiled_it_is_one_graph(batch_dice):
    loss = DiceCELoss(batch_dice=batch_dice, do_bg=False)
    outputs, targets = Configuration().batch()

    def weighted(logits, target, weights):
        return loss(logits, target).weighted(weights)

    torch._dynamo.reset()
    compiled = torch.compile(weighted, backend="aot_eager", fullgraph=True)
    mine = compiled(outputs, targets, WEIGHTS)

    expected = weighted(outputs, targets, WEIGHTS)

    torch.testing.assert_close(mine, expected)
    for here, there in zip(
        *(torch.autograd.grad(value, outputs) for value in (mine, expected)), strict=True
    ):
        torch.testing.assert_close(here, there)
