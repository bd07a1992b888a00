import math

import numpy as np
import pytest
import torch

from nnunet_dro.losses import ImportanceWeights
from nnunet_dro.sampling import HardnessTable

nan = math.nan


def drawn(beta, n, *, share=0.0, explored=0.0):
    """The numbers of n draws: betas, shares of the softmax, and parts of exploration."""
    names = {"betas": beta, "shares": share, "explored": explored}
    return {name: torch.as_tensor(value).expand(n) for name, value in names.items()}


WIDE = {"low": 0.0, "high": 1e30}


@pytest.mark.parametrize(
    ("settings", "losses", "stale", "numbers", "weights"),
    [
        # The exponential of the change.
        (
            {},
            [1.0, 1.5, 0.5],
            [1.0, 1.0, 1.0],
            {"beta": 2.0, "share": 0.2},
            [1.0, math.e, 1 / math.e],
        ),
        # One at a first visit, where a loss is not finite, without robustness, and for exploration
        # alone.
        ({}, [3.0, nan, math.inf], [nan, 0.0, 0.0], {"beta": 100.0, "share": 1 / 3}, [1.0] * 3),
        ({"exact": True}, [1.5], [nan], {"beta": 1.0, "share": 0.5}, [1.0]),
        ({}, [5.0, -3.0], [0.0, 0.0], {"beta": 0.0, "share": 0.5}, [1.0, 1.0]),
        *(
            ({"exact": exact}, [1.0], [0.0], {"beta": 100.0, "explored": 1.0}, [1.0])
            for exact in (False, True)
        ),
        # The exact ratio is the exponential for rare cases, and bounded by one over p.
        ({"exact": True, **WIDE}, [1.5], [0.0], {"beta": 1.0, "share": 1e-9}, [math.e**1.5]),
        (
            {"exact": True, **WIDE},
            [40.0, -40.0],
            [0.0] * 2,
            {"beta": 1.0, "share": 0.25},
            [4, math.exp(-40) / 0.75],
        ),
        # Batches wait in queues while beta is estimated anew: that of its own draw counts.
        (
            {},
            [1.0, 1.0],
            [0.0, 0.0],
            {"beta": torch.tensor([0.5, 2.0]), "share": 0.1},
            [math.e**0.5, math.e**2],
        ),
    ],
)
def test_weights_by_hand(settings, losses, stale, numbers, weights):
    losses = torch.tensor(losses, requires_grad=True)
    found, clipped = ImportanceWeights(**settings)(
        losses, torch.tensor(stale), **drawn(n=len(losses), **numbers)
    )

    torch.testing.assert_close(found, torch.tensor(weights, dtype=torch.float32))
    assert not clipped.any()
    assert not found.requires_grad


@pytest.mark.parametrize("beta", [1.0, 1e6])
def test_weights_are_clipped(beta):
    weigh = ImportanceWeights(low=0.1, high=10.0)
    fresh = torch.tensor([9.0, -9.0, 0.0])

    weights, clipped = weigh(fresh, torch.zeros(3), **drawn(beta, 3, share=0.2))

    torch.testing.assert_close(weights, torch.tensor([10.0, 0.1, 1.0]))
    assert clipped.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(
            ({"low": low, "high": high}, "`clip`")
            for low, high in [(-0.1, 10), (1.1, 10), (0.1, 0.9), (0.1, math.inf)]
        ),
        *(
            ({"momentum": value}, r"`momentum` must be a number in \[0, 1\), got")
            for value in (-0.1, 1.0, nan)
        ),
    ],
)
def test_numbers_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        ImportanceWeights(**settings)


MOMENTA = pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])


def change_of_probabilities(
    momentum, seed, *, beta=3.0, n_cases=7, size=1, exploration=0.0, auto_beta=False
):
    """A case that is drawn from a table and updated: its draw, its fresh loss, the probabilities
    before and after."""
    rng = np.random.default_rng(seed)
    cases = [f"case_{i}" for i in range(n_cases)]
    table = HardnessTable(
        cases, beta=beta, momentum=momentum, exploration=exploration, auto_beta=auto_beta
    )
    for _ in range(3):
        table.update(np.arange(n_cases), rng.normal(size=n_cases))
    if auto_beta:
        table.estimate_beta()
    draws = table.draw(size, rng=rng)
    before = table.probabilities()
    fresh = rng.normal(size=1)
    table.update(draws.indices[:1], fresh)
    return draws, fresh, before, table.probabilities()


