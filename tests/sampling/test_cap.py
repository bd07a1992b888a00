"""How often cases of rare kinds are drawn."""

import numpy as np
import pytest

from nnunet_dro.sampling import draws_of_kinds


def test_a_rare_kind_is_drawn_as_if_it_had_a_fifth_of_the_cases():
    draws = draws_of_kinds([0] * 90 + [1] * 10, cap=4.0)

    assert draws.mean() == pytest.approx(1.0)
    assert draws[-1] / draws[0] == pytest.approx(2.0)


def test_no_case_is_drawn_more_often_than_the_bound():
    draws = draws_of_kinds([0] * 95 + [1] * 5, cap=4.0)

    assert draws[-1] / draws[0] == pytest.approx(4.0)
    assert draws.max() < 4.0


def test_a_few_images_that_look_like_no_other_are_drawn_by_chance():
    kinds = [0] * 100 + [1] * 4 + [2] * 5

    draws = draws_of_kinds(kinds, cap=4.0)

    assert draws[100:104] == pytest.approx(draws[0])
    assert draws[-1] / draws[0] == pytest.approx(4.0)


@pytest.mark.parametrize("kinds", [[0] * 5, [0, 0, 0, 1, 1], [0, 1, 2], [*range(29)] * 39])
def test_without_a_kind_rarer_than_others_draws_are_by_chance(kinds):
    np.testing.assert_array_equal(draws_of_kinds(kinds, cap=4.0), np.ones(len(kinds)))


def test_a_bound_that_bounds_nothing_is_refused():
    with pytest.raises(ValueError, match="`cap` must be a number > 1"):
        draws_of_kinds([0, 1], cap=1.0)


def test_of_several_ways_to_divide_cases_the_rarer_kind_counts():
    """Case 0 is of a rare kind by the second way, the last five by both."""
    by_one = [0] * 90 + [1] * 10
    by_another = [1] * 5 + [0] * 90 + [2] * 5

    draws = draws_of_kinds(np.transpose([by_one, by_another]), cap=3.0)

    expected = np.repeat([3.0, 1.0, 2.0, 3.0], [5, 85, 5, 5])
    np.testing.assert_allclose(draws, expected / expected.mean())
