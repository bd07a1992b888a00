"""The test is that of all permutations, its standard deviations those of all permutations, with
ties and patients."""

import itertools

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, rankdata

from nnunet_dro.exploration.rank_sums import p_lower, patients_by_size, share_lower, standardised


def all_sums(inside, ranks, patients):
    """The sum of the ranks inside, for every way in which patients of one size can change places."""
    sums = [np.zeros(1)]
    for block in patients_by_size(patients):
        members = inside[block].astype(float)
        of_ranks = ranks[block]
        ways = [
            (members[list(order)] * of_ranks).sum()
            for order in itertools.permutations(range(len(block)))
        ]
        sums.append(np.array(ways))
    total = sums[0]
    for of_block in sums[1:]:
        total = (total[:, None] + of_block).ravel()
    return total


SAMPLES = {
    "no ties": ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [1, 1, 0, 0, 1, 0], [0, 1, 2, 3, 4, 5]),
    "ties": ([0.1, 0.1, 0.3, 0.3, 0.3, 0.6], [1, 1, 0, 0, 1, 0], [0, 1, 2, 3, 4, 5]),
    "missed": ([-np.inf, -np.inf, 0.3, 0.3, 0.2, 0.6], [1, 1, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]),
    "pairs": (
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.5],
        [1, 1, 0, 0, 1, 0, 0, 0],
        [0, 0, 1, 1, 2, 2, 3, 3],
    ),
    "sizes": (
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.7, 0.8],
        [1, 1, 1, 0, 0, 0, 0, 1],
        [0, 3, 0, 1, 1, 2, 4, 5],
    ),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_p_and_z_are_those_of_all_permutations(name):
    values, inside, patients = (np.array(entries) for entries in SAMPLES[name])
    inside = inside.astype(bool)
    ranks = rankdata(values)
    sums = all_sums(inside, ranks, patients)
    observed = ranks[inside].sum()

    p = p_lower(inside, ranks, patients_by_size(patients), rng=np.random.default_rng(0))
    z = standardised(np.where(inside, 0, -1), 1, ranks, patients_by_size(patients))[0]

    exact = (sums <= observed).mean()

    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 9_999) + 2e-4)
    assert z == pytest.approx((observed - sums.mean()) / sums.std())


def test_with_one_case_per_patient_it_is_the_test_of_mann_and_whitney():
    rng = np.random.default_rng(0)
    values = rng.normal(size=30)
    inside = np.arange(30) < 8
    values[inside] -= 0.6
    expected = mannwhitneyu(values[inside], values[~inside], alternative="less", method="exact")

    p = p_lower(inside, rankdata(values), patients_by_size(np.arange(30)), rng=rng)

    assert p == pytest.approx(expected.pvalue, abs=0.01)
    assert share_lower(inside, rankdata(values)) == pytest.approx(1 - expected.statistic / (8 * 22))


def test_what_cannot_change_says_nothing():
    inside = np.array([True, True, False])
    ranks = np.array([1.0, 2.0, 3.0])

    blocks = patients_by_size(np.array([0, 0, 1]))  # one patient of each size

    assert p_lower(inside, ranks, blocks, rng=np.random.default_rng(0)) == 1
    assert standardised(np.where(inside, 0, -1), 1, ranks, blocks).tolist() == [0]

    equal = patients_by_size(np.arange(3))
    assert p_lower(inside, np.full(3, 2.0), equal, rng=np.random.default_rng(0)) == 1
    assert standardised(np.where(inside, 0, -1), 1, np.full(3, 2.0), equal).tolist() == [0]


def test_patients_keep_the_order_of_their_cases():
    assert [block.tolist() for block in patients_by_size(np.array([2, 0, 2, 1, 0]))] == [
        [[3]],
        [[1, 4], [0, 2]],
    ]
