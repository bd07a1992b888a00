import json
import math

from nnunet_dro.pages.sortable_table import Column, SortableTable


def table_of(keys, *columns):
    return SortableTable(columns, keys, sorted_by=0, descending=False)


def test_text_is_coded_and_numbers_are_rounded():
    names = Column("Case", "text", ["b", "a", "b"], filtered=True)
    numbers = Column("Dice (%)", "number", [12.34567, math.nan, math.inf])

    payload = table_of(["1", "2", "3"], names, numbers).payload({})

    assert payload["columns"][0] == {
        "title": "Case", "kind": "text", "filtered": True, "names": ["b", "a"], "codes": [0, 1, 0]
    }  # fmt: skip
    assert payload["columns"][1]["values"] == [12.346, None, None]
    assert json.loads(json.dumps(payload, allow_nan=False))["sortedBy"] == 0


def test_pictures_are_found_by_the_keys_of_the_rows_alone():
    same = Column("Case", "text", ["x", "x", "x"])

    payload = table_of([("x", "one"), ("x", "two"), ("y", "one")], same).payload({("x", "two"): "p0", "x": "p1"})

    assert payload["pictures"] == {1: "p0"}


def test_of_two_columns_with_a_title_the_last_is_meant():
    table = table_of(["a"], *(Column(title, "text", ["a"]) for title in ("Case", "Dice", "Dice")))

    assert table.column("Dice") == 2
