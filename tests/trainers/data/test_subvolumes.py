import re
import threading
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnunet_dro.sampling import HardnessTable
from nnunet_dro.trainers.data.subvolumes import (
    Subvolumes,
    cells_of_voxels,
    locations_inside,
    subvolumes_of,
)

KEY = (-1, 0, 1, 2)
SHAPE = (6, 4, 4)
shapes = st.tuples(*[st.integers(1, 12)] * 3)
grids = st.tuples(*[st.integers(1, 5)] * 3)


@given(shapes, grids)
def test_cells_partition_the_volume_evenly(shape, grid):
    """Every voxel is in one cell, whatever does not divide."""
    subvolumes = Subvolumes(("a",), grid)
    count = np.zeros(shape, dtype=int)

    for item, cell in enumerate(np.ndindex(grid)):
        assert tuple(subvolumes.cell_of[item]) == cell
        start, stop = subvolumes.bounds(item, shape)
        assert (start >= 0).all()
        assert (start < stop).all()
        assert (stop <= shape).all()
        has_voxels = all(
            (i + 1) * s // a > i * s // a for i, a, s in zip(cell, grid, shape, strict=True)
        )
        if has_voxels:
            count[tuple(map(slice, start, stop))] += 1
        else:
            assert (stop - start).min() == 1

    assert (count == 1).all()

    sizes = np.array(
        [np.subtract(*subvolumes.bounds(item, shape)[::-1]) for item in range(len(subvolumes))]
    )
    assert (np.ptp(sizes, axis=0) <= 1).all()

    voxels = np.array(list(np.ndindex(shape)))
    cells = cells_of_voxels(voxels, shape, grid)
    items = np.ravel_multi_index(tuple(cells.T), grid)
    for voxel, item in zip(voxels, items, strict=True):
        start, stop = subvolumes.bounds(item, shape)
        assert ((start <= voxel) & (voxel < stop)).all()


def test_cells_of_an_axis_by_hand():
    subvolumes = Subvolumes(("a",), (3, 3, 1))
    bounds = [[b.tolist() for b in subvolumes.bounds(item, (10, 2, 7))] for item in range(9)]

    along_first = [(start[0], stop[0]) for start, stop in bounds[::3]]

    assert along_first == [(0, 3), (3, 6), (6, 10)]

    along_second = [(start[1], stop[1]) for start, stop in bounds[:3]]
    assert along_second == [(0, 1), (0, 1), (1, 2)], (
        "two voxels in three cells: the first has none and takes voxel 0"
    )
    assert {(start[2], stop[2]) for start, stop in bounds} == {(0, 7)}


def test_items_are_every_cell_of_every_case_in_order():
    subvolumes = Subvolumes(("x", "y"), (1, 2, 2))
    assert subvolumes.names == [
        "x@0,0,0",
        "x@0,0,1",
        "x@0,1,0",
        "x@0,1,1",
        "y@0,0,0",
        "y@0,0,1",
        "y@0,1,0",
        "y@0,1,1",
    ]
    assert subvolumes.case_of.tolist() == [0] * 4 + [1] * 4
    assert subvolumes.cell_of.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]] * 2
    assert len(subvolumes) == 8

    subvolumes = Subvolumes(("x", "y@0,0,0"), (1, 1, 1))
    assert subvolumes.names == ["x", "y@0,0,0"]
    assert subvolumes.case_of.tolist() == [0, 1]

    allowed = np.zeros((3, 2, 1, 2), dtype=bool)
    allowed[0, 1, 0, 0] = allowed[2, 0, 0, 1] = allowed[2, 1, 0, 1] = True
    subvolumes = Subvolumes(("x", "y", "z"), (2, 1, 2), allowed)

    assert subvolumes.names == ["x@1,0,0", "z@0,0,1", "z@1,0,1"]
    assert subvolumes.case_of.tolist() == [0, 2, 2]
    assert [b.tolist() for b in subvolumes.bounds(2, (6, 4, 4))] == [[3, 0, 2], [6, 4, 4]]


@given(
    st.lists(
        st.text(alphabet="a@,01.", min_size=1, max_size=6), min_size=1, max_size=5, unique=True
    ),
    grids,
)
def test_names_are_unique_and_tell_case_and_cell(cases, grid):
    subvolumes = Subvolumes(tuple(cases), grid)
    names = subvolumes.names

    assert len(set(names)) == len(names) == len(cases) * np.prod(grid)
    assert HardnessTable(names).cases == tuple(names)
    if np.prod(grid) > 1:
        for name, case, cell in zip(
            names, subvolumes.case_of, subvolumes.cell_of.tolist(), strict=True
        ):
            assert name.rpartition("@")[::2] == (cases[case], ",".join(map(str, cell)))


@pytest.mark.parametrize("grid", [(1, 2), (1, 0, 2), (1, 1.5, 2)])
def test_a_grid_that_cannot_be_is_refused(grid):
    with pytest.raises(
        ValueError, match=rf"`grid` must be three numbers of cells >= 1, got {re.escape(str(grid))}"
    ):
        Subvolumes(("a",), grid)


