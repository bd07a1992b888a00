"""What the committed study of coverage says of both kinds of intervals."""

from pathlib import Path

import pandas as pd

from benchmarks.coverage import PAGE, study, with_table
from nnunet_dro.evaluation.statistics.columns import PERCENTILES

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
STUDY = pd.read_csv(RESULTS / "coverage.csv")
#: Three standard errors of a share of 5 % in 4,000 samples.
SLACK = 0.011


def rows(kind, *statistics, shape=None):
    chosen = STUDY[(STUDY["kind"] == kind) & STUDY["statistic"].isin(statistics)]
    return chosen[chosen["shape"] == shape] if shape else chosen


def test_bounds_for_verdicts_are_wrong_as_rarely_as_promised():
    guaranteed = rows("guaranteed", "mean", "difference of means")
    asked = rows("@95", *PERCENTILES)

    assert len(guaranteed.dropna()) == 10 * 9 * 2
    assert guaranteed[["low_wrong", "high_wrong"]].max(axis=None) <= 0.025 + SLACK
    assert asked[["low_wrong", "high_wrong"]].max(axis=None) <= 0.05 + SLACK
    # The method that fails in 3 % of the cases, which Student's t called not worse in a fifth of
    # the samples.
    assert rows("guaranteed", "difference of means", shape="3 % fail")["low_wrong"].max() <= 0.025
    assert rows("to read", "difference of means", shape="3 % fail")["low_wrong"].max() > 0.2


def test_of_the_bounds_that_are_proven_the_chosen_is_the_shortest():
    keys = ["statistic", "shape", "n"]

    def widths(kind):
        chosen = rows(kind, "mean", "difference of means").dropna(subset=["width"])
        return chosen.set_index(keys)["width"]

    chosen = widths("guaranteed")
    for kind in ("Anderson", "empirical Bernstein", "Hoeffding"):
        others = widths(kind)
        assert len(others) == len(chosen)
        assert (chosen <= others + 1e-4).mean() > 0.95, kind
        assert chosen.median() < 0.7 * others.median(), kind

    # What the proof costs: the conjectured bound is inside, nowhere by more than half.
    conjectured = widths("Gaffke, not proven")
    assert (chosen >= conjectured - 0.01).all()
    assert (chosen / conjectured).median() < 1.4


def test_intervals_to_read_hold_where_failures_are_in_the_sample():
    assert rows("to read", *PERCENTILES)["coverage"].min() >= 0.95 - SLACK
    for shape in ("Beta(8, 2)", "uniform", "25 % at 1", "patients, soft"):
        assert rows("to read", "mean", shape=shape)["coverage"].min() >= 0.93

    many = rows("to read", "mean", "difference of means")
    assert many[many["n"] == 500]["coverage"].min() > 0.85
    # And not where hardly any sample has one.
    assert (
        rows("to read", "mean", shape="1 % at 300 mm, against 2 %").set_index("n")["coverage"][20]
        < 0.5
    )


def test_the_correction_for_skewness_is_no_worse_than_the_alternatives():
    kinds = ("to read", "Student's t", "bootstrap-t")
    chosen, t, drawn = (rows(kind, "mean").set_index(["shape", "n"])["coverage"] for kind in kinds)

    assert (chosen - t).min() > -0.015
    assert (chosen - t).mean() > 0.01
    assert (chosen - drawn).mean() > -0.01


def test_the_study_can_be_made_anew_and_the_docs_have_its_table():
    found = pd.DataFrame(study("3 % fail", 20, 30))
    assert set(found["kind"]) == set(STUDY["kind"])
    assert found.columns.tolist() == STUDY.columns.tolist()

    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, STUDY) == page, "Run: python -m benchmarks.coverage --docs"


def test_printed_intervals_of_several_trainings_cover_93_percent():
    trainings = pd.read_csv(
        RESULTS / "coverage_trainings.csv", keep_default_na=False, na_values=[""]
    )
    least = trainings[trainings["samples"] > 0].groupby(["method", "statistic"])["coverage"].min()

    assert len(trainings) == 4 * 2 * 2 * 10
    assert least["printed"].min() >= 0.93
    assert least["percentile bootstrap", "mean"] < 0.8
    assert least["cases only", "mean"] < 0.5
    assert least["trainings only", "mean"] < 0.7
