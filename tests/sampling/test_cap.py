"""The most that a case is drawn."""

import numpy as np
import pytest

from nnunet_dro.sampling import capped


def test_bounded_weights_keep_their_proportions_below_the_bound():
    weights = capped(np.array([1.0, 2.0, 3.0, 100.0]), cap=2.5)

    assert weights[-1] == 2.5
    np.testing.assert_allclose(weights[:3] / weights[0], [1, 2, 3])
    assert weights.mean() == pytest.approx(1.0)


def test_what_the_bound_takes_may_raise_others_to_the_bound():
    weights = capped(np.array([1.0] * 8 + [30.0, 1000.0]), cap=4.0)

    np.testing.assert_allclose(weights, [0.25] * 8 + [4.0, 4.0])


def test_a_bound_that_allows_nothing_is_refused():
    with pytest.raises(ValueError, match="cap"):
        capped(np.ones(3), cap=1.0)