def test_locations_inside_a_box_are_those_brute_force_finds():
    rng = np.random.default_rng(0)
    locations = {
        1: np.c_[np.zeros(500, dtype=int), rng.integers(0, 10, (500, 3))],
        (1, 2): [],
        2: np.zeros((1, 4), int),
    }
    start = np.array([2, 3, 4])
    stop = np.array([5, 9, 5])
    inside = locations_inside(locations, start, stop)

    wanted = [
        row.tolist()
        for row in locations[1]
        if all(start[d] <= row[d + 1] < stop[d] for d in range(3))
    ]

    assert wanted
    assert inside[1].tolist() == wanted
    assert list(inside) == [1, (1, 2), 2]
    assert len(inside[(1, 2)]) == len(inside[2]) == 0
    assert locations_inside(None, start, stop) == {}


def loader_of(annotated, load=None, *, has_ignore=True):
    """A loader of cases whose annotated voxels are given, each a list of coordinates."""

    def from_memory(case):
        rows = np.array([(0, *voxel) for voxel in annotated[case]])
        properties = {"class_locations": {KEY: rows if len(rows) else [], 1: []}}
        return np.zeros((1, *SHAPE)), None, None, properties

    data = SimpleNamespace(load_case=load or from_memory)
    return SimpleNamespace(
        indices=list(annotated), has_ignore=has_ignore, annotated_classes_key=KEY, _data=data
    )


def refuse_to_load(case):
    raise AssertionError(f"{case} was read")


@pytest.mark.parametrize(("has_ignore", "grid"), [(False, (2, 2, 2)), (True, (1, 1, 1))])
def test_nothing_is_read_where_all_cells_are_items(has_ignore, grid):
    loader = loader_of({"a": [], "b": []}, refuse_to_load, has_ignore=has_ignore)
    assert subvolumes_of(loader, grid).names == Subvolumes(("a", "b"), grid).names


def test_cells_and_cases_without_annotated_voxels_are_no_items():
    lines = []
    annotated = {"a": [(0, 0, 0), (5, 3, 3), (5, 3, 2)], "b": [(2, 2, 1), (3, 1, 1)]}

    subvolumes = subvolumes_of(loader_of(annotated), (2, 2, 2), report=lines.append)

    assert subvolumes.names == ["a@0,0,0", "a@1,1,1", "b@0,1,0", "b@1,0,0"]
    assert lines == ["Sub-volumes: 4 of 16 have annotated voxels and are drawn."]

    lines.clear()
    annotated = {"a": [(0, 0, 0)], "b": [], "c": [(0, 0, 0)], "d": []}
    subvolumes = subvolumes_of(loader_of(annotated), (2, 1, 1), report=lines.append)

    assert subvolumes.names == ["a@0,0,0", "c@0,0,0"]
    assert [subvolumes.cases[i] for i in subvolumes.case_of] == ["a", "c"]
    assert len(lines) == 1
    assert "Never drawn, for want of annotated voxels: 2 of 4 cases (b, d)." in lines[0]

    lines.clear()
    subvolumes = subvolumes_of(loader_of({"a": [], "b": []}), (2, 1, 1), report=lines.append)

    assert len(subvolumes) == 4
    assert len(lines) == 1
    assert lines[0].startswith("WARNING: no training case has annotated voxels")

    def load(case):
        return np.zeros((1, *SHAPE)), None, None, {"class_locations": {1: []}}

    with pytest.raises(
        ValueError,
        match=r"`a` must be preprocessed with the dataset's ignore label.*nnUNetv2_prepro",
    ):
        subvolumes_of(loader_of({"a": []}, load), (2, 1, 1))


def test_many_cases_are_read_at_once_with_progress():
    together = threading.Barrier(4, timeout=30)
    lines = []
    annotated = {f"case_{i}": [(0, 0, 0)] if i % 2 else [(5, 0, 0)] for i in range(1200)}
    loader = loader_of(annotated)
    from_memory = loader._data.load_case

    def load(case):
        together.wait()  # for ever, if one is read after the other
        return from_memory(case)

    loader._data.load_case = load

    subvolumes = subvolumes_of(loader, (2, 1, 1), report=lines.append)

    assert subvolumes.cell_of[:, 0].tolist() == [1, 0] * 600, (
        "whoever is read first, the order is that of the cases"
    )
    assert ["500 of 1200" in lines[0], "1000 of 1200" in lines[1], len(lines)] == [True, True, 3]


@pytest.mark.parametrize("kind", ["ignore", "regions_ignore"])
def test_cells_of_a_preprocessed_dataset_are_the_annotated_ones(start, kind):
    """The label map of these cases is `ignore`, label 3, in the first 8 slices of the first axis."""
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    loader = start(nnUNetTrainer, kind=kind)[1].data_loader
    grid = (3, 1, 2)
    subvolumes = subvolumes_of(loader, grid)
    found = set(subvolumes.names)

    for case, cell in product(loader.indices, np.ndindex(grid)):
        label_map = loader._data.load_case(case)[1][0]
        item = int(np.ravel_multi_index(cell, grid))
        start, stop = Subvolumes((case,), grid).bounds(item, label_map.shape)
        is_annotated = (label_map[tuple(map(slice, start, stop))] != 3).any()
        assert (f"{case}@{','.join(map(str, cell))}" in found) == is_annotated

    assert 0 < len(found) < len(loader.indices) * 6
