import pytest

from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS, enough_cases


@pytest.mark.parametrize(
    ("statistic", "needed"),
    [("p5", 20), ("p10", 10), ("p25", 4), ("p75", 4), ("iqr", 4), ("median", 2), ("std", 2), ("mean", 1), ("min", 1)],
)
def test_percentile_needs_a_case_beyond_it(statistic, needed):
    assert enough_cases(statistic, needed)
    assert not enough_cases(statistic, needed - 1)


def test_unknown_statistic_is_refused():
    with pytest.raises(ValueError, match=r"`statistic` must be among mean, .* got 'p1'"):
        enough_cases("p1", 3)


@pytest.mark.parametrize(
    ("statistic", "share"), [("p5", "one case in twenty"), ("p10", "one case in ten"), ("p75", "one case in four")]
)
def test_share_beyond_a_percentile_in_words(statistic, share):
    assert STATISTICS[statistic].share == share
    assert share in STATISTICS[statistic].definition


def test_less_is_better_of_spreads_and_of_distances():
    better = {name for name, statistic in STATISTICS.items() if statistic.more_is_better(METRICS["dice"])}

    assert set(STATISTICS) - better == {"std", "iqr"}
    assert not any(statistic.more_is_better(METRICS["hd95"]) for statistic in STATISTICS.values())
