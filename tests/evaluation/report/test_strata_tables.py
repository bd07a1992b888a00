import math

import numpy as np
import pytest

from nnunet_dro.evaluation.report.strata_tables import DARKEST, shade_of, strata_tables, values_of_few
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

from .made import comparison_of, evaluation_of, scores_of

DICE, HD95 = METRICS["dice"], METRICS["hd95"]


@pytest.mark.parametrize(
    ("value", "statistic", "shade"),
    [
        (1.0, "mean", 0),
        (0.9, "mean", 0),
        (0.899, "mean", 1),
        (0.45, "p5", 5),
        (0.0, "p5", 6),
        (math.nan, "p5", 0),
        (0.05, "iqr", 0),
        (0.051, "iqr", 1),
        (0.5, "iqr", 6),
    ],
)
def test_shades_of_fractions_are_fixed(value, statistic, shade):
    assert shade_of(value, DICE, statistic) == shade


def test_shades_of_distances_are_relative_to_the_largest():
    shades = [shade_of(value, HD95, "mean", largest=14.0) for value in (0.0, 1.9, 2.0, 14.0, math.inf, math.nan)]
    assert shades == [0, 0, 1, DARKEST, DARKEST, 0]
    assert shade_of(0.0, HD95, "mean", largest=0.0) == 0


def test_tables_are_one_per_attribute_and_metric():
    evaluation = evaluation_of(*scores_of(18, metrics=("dice", "hd95")), ("dice", "hd95"))

    tables = strata_tables(evaluation.strata)

    names = [("pathology", "dice"), ("pathology", "hd95"), ("centre", "dice"), ("centre", "hd95")]
    assert [(table.attribute, table.metric.name) for table in tables] == names
    row = tables[0].rows[0]
    assert (row.stratum, row.label, row.method, row.n, row.n_undefined) == ("control", "white matter", "", 6, 0)
    assert row.cells[0].interval.startswith("[")


def test_numbers_of_too_few_cases_are_marked():
    evaluation = evaluation_of(*scores_of(24))
    row = strata_tables(evaluation.strata)[0].rows[0]

    assert {cell.statistic: cell.too_few for cell in row.cells} == {
        "mean": False, "median": False, "iqr": False, "p25": False, "p10": True, "p5": True,
    }  # fmt: skip


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_few_values_are_listed_and_more_are_not(n):
    values = np.random.default_rng(n).uniform(size=n)
    record = describe(values) | {"n": n + 1, "n_undefined": 1}
    expected = sorted(values) if n < 6 else []
    assert values_of_few(record) == pytest.approx(expected)


def test_few_values_stand_in_place_of_intervals_and_percentiles():
    scores, strata = scores_of(12, labels=("one",))
    table = strata_tables(evaluation_of(scores, strata).strata)[0]
    values = np.sort(scores.loc[strata["pathology"].to_numpy() == "control", "dice"])

    assert table.statistics == ("mean", "median")
    assert table.rows[0].values == ", ".join(f"{100 * value:.1f}" for value in values)
    assert [cell.interval for cell in table.rows[0].cells] == ["", ""]
    uneven = {"pathology": strata["pathology"].replace("spina_bifida", "other").cat.remove_unused_categories()}
    mixed = strata_tables(evaluation_of(scores, uneven).strata)[0]
    assert [bool(row.values) for row in mixed.rows] == [True, False]
    assert [cell.text for cell in mixed.rows[0].cells[2:]] == [""] * 4


def test_failures_are_counted_and_bounded_by_what_so_few_cases_show():
    scores, strata = scores_of(60, labels=("one",))
    made = evaluation_of(scores, strata).strata.assign(n_failed=0, failure_high=1 - 0.05 ** (1 / 20))
    table = strata_tables(made, scores, {"options": {"failure": "dice<0.5"}})[0]

    assert table.failure == "< 50"
    assert table.further_of(table.rows[0]) == ["0 (≤ 13.9 %)"]
    assert table.on_failures[0].startswith("Column < 50: so many of these cases")
    assert strata_tables(evaluation_of(scores, strata).strata)[0].further == []


def test_stratum_without_values_is_not_called_small():
    scores, strata = scores_of(3, labels=("one",))
    scores["dice"] = math.nan
    table = strata_tables(evaluation_of(scores, strata).strata)[0]

    assert {cell.text for row in table.rows for cell in row.cells} == {"–"}
    assert not table.footnotes
    assert not table.on_intervals


def test_strata_without_intervals_are_shown():
    evaluation = evaluation_of(*scores_of(12))
    bare = evaluation.strata[[c for c in evaluation.strata.columns if not c.endswith(("_low", "_high"))]]
    assert not any(table.on_intervals for table in strata_tables(bare))


def test_rows_of_a_comparison_have_their_method():
    scores, strata = scores_of(6)
    tables = strata_tables(comparison_of({"ERM": scores, "DRO": scores}, strata).strata)
    assert [row.method for row in tables[0].rows[:2]] == ["ERM", "DRO"]
