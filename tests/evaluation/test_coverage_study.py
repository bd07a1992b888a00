"""What the committed study of coverage says of the intervals that are printed."""

from pathlib import Path

import pandas as pd

STUDY = Path(__file__).parents[2] / "benchmarks" / "results" / "coverage.csv"


def test_every_printed_interval_covers_93_percent_in_the_study():
    study = pd.read_csv(STUDY)
    printed = study[(study["method"] == "printed") & (study["samples"] > 0)]

    assert len(printed) > 500
    assert printed["n"].max() == 500
    assert printed.loc[printed["coverage"] < 0.93, ["statistic", "shape", "n", "coverage"]].values.tolist() == []


def test_the_percentile_bootstrap_does_not():
    study = pd.read_csv(STUDY)
    p5 = study[(study["method"] == "percentile bootstrap") & (study["statistic"] == "p5")]

    assert p5["coverage"].min() < 0.5
