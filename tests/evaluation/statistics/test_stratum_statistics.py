import numpy as np
import pandas as pd
import pytest
from scipy import stats

from nnunet_dro.evaluation import METRICS, worst_strata
from nnunet_dro.evaluation.statistics.columns import GUARANTEED, INTERVALS, STATISTICS, enough_cases
from nnunet_dro.evaluation.statistics.intervals import guaranteed_means, intervals
from nnunet_dro.evaluation.statistics.stratum_statistics import (
    false_positives,
    percentile_notes,
    summarise,
)


def scores(values, label="one", **columns):
    cases = [f"c{n}" for n in range(len(values))]
    return pd.DataFrame(
        {"case": cases, "label": label, "dice": np.asarray(values, dtype=float), **columns}
    )


def test_statistics_of_eleven_values_by_hand():
    row = summarise(scores(np.arange(11) / 10)).iloc[0].to_dict()

    expected = {
        "mean": 0.5, "std": np.sqrt(0.11), "median": 0.5, "iqr": 0.5, "p75": 0.75, "p25": 0.25, "p10": 0.1, "p5": 0.05,
        "min": 0.0, "max": 1.0,
    }  # fmt: skip

    assert {name: row[name] for name in STATISTICS} == pytest.approx(expected)
    assert (row["attribute"], row["stratum"], row["label"], row["metric"]) == (
        "all",
        "all",
        "one",
        "dice",
    )
    assert (row["n"], row["n_undefined"]) == (11, 0)

    statistics = "mean,std,median,iqr,p75,p25,p10,p5,min,max"
    bounds = ",".join(f"{name}_low,{name}_high" for name in statistics.split(","))
    counts = "n,n_undefined,n_missed,n_invented,n_left_out,n_failed"
    columns = f"attribute,stratum,label,metric,{counts},{statistics},{bounds}"
    columns += ",mean_low_guaranteed,mean_high_guaranteed,failure_high"

    assert ",".join(summarise(scores([1.0])).columns) == columns

    some, none, single = (
        summarise(scores(values)).iloc[0] for values in ([0.5, np.nan, 1.0], [np.nan], [0.5])
    )

    assert (some["n"], some["n_undefined"], some["mean"]) == (3, 1, 0.75)
    assert (none["n"], none["n_undefined"]) == (1, 1)
    assert none[[*STATISTICS, *INTERVALS]].isna().all()
    assert single[["std", *INTERVALS]].isna().all()
    assert (single["iqr"], single["p5"]) == (0, 0.5)
    assert (
        summarise(scores(np.arange(60) / 60), n_resamples=0)[[*INTERVALS, *GUARANTEED]]
        .isna()
        .all(axis=None)
    )


def test_failures_are_counted_with_the_most_that_there_may_be():
    rows = scores(np.r_[np.full(30, 0.9), 0.2, np.nan], n_reference=10.0, n_prediction=10.0)
    dice, iou = (
        summarise(rows.assign(iou=rows["dice"]), metrics=("dice", "iou")).iloc[n] for n in (0, 1)
    )

    assert (dice["n_failed"], dice["failure_high"]) == (
        1,
        pytest.approx(stats.beta.ppf(0.95, 2, 30)),
    )
    assert iou[["n_failed", "failure_high"]].isna().all()

    none = summarise(rows, failure="dice<0.1").iloc[0]
    assert (none["n_failed"], none["failure_high"]) == (0, pytest.approx(1 - 0.05 ** (1 / 31)))

    # Without a value because it was missed: the worst failure.
    rows.loc[31, "n_prediction"] = 0
    missed = summarise(rows).iloc[0]

    assert (missed["n_failed"], missed["failure_high"]) == (
        2,
        pytest.approx(stats.beta.ppf(0.95, 3, 30)),
    )
    assert summarise(rows, failure="dice>=0").iloc[0]["failure_high"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (text, "be a condition on one metric")
            for text in ("dice", "dice<0.5@95", "volume<1", "hd95>20 mm")
        ),
        *(
            (text, "compare dice with a fraction, got .* Write 0.5 for 50 %")
            for text in ("dice<50", "dice<-1")
        ),
        ("hd95<-0.5", "compare hd95 with 0 or more, got 'hd95<-0.5'"),
    ],
)
def test_a_failure_is_a_condition_on_one_metric(text, message):
    with pytest.raises(ValueError, match=f"`failure` must {message}"):
        summarise(scores([0.5]), failure=text)


