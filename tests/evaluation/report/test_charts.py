import math
import re

import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation.report import figures
from nnunet_dro.evaluation.report.figures import distribution, quantile_curves, swarm
from nnunet_dro.evaluation.report.forest_plot import forest
from nnunet_dro.evaluation.report.scatter_plots import against_volume, paired
from nnunet_dro.evaluation.scoring.metrics import METRICS
from tests.pages.drawn_dots import drawn_dots

DICE = METRICS["dice"]
HD95 = METRICS["hd95"]


def stratum(values, index=0, title="A", **marks):
    given = dict.fromkeys(("mean", "p5", "p25", "median", "p75", "max"), math.nan) | marks
    values = np.asarray(values, dtype=float)
    return figures.StratumCases(index, title, len(values), values, np.arange(len(values)), given)


def differences(*rows):
    """Rows of a comparison: stratum, and the difference of the mean with its bounds."""
    names = ["stratum", "mean_difference", "mean_difference_low", "mean_difference_high"]
    return pd.DataFrame(rows, columns=names).assign(attribute="centre", label="l")


def points(x, y):
    return pd.DataFrame({"x": x, "y": y, "row": range(len(x)), "stratum": 0})


def test_swarm_keeps_equal_dots_apart_and_inside():
    assert sorted(swarm(np.zeros(5), size=5, half=20)) == [-10, -5, 0, 5, 10]
    assert np.abs(swarm(np.zeros(1000), size=5, half=20)).max() == 20
    assert swarm(np.array([])).size == 0


def test_every_case_is_a_dot_at_its_value():
    marked = stratum([0.0, 50.0, 100.0], median=50.0, p5=5.0, p25=25.0, p75=75.0)
    svg = distribution([marked], DICE, label="x", column=3)

    # The axis runs from 14 to 466.
    assert [x for _, x, _ in drawn_dots(svg)] == [14, 240, 466]
    assert "P5 5.0" in svg
    assert 'data-columns="3"' in svg

    svg = distribution([stratum([10.0, 20.0, 90.0])], DICE, label="x", column=0, at_most=2)
    assert [row for row, *_ in drawn_dots(svg)] == [0, 1]

    svg = distribution([stratum([])], HD95, label="x", column=0) + quantile_curves(
        [stratum([])], DICE, label="x"
    )
    assert drawn_dots(svg) == []
    assert "polyline" not in svg
    assert "nan" not in svg


@pytest.mark.parametrize(
    ("values", "points"),
    [
        ([0.0, 100.0, 50.0], "46,280 257,153 468,26"),
        ([50.0], "46,237.7 468,237.7"),
    ],
)
def test_quantile_curve_goes_through_every_case(values, points):
    assert f'points="{points}"' in quantile_curves([stratum(values)], DICE, label="x")


def test_volumes_of_more_than_a_decade_are_logarithmic():
    wide = against_volume(points([1, 10, 100], [50, 60, 70]), DICE, label="x", columns=[0, 1])
    narrow = against_volume(points([1, 5], [50, 60]), DICE, label="x", columns=[0, 1])

    assert ">50<" in wide
    assert ">100<" in wide
    assert ">0<" in narrow

    svg = against_volume(
        points([0, 5, math.nan, 6], [1, math.nan, 3, 4]), DICE, label="x", columns=[0, 1]
    )
    assert [row for row, *_ in drawn_dots(svg)] == [3]
    assert not against_volume(points([0], [1]), DICE, label="x", columns=[0, 1])


def test_equal_cases_lie_on_the_diagonal():
    svg = paired(points([50.0], [50.0]), DICE, methods=("ERM", "DRO"), label="x", columns=[1, 2, 3])
    numbers = re.search(
        r'x1="(\S+)" y1="(\S+)" x2="(\S+)" y2="(\S+)" class="diagonal"', svg
    ).groups()
    x1, y1, x2, y2 = map(float, numbers)

    ((_, x, y),) = drawn_dots(svg)

    assert (x - x1) / (x2 - x1) == pytest.approx((y - y1) / (y2 - y1), abs=0.002)


def test_forest_marks_better_worse_and_undefined():
    nan = math.nan
    rows = differences(("A", 0.05, 0.01, 0.09), ("B", -0.05, -0.09, -0.01), ("C", nan, nan, nan))

    svg = forest(rows, DICE, "mean")

    assert [svg.count(text) for text in ("estimate better", "estimate worse", "not defined")] == [
        1,
        1,
        1,
    ]
    assert "estimate worse" in forest(rows[:1], HD95, "mean")
    assert not forest(rows[2:], DICE, "mean")


def test_forest_spreads_small_volumes_over_its_width():
    rows = differences(("A", 0.05, 0.01, 0.09))

    svg = forest(rows, METRICS["absolute_volume_error"], "mean")

    left, right = re.search(
        r'<line x1="(\S+)" y1="\S+" x2="(\S+)" y2="\S+" class="whisker', svg
    ).groups()
    assert float(right) - float(left) > 200
