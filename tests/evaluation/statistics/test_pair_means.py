"""Tests of `nnunet_dro.evaluation.statistics.pair_means`."""

import numpy as np
import pytest
from scipy import stats

from nnunet_dro.evaluation.statistics.pair_means import ordered_pair_means
from nnunet_dro.evaluation.statistics.significance import wilcoxon_p

KINDS = ("smooth", "skewed", "rounded", "mostly 0", "few values")


def made(kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    values = rng.normal(0.1, 1, n)
    return {
        "smooth": values,
        "skewed": rng.gamma(2, 2, n) * rng.choice([-1, 1.2], n),
        "rounded": np.round(values, 2),
        "mostly 0": np.where(rng.random(n) < 0.8, 0, values),
        "few values": rng.integers(-3, 4, n) / 10,
    }[kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 30, 251, 400, 501, 1200])
def test_pair_means_are_those_of_a_list_of_all_pairs(n, kind):
    ascending = np.sort(made(kind, n))
    first, second = np.triu_indices(n)
    listed = np.sort((ascending[first] + ascending[second]) / 2)
    places = [1, len(listed), (len(listed) + 1) // 2, len(listed) // 2 + 1, len(listed) // 40 + 1]

    means = ordered_pair_means(ascending, places)

    expected = listed[np.array(places) - 1]
    np.testing.assert_allclose(means, expected, rtol=1e-12, atol=1e-16)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [8, 50, 51, 400])
def test_the_p_value_of_the_signed_ranks_is_that_of_scipy(n, kind):
    values = made(kind, n)
    # A failure has the largest rank, whatever the other method's value is.
    values[:2] = np.inf
    nonzero = values[values != 0]

    assert wilcoxon_p(values) == stats.wilcoxon(nonzero).pvalue