def test_strata_divide_the_cases_of_every_label_and_metric():
    rows = pd.concat(
        [scores([0.0, 0.5, 1.0], iou=0.5), scores([1.0, 1.0, 1.0], label="two", iou=0.5)]
    )
    centre = pd.Series({"c0": "B", "c1": "A", "c2": "B", "elsewhere": "C"})

    table = summarise(rows, {"centre": centre, "again": centre}, metrics=("dice", "iou"))

    assert table["attribute"].tolist() == ["centre"] * 8 + ["again"] * 8
    assert table["metric"].tolist() == ["dice", "iou"] * 8

    dice = table[(table["metric"] == "dice") & (table["attribute"] == "centre")].set_index(
        ["stratum", "label"]
    )
    assert dice.index.tolist() == [("A", "one"), ("A", "two"), ("B", "one"), ("B", "two")]
    assert dice["mean"].tolist() == [0.5, 1.0, 0.5, 1.0]
    assert dice["n"].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("rows", "strata", "metric", "message"),
    [
        (scores([1.0]), None, "hd95", "got 'hd95'"),
        (
            scores([1.0, np.inf]),
            None,
            "dice",
            "`dice` must be finite or NaN, got an infinite value for 'c1', 'one'",
        ),
        (pd.concat([scores([1.0]), scores([0.5])]), None, "dice", "got two for 'c0', 'one'"),
        (scores([1.0, 1.0]), pd.Series({"c0": "A"}), "dice", "got none in 'centre' for c1"),
        (
            scores([1.0]),
            pd.Series(["A", "B"], index=["c0", "c0"]),
            "dice",
            "got two in 'centre' for 'c0'",
        ),
    ],
)
def test_wrong_scores_and_strata_are_refused(rows, strata, metric, message):
    with pytest.raises(ValueError, match=message):
        summarise(rows, None if strata is None else {"centre": strata}, metrics=(metric,))


def test_intervals_are_those_of_the_stratum_alone():
    values = np.random.default_rng(0).random(60)
    centre = pd.Series(["A", "B"] * 30, index=[f"c{n}" for n in range(60)])
    table = summarise(scores(values), {"centre": centre}).set_index("stratum")

    expected = intervals([values[1::2]], bounded=[True]).ravel()

    surely = guaranteed_means([values[1::2]], bounded=[True])[0]

    assert table.loc["B", list(GUARANTEED[:2])].tolist() == pytest.approx(surely)
    assert table.loc["B", list(INTERVALS)].to_numpy(dtype=float) == pytest.approx(
        expected, rel=1e-11, nan_ok=True
    )

    rows = scores(np.random.default_rng(0).random(30), volume=1.0)
    centre = pd.Series(["A", "B", "C"] * 10, index=rows["case"])
    expected, shuffled = (
        summarise(r, {"centre": centre}) for r in (rows, rows.sample(frac=1, random_state=1))
    )

    pd.testing.assert_frame_equal(shuffled, expected)


@pytest.mark.parametrize(
    ("strata", "expected"),
    [
        (["site10", "missing", "site2"], ["site2", "site10", "missing"]),
        (["[red]b[/]", "ä,é", "a"], ["[red]b[/]", "a", "ä,é"]),
        (
            pd.Categorical(["old", "young", "old"], ["young", "middle", "old"], ordered=True),
            ["young", "old"],
        ),
    ],
)
def test_strata_are_in_their_order(strata, expected):
    stratum_of_case = pd.Series(strata, index=["c0", "c1", "c2"])
    assert (
        summarise(scores([0.0, 0.5, 1.0]), {"age": stratum_of_case})["stratum"].tolist() == expected
    )


