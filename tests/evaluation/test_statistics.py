import numpy as np
import pandas as pd
import pytest

from nnunet_dro.evaluation import STATISTICS, summarise


def scores(values, label="one", **columns):
    cases = [f"c{n}" for n in range(len(values))]
    return pd.DataFrame({"case": cases, "label": label, "dice": np.asarray(values, dtype=float), **columns})


def test_statistics_of_eleven_values_by_hand():
    row = summarise(scores(np.arange(11) / 10)).iloc[0].to_dict()

    expected = {
        "mean": 0.5, "std": np.sqrt(0.11), "median": 0.5, "iqr": 0.5, "p75": 0.75, "p25": 0.25, "p10": 0.1, "p5": 0.05,
        "min": 0.0, "max": 1.0,
    }  # fmt: skip
    assert {name: row[name] for name in STATISTICS} == pytest.approx(expected)
    assert (row["attribute"], row["stratum"], row["label"], row["metric"]) == ("all", "all", "one", "dice")
    assert (row["n"], row["n_undefined"]) == (11, 0)


def test_columns_are_in_the_documented_order():
    columns = "attribute,stratum,label,metric,n,n_undefined,mean,std,median,iqr,p75,p25,p10,p5,min,max"
    assert ",".join(summarise(scores([1.0])).columns) == columns


def test_undefined_values_are_counted_and_left_out():
    row = summarise(scores([0.5, np.nan, 1.0])).iloc[0]

    assert (row["n"], row["n_undefined"], row["mean"]) == (3, 1, 0.75)


def test_stratum_without_values_has_no_statistics():
    row = summarise(scores([np.nan])).iloc[0]

    assert (row["n"], row["n_undefined"]) == (1, 1)
    assert row[list(STATISTICS)].isna().all()


def test_single_value_has_no_standard_deviation():
    row = summarise(scores([0.5])).iloc[0]

    assert np.isnan(row["std"])
    assert (row["iqr"], row["p5"]) == (0, 0.5)


def test_strata_divide_the_cases():
    rows = pd.concat([scores([0.0, 0.5, 1.0]), scores([1.0, 1.0, 1.0], label="two")])
    centre = pd.Series({"c0": "B", "c1": "A", "c2": "B", "elsewhere": "C"})

    table = summarise(rows, {"centre": centre}).set_index(["stratum", "label"])

    assert table.index.tolist() == [("A", "one"), ("A", "two"), ("B", "one"), ("B", "two")]
    assert table["mean"].tolist() == [0.5, 1.0, 0.5, 1.0]
    assert table["n"].tolist() == [1, 1, 2, 2]


def test_every_metric_and_attribute_has_its_rows():
    strata = pd.Series({"c0": "x", "c1": "y"})
    table = summarise(scores([0.0, 1.0], iou=[0.0, 1.0]), {"a": strata, "b": strata}, metrics=("dice", "iou"))

    assert table["attribute"].tolist() == ["a"] * 4 + ["b"] * 4
    assert table["metric"].tolist() == ["dice", "iou"] * 4


def test_unknown_metric_and_case_are_refused():
    with pytest.raises(ValueError, match="got 'hd95'"):
        summarise(scores([1.0]), metrics=("hd95",))
    with pytest.raises(ValueError, match="got none in 'centre' for 'c1'"):
        summarise(scores([1.0, 1.0]), {"centre": pd.Series({"c0": "A"})})
