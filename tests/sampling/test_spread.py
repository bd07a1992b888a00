"""The spread between cases, told apart from that between patches, and the beta that follows from
it."""

import pickle

import numpy as np
import pytest

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.sampling.spread import Spread

BETWEEN = 0.06
WITHIN = 0.29


def trained(n, n_visits, *, momentum=0.0, seed=0, between=BETWEEN, drift=0.0):
    """A table of cases whose losses spread by ``between``, and in which every case was seen on so
    many patches."""
    rng = np.random.default_rng(seed)
    hardness = rng.normal(size=n)
    hardness = 0.5 + between * (hardness - hardness.mean()) / max(hardness.std(), 1e-9)
    table = HardnessTable([str(i) for i in range(n)], momentum=momentum, auto_beta=True)
    for visit in range(n_visits):
        table.update(np.arange(n), hardness - drift * visit + rng.normal(0, WITHIN, size=n))
    return table


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_auto_beta_is_one_over_the_spread_between_cases(momentum, seed):
    table = trained(400, 60, momentum=momentum, seed=seed)
    assert table.estimate_beta() == pytest.approx(1 / BETWEEN, rel=0.2)
    if momentum == 0:
        assert 1 / table.losses.std() == pytest.approx(3.4, abs=0.3), (
            "the spread of the stale losses is the patches'"
        )


def test_auto_beta_does_not_mind_losses_that_fall_during_the_training():
    assert trained(400, 60, drift=0.02).estimate_beta() == pytest.approx(1 / BETWEEN, rel=0.2)


def test_cases_that_are_seen_often_do_not_dominate():
    """Half of the cases have no noise and are seen ten times as often; each case counts once all
    the same."""
    rng = np.random.default_rng(0)
    n = 2000
    hardness = rng.normal(0, BETWEEN, size=n)
    spread = Spread(n)

    for visit in range(100):
        for i in range(n):
            if i % 2 == 0:
                spread.record(i, hardness[i])
            elif visit % 10 == 0:
                spread.record(i, hardness[i] + rng.normal(0, WITHIN))

    assert np.sqrt(spread.between_cases()) == pytest.approx(BETWEEN, rel=0.1)


@pytest.mark.parametrize(
    ("n_visits", "variance"),
    [(2, 1 / 2), (5, 1 / 5), (10, 1 / 10), (60, 0.1 / 1.9), (100, 0.1 / 1.9)],
)
def test_the_mean_of_a_case_varies_as_it_says(n_visits, variance):
    """Equal cases: what is left of the variance is nothing, and the smallest result."""
    spread = trained(2000, n_visits, between=0.0)._stale.spread
    total = spread._means.var()

    assert spread.between_cases() == pytest.approx(total * np.sqrt(2 / 1999))
    assert spread._noise.mean() == pytest.approx(WITHIN**2, rel=0.1)
    assert total / WITHIN**2 == pytest.approx(variance, rel=0.15)


def test_spread_of_values_computed_by_hand():
    spread = Spread(3)
    assert np.isnan(spread.between_cases())

    for case, loss in ((0, 1.0), (1, 2.0), (2, 6.0)):
        spread.record(case, loss)
    assert spread.between_cases() == pytest.approx(14 / 3), "nothing is known of the noise yet"

    spread.record(0, 3.0)
    # Means 2, 2, 6; noise (3 - 1)^2 / 2 = 2 of one loss; variances of the means 1/2, 1, 1 of it.
    total = 32 / 9
    noise = 2 * (0.5 + 1 + 1) / 3 * 2 / 3

    assert spread.between_cases() == pytest.approx(max(total - noise, total))

    few = Spread(1)
    few.record(0, 1.0)

    assert few.between_cases() == 0


def test_the_estimate_survives_a_checkpoint_by_case_name():
    table = trained(50, 20)
    names = list(table.cases)
    again = HardnessTable(names[::-1], auto_beta=True)

    again.load_state_dict(pickle.loads(pickle.dumps(table.state_dict())))

    assert again.estimate_beta() == pytest.approx(table.estimate_beta())
