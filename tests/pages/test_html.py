import math

import pytest

from nnunet_dro.pages.html import SortableColumn


@pytest.mark.parametrize(
    ("kind", "values", "stored"),
    [
        ("number", [84.94966, math.nan], [84.95, None]),
        # A voxel of 0.7 mm is no volume of 0.
        ("volume", [0.000343, 0.012345, -0.00004], [0.000343, 0.0123, -0.00004]),
        ("volume", [0.123456, 1234.5678, 0.0], [0.123, 1234.568, 0.0]),
    ],
)
def test_a_sortable_column_keeps_what_it_shows(kind, values, stored):
    assert SortableColumn("x", kind, values).payload()["values"] == stored