def test_worst_strata_by_hand():
    rows = scores([0.2, 0.4, 0.8, 1.0, np.nan] * 10, hd95=[9.0, 7.0, 1.0, 1.0, np.nan] * 10)
    centre = pd.Series(["A", "A", "B", "B", "C"] * 10, index=rows["case"])
    worst = worst_strata(
        summarise(rows, {"centre": centre}, metrics=("dice", "hd95"), n_resamples=0)
    )

    columns = "attribute,label,metric,statistic,worst_stratum,worst,best_stratum,best,gap,gap_low,gap_high"

    assert ",".join(worst.columns) == columns

    by_statistic = worst.set_index(["metric", "statistic"])
    assert by_statistic.index.tolist() == [
        ("dice", "mean"),
        ("dice", "p5"),
        ("hd95", "mean"),
        ("hd95", "p75"),
    ]
    assert by_statistic["worst_stratum"].tolist() == ["A"] * 4
    assert by_statistic["best_stratum"].tolist() == ["B"] * 4
    assert by_statistic["worst"].tolist() == pytest.approx([0.3, 0.2, 8.0, 9.0])
    assert by_statistic["gap"].tolist() == pytest.approx([0.6, 0.6, 7.0, 8.0])

    alone = worst_strata(summarise(scores([0.5, 0.7]), n_resamples=0))
    assert (
        alone[["worst_stratum", "best_stratum", "gap"]].to_numpy().tolist()
        == [["all", "all", 0.0]] * 2
    )
    assert worst_strata(summarise(scores([np.nan]), n_resamples=0)).empty


def test_no_stratum_is_worst_or_best_by_a_tail_of_too_few_cases():
    values = [0.9] * 20 + [0.7] * 20 + [0.1] * 19 + [1.0] * 4
    rows = scores(values)
    centre = pd.Series(["A"] * 20 + ["B"] * 20 + ["C"] * 19 + ["D"] * 4, index=rows["case"])

    worst = worst_strata(summarise(rows, {"centre": centre}, n_resamples=0))

    names = worst.set_index("statistic")[["worst_stratum", "best_stratum"]]
    assert names.loc["mean"].tolist() == ["C", "D"]
    assert names.loc["p5"].tolist() == ["B", "A"]


def test_false_positives_by_hand():
    sizes = {"n_reference": [0, 0, 5, 0, 5], "n_prediction": [10, 30, 0, 0, 5]}
    rows = scores([0, 0, 0, np.nan, 0.9], **sizes, prediction_ml=[1.0, 3.0, 0.0, 0.0, 0.5])

    table = false_positives(pd.concat([rows, rows.assign(label="two", n_reference=5)]))

    assert (
        ",".join(table.columns)
        == "label,n_empty_references,n_false_positives,mean_ml,max_ml,max_case"
    )
    assert table.iloc[0].tolist() == ["one", 3, 2, 2.0, 3.0, "c1"]
    assert table.iloc[1].fillna("").tolist() == ["two", 0, 0, "", "", ""]
    # Without volumes they are ranked by voxels.
    assert false_positives(rows.assign(prediction_ml=np.nan)).iloc[0].fillna("").tolist() == [
        "one",
        3,
        2,
        "",
        "",
        "c1",
    ]


def test_notes_name_the_strata_with_too_few_cases():
    values = np.full(36, 0.5)
    values[:2] = np.nan

    centre = pd.Series(["A"] * 5 + ["B"] * 11 + ["C"] * 20, index=[f"c{n}" for n in range(36)])

    assert percentile_notes(summarise(scores(values), {"centre": centre}, n_resamples=0)) == [
        "p75, p25 and iqr are uncertain in A (3) of centre: with fewer than 4 cases none lies beyond it.",
        "p10 is uncertain in A (3) of centre: with fewer than 10 cases none lies beyond it.",
        "p5 is uncertain in A (3), B (11) of centre: with fewer than 20 cases none lies beyond it.",
    ]
    assert percentile_notes(summarise(scores([np.nan]), n_resamples=0)) == []
    assert percentile_notes(summarise(scores(np.zeros(20)), n_resamples=0)) == []

    of_patients = summarise(scores(np.zeros(20)), n_resamples=0).assign(n_patients=10)
    (note,) = percentile_notes(of_patients)
    assert note.endswith("with fewer than 20 patients none lies beyond it.")


