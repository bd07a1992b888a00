"""Weights by the inverse density of fingerprints."""

import numpy as np
import pytest

from nnunet_dro.sampling.rarity import capped, rarity


def two_scanners(n_rare, n_common, *, seed=0):
    """Features of cases of two scanners, the rare one first."""
    rng = np.random.default_rng(seed)
    rare = rng.normal(4.0, 1.0, (n_rare, 5))
    common = rng.normal(0.0, 1.0, (n_common, 5))
    return np.concatenate([rare, common])


def test_a_rare_scanner_is_drawn_several_times_as_often():
    weights = rarity(two_scanners(6, 120), cap=8.0)

    assert weights.mean() == pytest.approx(1.0)
    assert weights.max() <= 8.0
    assert weights[:6].mean() > 3 * weights[6:].mean()


def test_no_weight_exceeds_the_bound():
    features = two_scanners(1, 50)
    features[0] = 1e6

    weights = rarity(features, cap=4.0)

    assert weights[0] == pytest.approx(4.0)
    assert weights.mean() == pytest.approx(1.0)


def test_units_and_order_of_the_features_do_not_matter():
    features = two_scanners(6, 60)
    other = (features * [1, 10, 100, 1e3, 1e-3] + 7)[:, ::-1]

    np.testing.assert_allclose(rarity(other, cap=8.0), rarity(features, cap=8.0), rtol=1e-6)


@pytest.mark.parametrize(
    "features", [np.zeros((5, 3)), np.full((1, 2), 3.0), np.array([[0.0], [1.0]])]
)
def test_what_cannot_be_told_apart_is_drawn_uniformly(features):
    np.testing.assert_allclose(rarity(features, cap=8.0), 1.0)


def test_copies_of_one_image_do_not_make_the_width_zero():
    features = np.concatenate([np.zeros((20, 2)), np.array([[1.0, 0.0], [0.0, 2.0]])])

    weights = rarity(features, cap=8.0)

    assert np.isfinite(weights).all()
    assert weights[-1] > weights[0]


def test_bounded_weights_keep_their_proportions_below_the_bound():
    weights = capped(np.array([1.0, 2.0, 3.0, 100.0]), cap=2.5)

    assert weights[-1] == 2.5
    np.testing.assert_allclose(weights[:3] / weights[0], [1, 2, 3])
    assert weights.mean() == pytest.approx(1.0)


@pytest.mark.parametrize("features", [np.zeros((0, 3)), [[np.nan, 1.0]], np.zeros(4)])
def test_features_that_say_nothing_are_refused(features):
    with pytest.raises(ValueError, match="features"):
        rarity(features, cap=8.0)


def test_a_bound_that_allows_nothing_is_refused():
    with pytest.raises(ValueError, match="cap"):
        rarity(np.zeros((3, 2)), cap=1.0)
