import math

import pytest

from nnunet_dro.evaluation.report.formatting import (
    at_start,
    attribute_title,
    bounds,
    difference,
    interval,
    metric_named,
    number,
    p_value,
    quantity,
    shown_statistics,
    stratum_title,
    volume,
)
from nnunet_dro.evaluation.scoring.metrics import METRICS

DICE, HD95 = METRICS["dice"], METRICS["hd95"]
NAN = math.nan


@pytest.mark.parametrize(
    ("value", "metric", "expected"),
    [
        (0.6123, DICE, "61.2"),
        (1.0, DICE, "100.0"),
        (0.0, DICE, "0.0"),
        (6.123, HD95, "6.1"),
        (NAN, DICE, "–"),
        (math.inf, HD95, "∞"),
    ],
)
def test_number_is_in_its_shown_unit(value, metric, expected):
    assert number(value, metric) == expected


def test_differences_have_a_sign_unless_they_are_nothing():
    written = [difference(value, DICE) for value in (0.031, -0.031, 0.0, -0.0, -0.0001, NAN)]
    assert written == ["+3.1", "−3.1", "0.0", "0.0", "0.0", "–"]


def test_interval_is_in_brackets_or_nothing():
    assert interval(0.501, 0.703, DICE) == "[50.1, 70.3]"
    assert interval(-0.01, 0.02, DICE, signed=True) == "[−1.0, +2.0]"
    assert interval(NAN, 0.5, DICE) == interval(0.5, NAN, DICE) == ""


def test_of_one_bound_a_cell_says_which():
    assert bounds(0.501, 0.703, DICE) == "[50.1, 70.3]"
    assert [bounds(NAN, 0.7, DICE), bounds(0.5, NAN, DICE), bounds(NAN, NAN, DICE)] == ["≤ 70.0", "≥ 50.0", ""]
    assert bounds(NAN, 0.02, DICE, signed=True) == "≤ +2.0"


def test_quantity_has_its_unit():
    assert [quantity(0.5, DICE), quantity(2.5, HD95), quantity(NAN, DICE)] == ["50.0 %", "2.5 mm", "–"]


def test_p_values():
    assert [p_value(p) for p in (0.0004, 0.0116, 1.0, NAN)] == ["<0.001", "0.012", "1.000", "–"]


def test_volume_has_three_digits():
    assert [volume(v) for v in (1234.5, 12.345, 0.01234, 0.0, NAN)] == ["1234", "12.3", "0.0123", "0", "–"]


def test_titles_of_attributes_and_strata():
    titles = [attribute_title(name) for name in ("all", "centre", "centre,pathology")]
    assert titles == ["All cases", "centre", "centre × pathology"]
    assert stratum_title("centre,pathology", "A,spina_bifida") == "A × spina_bifida"
    assert stratum_title("centre", "A,B") == "A,B"
    assert stratum_title("all", "all") == "all cases"
    assert [at_start(name) for name in ("cerebellum", "eTIV", "", "äußere")] == ["Cerebellum", "eTIV", "", "Äußere"]


def test_tables_show_the_bad_side_of_the_distribution():
    assert shown_statistics(DICE) == ("mean", "median", "iqr", "p25", "p10", "p5")
    assert shown_statistics(HD95) == ("mean", "median", "iqr", "p75", "max")


def test_unknown_metric_is_named():
    with pytest.raises(ValueError, match=r"`metric` must be among dice, .* got 'nonsense'"):
        metric_named("nonsense")
