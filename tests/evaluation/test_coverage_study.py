"""What the committed study of coverage says of the intervals that are printed."""

from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
STUDY = RESULTS / "coverage.csv"


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


def test_printed_intervals_of_several_trainings_cover_93_percent_and_others_do_not():
    study = pd.read_csv(RESULTS / "coverage_trainings.csv", keep_default_na=False, na_values=[""])
    least = study[study["samples"] > 0].groupby(["method", "statistic"])["coverage"].min()

    assert len(study) == 4 * 2 * 2 * 11
    assert least["printed"].min() >= 0.93
    assert least["percentile bootstrap", "mean"] < 0.8
    assert least["cases only", "mean"] < 0.5
    assert least["trainings only", "mean"] < 0.7
