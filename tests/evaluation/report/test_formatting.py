import math

import pytest

from nnunet_dro.evaluation.report import formatting as f
from nnunet_dro.evaluation.scoring.metrics import METRICS

DICE = METRICS["dice"]
HD95 = METRICS["hd95"]
VOLUME = METRICS["volume_error"]
NAN = math.nan


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([f.number(v, DICE) for v in (0.6123, 1.0, 0.0, NAN)], ["61.2", "100.0", "0.0", "–"]),
        ([f.number(v, HD95) for v in (6.123, math.inf)], ["6.1", "∞"]),
        # Differences have a sign unless they are nothing.
        (
            [f.difference(v, DICE) for v in (0.031, -0.031, 0.0, -0.0, -0.0001, NAN)],
            ["+3.1", "−3.1", "0.0", "0.0", "0.0", "–"],
        ),
        (
            [f.interval(*ends, DICE) for ends in ((0.501, 0.703), (NAN, 0.5), (0.5, NAN))],
            ["[50.1, 70.3]", "", ""],
        ),
        (
            [
                f.bounds(*ends, DICE)
                for ends in ((0.501, 0.703), (NAN, 0.7), (0.5, NAN), (NAN, NAN))
            ],
            ["[50.1, 70.3]", "≤ 70.0", "≥ 50.0", ""],
        ),
        (
            [f.bounds(low, 0.02, DICE, signed=True) for low in (-0.01, NAN)],
            ["[−1.0, +2.0]", "≤ +2.0"],
        ),
        ([f.is_shown(v, DICE) for v in (-0.0005, -0.0004, 0.0, 0.001)], [True, False, False, True]),
        ([f.is_shown(v, VOLUME) for v in (-0.02, 0.0)], [True, False]),
        ([f.column_kind(m) for m in (DICE, HD95, VOLUME)], ["number", "number", "volume"]),
        # Volumes have three digits, however small they are.
        ([f.quantity(v, VOLUME) for v in (-0.0123, 0.0, 123.4)], ["−0.0123 ml", "0 ml", "123 ml"]),
        ([f.difference(v, VOLUME) for v in (0.5, -12.34, -0.0)], ["+0.500", "−12.3", "0"]),
        (
            [f.quantity(0.5, DICE), f.quantity(2.5, HD95), f.quantity(NAN, DICE)],
            ["50.0 %", "2.5 mm", "–"],
        ),
        ([f.p_value(p) for p in (0.0004, 0.0116, 1.0, NAN)], ["<0.001", "0.012", "1.000", "–"]),
        ([f.p_value(p) for p in (0.0496, 0.0504, 0.0494)], ["0.0496", "0.0504", "0.049"]),
        (
            [f.volume(v) for v in (1234.5, 12.345, 0.01234, 0.0, NAN)],
            ["1234", "12.3", "0.0123", "0", "–"],
        ),
        (
            [f.attribute_title(name) for name in ("all", "centre", "centre,pathology")],
            ["All cases", "centre", "centre × pathology"],
        ),
        (
            [
                f.stratum_title(*names)
                for names in (
                    ("a,b", "A,spina, bifida"),
                    ("a,b", "A,B,c"),
                    ("centre", "A,B"),
                    ("all", "all"),
                )
            ],
            ["A × spina, bifida", "A,B,c", "A,B", "all cases"],
        ),
        (
            [f.at_start(name) for name in ("cerebellum", "eTIV", "", "äußere")],
            ["Cerebellum", "eTIV", "", "Äußere"],
        ),
        # Tables show the bad side of the distribution.
        (f.shown_statistics(DICE), ("mean", "median", "iqr", "p25", "p10", "p5")),
        (f.shown_statistics(HD95), ("mean", "median", "iqr", "p75", "max")),
        (f.shown_statistics(VOLUME), ("mean", "median", "iqr", "min", "max")),
    ],
)
def test_what_readers_see_of_numbers_and_names(written, expected):
    assert written == expected


def test_unknown_metric_is_named():
    with pytest.raises(ValueError, match=r"`metric` must be among dice, .* got 'nonsense'"):
        f.metric_named("nonsense")
