"""Scales of drawings and the tables that can be sorted."""

import json
import math
from dataclasses import replace

import pytest

from nnunet_dro.pages.html import SortableColumn, SortableTable
from nnunet_dro.pages.svg import Scale, legend_mark, round_step, value_range


def test_scale_maps_ends_and_middle_and_its_ticks_are_round_and_inside():
    linear = Scale(0, 100, 10, 110)
    log = Scale(1, 100, 0, 10, logarithmic=True)

    assert [linear(0), linear(50), linear(100)] == [10, 60, 110]
    assert [log(1), log(10), log(100)] == [0, 5, 10]
    assert Scale(0, 100, 0, 1).ticks() == [0, 20, 40, 60, 80, 100]
    assert Scale(40, 100, 0, 1).ticks() == [40, 50, 60, 70, 80, 90, 100]
    assert Scale(0.9, 55, 0, 1, logarithmic=True).ticks() == [1, 2, 5, 10, 20, 50]
    assert Scale(0.5, 2e6, 0, 1, logarithmic=True).ticks() == [1, 10, 100, 1e3, 1e4, 1e5, 1e6]
    assert [round_step(n) for n in (0.9, 1, 1.1, 3, 7, 0.03)] == pytest.approx(
        [1, 1, 2, 5, 10, 0.05]
    )


def test_axis_of_fractions_ends_at_100():
    assert value_range([63.0, 97.0], fraction=True) == (60, 100)
    assert value_range([1.0], fraction=True) == (0, 100)
    assert value_range([99.0], fraction=True) == (80, 100)
    assert value_range([], fraction=True)[1] == 100
    assert value_range([3.0, 12.0], fraction=False) == (0, 15)
    assert value_range([0.0], fraction=False)[1] > 0
    # Errors with a sign lie on both sides of 0.
    assert value_range([-3.0, 12.0], fraction=False) == (-5, 15)
    assert value_range([-12.0, -3.0], fraction=False) == (-15, 0)


def test_35_strata_look_different():
    assert len({legend_mark(n) for n in range(35)}) == 35


def table_of(keys, *columns):
    return SortableTable(columns, keys, sorted_by=0, descending=False)


def test_text_is_coded_and_numbers_are_rounded():
    names = SortableColumn("Case", "text", ["b", "a", "b"], filtered=True)
    dice = SortableColumn("Dice (%)", "number", [12.34567, math.nan, math.inf])

    payload = table_of(["1", "2", "3"], names, dice).payload()

    assert payload["columns"][0] == {
        "title": "Case", "kind": "text", "filtered": True, "names": ["b", "a"], "codes": [0, 1, 0]
    }  # fmt: skip
    assert payload["columns"][1]["values"] == [12.346, None, None]
    assert json.loads(json.dumps(payload, allow_nan=False))["sortedBy"] == 0


def test_pictures_are_found_by_keys_and_columns_by_their_last_title():
    table = table_of(
        [("x", "one"), ("x", "two"), ("y", "one")], SortableColumn("Case", "text", ["x", "x", "x"])
    )
    assert replace(table, pictures={("x", "two"): "p0", "x": "p1"}).payload()["pictures"] == {
        1: "p0"
    }

    titled = (SortableColumn(title, "text", ["a"]) for title in ("Case", "Dice", "Dice"))
    assert table_of(["a"], *titled).column("Dice") == 2
