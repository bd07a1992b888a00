import pytest

from nnunet_dro.pages.svg import Scale, legend_mark, round_step, value_range


def test_scale_maps_ends_and_middle():
    linear, log = Scale(0, 100, 10, 110), Scale(1, 100, 0, 10, logarithmic=True)
    assert [linear(0), linear(50), linear(100)] == [10, 60, 110]
    assert [log(1), log(10), log(100)] == [0, 5, 10]


def test_ticks_are_round_and_inside():
    assert Scale(0, 100, 0, 1).ticks() == [0, 20, 40, 60, 80, 100]
    assert Scale(40, 100, 0, 1).ticks() == [40, 50, 60, 70, 80, 90, 100]
    assert Scale(0.9, 55, 0, 1, logarithmic=True).ticks() == [1, 2, 5, 10, 20, 50]
    assert Scale(0.5, 2e6, 0, 1, logarithmic=True).ticks() == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]


@pytest.mark.parametrize(("least", "step"), [(0.9, 1), (1, 1), (1.1, 2), (3, 5), (7, 10), (0.03, 0.05)])
def test_steps_are_one_two_or_five(least, step):
    assert round_step(least) == pytest.approx(step)


def test_axis_of_fractions_ends_at_100():
    assert value_range([63.0, 97.0], fraction=True) == (60, 100)
    assert value_range([1.0], fraction=True) == (0, 100)
    assert value_range([99.0], fraction=True) == (80, 100)
    assert value_range([], fraction=True)[1] == 100
    assert value_range([3.0, 12.0], fraction=False) == (0, 15)
    assert value_range([0.0], fraction=False)[1] > 0
    # Errors with a sign lie on both sides of 0.
    assert value_range([-3.0, 12.0], fraction=False) == (-5, 15)
    assert value_range([-12.0, -3.0], fraction=False) == (-15, 0)


def test_35_strata_look_different():
    assert len({legend_mark(n) for n in range(35)}) == 35
