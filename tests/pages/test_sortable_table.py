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


def test_pictures_are_found_by_keys_and_columns_by_their_last_title():
    same = Column("Case", "text", ["x", "x", "x"])
    table = table_of([("x", "one"), ("x", "two"), ("y", "one")], same)
    assert table.payload({("x", "two"): "p0", "x": "p1"})["pictures"] == {1: "p0"}
    of_titles = (Column(title, "text", ["a"]) for title in ("Case", "Dice", "Dice"))
    assert table_of(["a"], *of_titles).column("Dice") == 2
