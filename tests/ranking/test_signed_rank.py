"""One-sided signed-rank tests of many rows, against scipy's."""

import numpy as np
import pytest
from scipy.stats import PermutationMethod, norm, wilcoxon

from nnunet_dro.ranking.signed_rank import one_sided_p, resampled_z


def scipys(differences, alternative, method=None):
    """The p value of scipy, which is exact for few differences, as ours is."""
    kept = differences[(differences != 0) & ~np.isnan(differences)]
    kept = np.where(np.isinf(kept), np.sign(kept) * 1e9, kept)
    are_unequal = len(np.unique(np.abs(kept))) == len(kept)
    usual = "exact" if are_unequal and len(kept) <= 50 else "asymptotic"
    if not are_unequal and len(kept) <= 13:
        # All of the 2^13 signs at most.
        usual = PermutationMethod()
    return wilcoxon(kept, alternative=alternative, method=method or usual).pvalue


@pytest.mark.parametrize(
    ("n", "decimals"),
    [(1, 9), (6, 9), (49, 9), (50, 9), (51, 9), (80, 9), (60, 1), (8, 0), (13, 0), (14, 0)],
)
def test_p_values_are_those_of_scipy(n, decimals):
    differences = np.round(np.random.default_rng(n).normal(0.2, 1, (4, n)), decimals)
    greater, less = one_sided_p(differences)

    np.testing.assert_allclose(greater, [scipys(row, "greater") for row in differences], rtol=1e-9)
    np.testing.assert_allclose(less, [scipys(row, "less") for row in differences], rtol=1e-9)


def test_zeros_and_undefined_values_are_left_out_and_failures_are_largest():
    row = np.array([0.1, 0.0, np.nan, np.inf, -0.2, np.inf, -0.3, -np.inf] * 8)
    greater, less = one_sided_p(row[None])

    assert greater[0] == pytest.approx(scipys(row, "greater", "asymptotic"))
    assert less[0] == pytest.approx(scipys(row, "less", "asymptotic"))


def test_without_a_difference_nothing_is_better_and_inputs_are_not_changed():
    greater, less = one_sided_p(np.array([[0.0, 0.0], [np.nan, np.nan]]))
    assert greater.tolist() == less.tolist() == [1, 1]

    differences = np.array([[0.0, 0.0], [np.nan, 0.3], [0.5, -np.inf]])
    before = differences.copy()
    z = resampled_z(differences, np.array([[2, 0], [1, 1]]))

    assert z[0, :2].tolist() == [0, 0]

    one_sided_p(differences)
    np.testing.assert_array_equal(differences, before)


def test_resamples_are_those_of_scipy():
    rng = np.random.default_rng(0)
    differences = rng.normal(0.2, 1, (5, 30))
    differences[2:] = np.round(differences[2:], 1)
    differences[4, :5] = [np.inf, np.inf, -np.inf, np.nan, 0]
    counts = rng.multinomial(30, np.full(30, 1 / 30), size=10)
    z = resampled_z(differences, counts)
    for sample in range(10):
        for row in range(5):
            drawn = np.repeat(differences[row], counts[sample])
            expected = {way: scipys(drawn, way, "asymptotic") for way in ("greater", "less")}
            assert norm.sf(z[sample, row]) == pytest.approx(expected["greater"])
            assert norm.cdf(z[sample, row]) == pytest.approx(expected["less"])
