import pytest

from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS, enough_cases


@pytest.mark.parametrize(
    ("statistic", "needed", "share"),
    [
        ("p5", 20, "one case in twenty"),
        ("p10", 10, "one case in ten"),
        ("p25", 4, "one case in four"),
        ("p75", 4, "one case in four"),
        *(("iqr", 4, ""), ("median", 2, ""), ("std", 2, ""), ("mean", 1, ""), ("min", 1, "")),
    ],
)
def test_percentile_needs_a_case_beyond_it(statistic, needed, share):
    assert enough_cases(statistic, needed)
    assert not enough_cases(statistic, needed - 1)
    if share:
        assert STATISTICS[statistic].share == share
        assert not statistic.startswith("p") or share in STATISTICS[statistic].definition
    with pytest.raises(ValueError, match=r"`statistic` must be among mean, .* got 'p1'"):
        enough_cases("p1", 3)


def test_less_is_better_of_spreads_and_of_distances():
    better = {name for name, statistic in STATISTICS.items() if statistic.more_is_better(METRICS["dice"])}

    assert set(STATISTICS) - better == {"std", "iqr"}
    assert not any(statistic.more_is_better(METRICS["hd95"]) for statistic in STATISTICS.values())