def weight_of(draws, fresh, **settings):
    """The weight of the first of the draws."""
    values = (draws.stale_losses, draws.shares, draws.explored, draws.betas)
    stale, *numbers = (torch.as_tensor(value)[:1] for value in values)
    weigh = ImportanceWeights(low=0.0, high=1e9, **settings)
    at_draw = dict(zip(("shares", "explored", "betas"), numbers, strict=True))
    return float(weigh(torch.as_tensor(fresh), stale, **at_draw)[0])


@MOMENTA
@pytest.mark.parametrize(
    "how", [{}, {"auto_beta": True}, {"beta": 6.0, "size": 3, "exploration": 0.3}], ids=str
)
@pytest.mark.parametrize("seed", range(5))
def test_the_exact_weight_is_what_an_update_does_to_the_probability(momentum, how, seed):
    """Fidon et al. 2022, eq. (19): the softmax with the case's fresh loss, over that with its stale
    one.

    Not with the limit of 1/b of a case that is in every batch, and no more than exploration leaves.
    """
    draws, fresh, before, after = change_of_probabilities(momentum, seed, **how)
    assert (before > 1 / 3).any() or "size" not in how, "one case must be in every batch"

    case = draws.indices[0]
    assert weight_of(draws, fresh, exact=True, momentum=momentum) == pytest.approx(
        after[case] / before[case], rel=1e-9
    )


@MOMENTA
@pytest.mark.parametrize("seed", range(5))
def test_the_weight_is_what_an_update_does_to_the_odds_against_another(momentum, seed):
    draws, fresh, before, after = change_of_probabilities(momentum, seed)
    (case,) = draws.indices
    other = (case + 1) % len(before)

    ratio = (after[case] / after[other]) / (before[case] / before[other])

    assert weight_of(draws, fresh, momentum=momentum) == pytest.approx(ratio, rel=1e-9)


def test_a_long_history_makes_calm_weights():
    """Losses of 0 with a patch noise s: log w has the standard deviation beta s (1 - m) sqrt(2 / (1
    + m))."""
    beta = 10.0
    noise = 0.2
    rng = np.random.default_rng(0)
    table = HardnessTable([f"case_{i}" for i in range(5000)], beta=beta, momentum=0.9)
    every = np.arange(len(table))
    for _ in range(60):
        table.update(every, rng.normal(scale=noise, size=len(table)))
    fresh = torch.tensor(rng.normal(scale=noise, size=len(table)))
    stale = torch.tensor(table.losses)

    weights, clipped = ImportanceWeights(momentum=0.9)(fresh, stale, **drawn(beta, len(table)))

    assert float(weights.log().std()) == pytest.approx(
        beta * noise * 0.1 * math.sqrt(2 / 1.9), rel=0.05
    )
    assert not clipped.any()
    assert float(weights.sum() ** 2 / weights.square().sum() / len(table)) == pytest.approx(
        0.96, abs=0.01
    )


@pytest.mark.parametrize("replace", [False, True])
def test_no_importance_weight_corrects_a_batch_of_first_visits(replace):
    """Neither a first visit nor the case that fills its batch, whatever their losses are by then."""
    table = HardnessTable(list("abcd"), beta=100.0, replace=replace)
    table.update([0, 1, 3], [0.0, 0.5, 1.0])

    for _ in range(20):
        draws = table.draw(3, rng=np.random.default_rng(0))

        weights, clipped = ImportanceWeights()(
            torch.ones(3),
            torch.from_numpy(draws.stale_losses),
            shares=torch.from_numpy(draws.shares),
            explored=torch.from_numpy(draws.explored),
            betas=torch.from_numpy(draws.betas),
        )
        assert weights.tolist() == [1, 1, 1]
        assert not clipped.any()
        assert not draws.betas.any()
        assert np.isnan(draws.stale_losses).all()
