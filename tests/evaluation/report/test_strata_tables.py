import math
from dataclasses import replace

import numpy as np
import pytest

from nnunet_dro.evaluation.report.statistic_columns import DARKEST, shade_of, values_of_few
from nnunet_dro.evaluation.report.strata_tables import strata_tables
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

from .made import comparison_of, evaluation_of, scores_of

DICE = METRICS["dice"]
HD95 = METRICS["hd95"]


def test_shades_of_fractions_are_fixed_and_those_of_distances_relative():
    assert [shade_of(value, DICE, "mean") for value in (1.0, 0.9, 0.899)] == [0, 0, 1]
    assert [shade_of(value, DICE, "p5") for value in (0.45, 0.0, math.nan)] == [5, DARKEST, 0]
    assert [shade_of(value, DICE, "iqr") for value in (0.05, 0.051, 0.5)] == [0, 1, 6]

    shades = [
        shade_of(value, HD95, "mean", largest=14.0)
        for value in (0.0, 1.9, 2.0, 14.0, math.inf, math.nan)
    ]
    assert shades == [0, 0, 1, DARKEST, DARKEST, 0]
    assert shade_of(0.0, HD95, "mean", largest=0.0) == 0


def tables(evaluation, **options):
    return [table for _, table in strata_tables(evaluation.strata, evaluation.scores, **options)]


def entries(table, row=0):
    """Heading to the cell of a row."""
    return dict(zip([column.title for column in table.columns], table.rows[row], strict=True))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_few_values_are_listed_and_more_are_not(n):
    values = np.random.default_rng(n).uniform(size=n)
    record = describe(values) | {"n": n + 1, "n_undefined": 1}

    assert values_of_few(record) == pytest.approx(sorted(values) if n < 6 else [])


def test_few_values_stand_in_place_of_intervals_and_percentiles():
    scores, strata = scores_of(12, labels=("one",))
    row = entries(tables(evaluation_of(scores, strata))[0])

    values = np.sort(scores.loc[strata["pathology"].to_numpy() == "control", "dice"])

    assert list(row) == ["Label", "Stratum", "n", "Mean", "Median", "Values"]
    assert row["Values"].text == ", ".join(f"{100 * value:.1f}" for value in values)
    assert (row["Mean"].below, row["Median"].below) == ((), ())

    uneven = {
        "pathology": strata["pathology"]
        .replace("spina_bifida", "other")
        .cat.remove_unused_categories()
    }
    few, more = (entries(tables(evaluation_of(scores, uneven))[0], row) for row in (0, 1))

    assert [bool(few["Values"].text), bool(more["Values"].text)] == [True, False]

    eight = entries(tables(evaluation_of(*scores_of(24)))[0])
    assert {name for name, cell in eight.items() if "few" in cell.kind and "†" in cell.marks} == {
        "P10",
        "P5",
    }
    assert [few[name].text for name in ("IQR", "P25", "P10", "P5")] == [""] * 4


def test_failures_are_counted_and_bounded_by_what_so_few_cases_show():
    evaluation = evaluation_of(*scores_of(60, labels=("one",)))
    failed = replace(
        evaluation, strata=evaluation.strata.assign(n_failed=0, failure_high=1 - 0.05 ** (1 / 20))
    )

    table = tables(failed, failure="dice<0.5")[0]

    assert entries(table)["< 50"].beside == ["(≤ 13.9 %)"]
    assert (
        table.notes[0] == "< 50: cases that fail (≤: at most this share of all cases, 95 % sure)."
    )
    assert "< 50" not in entries(tables(evaluation)[0])

    of_patients = replace(failed, strata=failed.strata.assign(n_patients=20))
    key = tables(of_patients, failure="dice<0.5")[0].notes[0]
    assert key.startswith("< 50: patients with a failing case (≤")


def test_missed_and_invented_labels_have_columns_where_there_are_any():
    evaluation = evaluation_of(*scores_of(60))
    missed = replace(
        evaluation, strata=evaluation.strata.assign(n_missed=1, n_invented=0, n_left_out=1)
    )

    row = entries(tables(missed)[0])

    assert "inv." not in row
    assert "without 1 case in which the label was missed or invented" in row["Mean"].marks.values()
    assert "missed" not in entries(tables(evaluation)[0])


def test_stratum_without_values_is_not_small_and_none_needs_intervals():
    scores, strata = scores_of(3, labels=("one",))
    scores["dice"] = math.nan

    table = tables(evaluation_of(scores, strata))[0]

    assert {cell.text for row in table.rows for cell in row if cell.strong} == {"–"}
    assert table.notes == ()

    evaluation = evaluation_of(*scores_of(12))
    bare = evaluation.strata[
        [c for c in evaluation.strata.columns if not c.endswith(("_low", "_high"))]
    ]

    assert not any("95 % interval" in str(table.key) for _, table in strata_tables(bare))


def test_rows_of_a_comparison_have_their_method_and_the_best_is_marked():
    scores, strata = scores_of(60)
    comparison = comparison_of(
        {"ERM": scores, "DRO": scores.assign(dice=(scores["dice"] + 0.06).clip(0, 1))}, strata
    )

    (_, table), *_ = strata_tables(comparison.strata)

    assert [entries(table, row)["Method"].text for row in (0, 1)] == ["ERM", "DRO"]
    assert ["best" in entries(table, row)["P5"].kind for row in (0, 1)] == [False, True]

    (_, by_method), *_ = strata_tables(comparison.strata, names=("stratum", "method", "label"))
    assert [cell.text for cell in by_method.rows[1][:3]] == ["control", "ERM", "ventricles"]


def test_strata_of_four_cases_say_that_they_are_few():
    scores, strata = scores_of(10, labels=("one",), attributes={"site": ["A"] * 6 + ["B"] * 4})
    table = tables(evaluation_of(scores, strata))[0]
    place = [column.title for column in table.columns].index("n")
    assert [row[place].below for row in table.rows] == [(), ("few",)]