@pytest.fixture(scope="module")
def three_strata():
    """Means of about 0.9, 0.5 and 0.7 in A, B and C."""
    frame = scores(
        np.repeat([0.9, 0.5, 0.7], 200) + np.random.default_rng(0).uniform(-0.05, 0.05, 600)
    )
    centre = pd.Series(np.repeat(["A", "B", "C"], 200), index=frame["case"])
    return summarise(frame, {"centre": centre}, n_resamples=500)


def test_the_gap_reaches_from_bound_to_bound(three_strata):
    of_stratum = three_strata.set_index("stratum")
    row = worst_strata(three_strata).iloc[0]

    assert (row["worst_stratum"], row["best_stratum"]) == ("B", "A")
    assert row["gap_low"] == of_stratum.loc["A", "mean_low"] - of_stratum.loc["B", "mean_high"]
    assert row["gap_high"] == of_stratum.loc["A", "mean_high"] - of_stratum.loc["B", "mean_low"]
    assert 0.3 < row["gap_low"] < row["gap"] < row["gap_high"] < 0.5


def test_no_best_stratum_stands_in_for_a_reference_of_few_cases():
    centre = np.repeat(["A", "B", "C"], [30, 30, 10])
    rows = scores(np.linspace(0.5, 1, 70))
    table = summarise(rows, {"centre": pd.Series(centre, index=rows["case"])}, n_resamples=0)

    worst = worst_strata(table, reference="C")
    assert worst[["statistic", "best_stratum"]].to_numpy().tolist() == [["mean", "C"]]
    assert worst_strata(table)["best_stratum"].tolist() == ["C", "B"]


def test_the_worst_is_compared_with_the_reference_stratum(three_strata):
    row = worst_strata(three_strata, reference="C").iloc[0]
    assert (row["worst_stratum"], row["best_stratum"]) == ("B", "C")
    assert row["gap"] == pytest.approx(0.2, abs=0.02)

    below = worst_strata(three_strata, reference="B").iloc[0]
    assert (below["worst_stratum"], below["best_stratum"]) == ("C", "B")
    assert below["gap"] == pytest.approx(-0.2, abs=0.02)
    assert below["gap_low"] < below["gap"] < below["gap_high"] < 0
    assert worst_strata(three_strata, reference="other").equals(worst_strata(three_strata))


def test_the_gap_of_distances_is_positive_where_the_worst_is_farther():
    frame = scores(np.repeat([1.0, 4.0], 60)).rename(columns={"dice": "hd95"})
    centre = pd.Series(["A"] * 60 + ["B"] * 60, index=frame["case"])

    row = worst_strata(summarise(frame, {"centre": centre}, metrics=["hd95"], n_resamples=50)).iloc[
        -1
    ]

    assert row[["statistic", "worst_stratum", "gap", "gap_low", "gap_high"]].tolist() == [
        "p75",
        "B",
        3,
        3,
        3,
    ]


def test_percentiles_say_which_share_of_the_cases_lies_beyond():
    for statistic, word in {"p5": "twenty", "p10": "ten", "p25": "four", "p75": "four"}.items():
        assert f"one case in {word}" in STATISTICS[statistic].definition
    assert [enough_cases("std", n) for n in (1, 2)] == [False, True]


def test_less_is_better_of_spreads_and_of_distances():
    better = {
        name for name, statistic in STATISTICS.items() if statistic.more_is_better(METRICS["dice"])
    }
    assert set(STATISTICS) - better == {"std", "iqr"}
    assert not any(statistic.more_is_better(METRICS["hd95"]) for statistic in STATISTICS.values())
