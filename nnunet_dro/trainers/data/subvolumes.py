"""Sub-volumes: the cells of a grid over cases that are too large for one patch.

Each cell has a stale loss of its own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.naming import count, name_some

Report = Callable[[str], None]

#: Number of cases that are read at the same time; reading waits for the disk, not for a core.
_N_READERS = 8
#: Number of cases per line of progress.
_CASES_PER_LINE = 500


class Subvolumes:
    """The items of a hardness table that has one item per cell of a grid over each case.

    Along an axis of s voxels with a cells, cell i is [floor(i s / a), floor((i + 1) s / a)), so
    that the cells cover the volume exactly. A cell without a voxel (s < a) stands for the voxel
    that it lies in. The items are in the order of the cases, and within a case in the order of the
    cells, with the last axis fastest. ``allowed``, of shape (n_cases, *grid), says which cells
    become items; None for all.

    Source: Fidon et al. 2022 (MELBA), section 4.2.1.
    """

    def __init__(
        self, cases: Sequence[str], grid: Sequence[int], allowed: NDArray[np.bool_] | None = None
    ) -> None:
        is_valid = len(grid) == 3 and all(isinstance(n, (int, np.integer)) and n >= 1 for n in grid)
        if not is_valid:
            raise ValueError(
                f"`grid` must be three numbers of cells >= 1, got {grid!r}. Write, say, (1, 2, 2)."
            )

        if allowed is None:
            allowed = np.ones((len(cases), *grid), dtype=bool)
        case_of, *cell_of = np.nonzero(allowed)
        self.cases = tuple(str(case) for case in cases)
        #: Number of cells along each axis of the preprocessed arrays. In 2d the first axis counts
        #: slices.
        self.grid = tuple(grid)
        #: Position of each item's case, shape (n,).
        self.case_of = case_of.astype(np.int32)
        #: The item's cell along the axes, shape (n, 3).
        self.cell_of = np.stack(cell_of, axis=1).astype(np.int32)

    def __len__(self) -> int:
        return len(self.case_of)

    @property
    def names(self) -> list[str]:
        """Unique names of the items: ``case@i,j,k``, or the case's name if the grid is 1x1x1."""
        if math.prod(self.grid) == 1:
            return [self.cases[case] for case in self.case_of]

        cells = zip(self.case_of.tolist(), self.cell_of.tolist(), strict=True)
        return [f"{self.cases[case]}@{i},{j},{k}" for case, (i, j, k) in cells]

    def bounds(
        self, item: int, shape: Sequence[int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First voxel of an item in a volume of a shape, and the one after the last, each (3,).

        There is at least one voxel between them along each axis.
        """
        n_voxels = np.asarray(shape, dtype=np.int64)
        grid = np.asarray(self.grid)
        cell = self.cell_of[item]

        start = cell * n_voxels // grid
        stop = (cell + 1) * n_voxels // grid
        stop = np.maximum(stop, start + 1)
        return start, stop


def cells_of_voxels(
    voxels: ArrayLike, shape: Sequence[int], grid: Sequence[int]
) -> NDArray[np.int64]:
    """The cell that each voxel lies in, both of shape (m, 3): the inverse of `Subvolumes.bounds`.

    i = ceil((v + 1) a / s) - 1 is the one cell with floor(i s / a) <= v < floor((i + 1) s / a).
    """
    v = np.asarray(voxels, dtype=np.int64)
    a = np.asarray(grid)
    s = np.asarray(shape)
    return ((v + 1) * a - 1) // s


def locations_inside(
    class_locations: Mapping[Any, Any] | None, start: NDArray[np.int64], stop: NDArray[np.int64]
) -> dict[Any, NDArray[Any]]:
    """The locations sampled by nnU-Net, arrays (m, 4) channel first, that lie in a box.

    Their order does not change.
    """
    inside = {}
    for key, locations in (class_locations or {}).items():
        rows = np.asarray(locations)
        if not len(rows):
            inside[key] = rows
            continue

        # One axis at a time: numpy is many times slower when it reduces over a short last axis.
        is_inside = np.ones(len(rows), dtype=bool)
        for axis in range(len(start)):
            positions = rows[:, axis + 1]
            is_inside &= (positions >= start[axis]) & (positions < stop[axis])
        inside[key] = rows[is_inside]
    return inside


def subvolumes_of(
    loader: Any, grid: tuple[int, int, int], *, report: Report = lambda line: None
) -> Subvolumes:
    """Divide the cases of nnU-Net's data loader into sub-volumes.

    With an ignore label, only cells with annotated voxels that nnU-Net sampled become items,
    because nothing can be learnt in the others. If no case has any, all cells become items.

    Args:
        loader: A data loader of nnU-Net.
        grid: Number of cells along each axis.
        report: Called with lines about the progress, and about cases that are left out.
    """
    every = Subvolumes(tuple(loader.indices), grid)
    if not loader.has_ignore or math.prod(every.grid) == 1:
        return every

    cases = every.cases
    allowed = _annotated_cells_of_cases(loader, every, report)
    if not allowed.any():
        report("WARNING: no training case has annotated voxels. All sub-volumes will be drawn.")
        return every

    is_annotated = allowed.reshape(len(cases), -1).any(axis=1)
    without = [cases[i] for i in np.flatnonzero(~is_annotated)]
    never = ""
    if without:
        never = (
            f" Never drawn, for want of annotated voxels: {len(without)} of "
            f"{count(len(cases), 'case')} ({name_some(without)})."
        )
    report(
        f"Sub-volumes: {np.count_nonzero(allowed)} of {allowed.size} have annotated voxels and are "
        f"drawn.{never}"
    )
    return Subvolumes(cases, every.grid, allowed)


def _annotated_cells_of_cases(loader: Any, every: Subvolumes, report: Report) -> NDArray[np.bool_]:
    """Whether each cell of each case contains an annotated voxel, shape (n_cases, *grid)."""
    cases = every.cases
    read = partial(
        _annotated_cells,
        loader._data.load_case,
        loader.annotated_classes_key,
        every.grid,
    )

    allowed = np.zeros((len(cases), *every.grid), dtype=bool)
    with ThreadPoolExecutor(_N_READERS) as readers:
        for i, cells in enumerate(readers.map(read, cases)):
            allowed[i] = cells
            n_read = i + 1
            if n_read % _CASES_PER_LINE == 0:
                report(
                    f"Sub-volumes: the annotated voxels of {n_read} of {len(cases)} cases have "
                    "been read."
                )
    return allowed


def _annotated_cells(
    load: Callable[[str], tuple[Any, ...]], key: tuple[int, ...], grid: Sequence[int], case: str
) -> NDArray[np.bool_]:
    """Whether each cell of a case contains an annotated voxel that nnU-Net sampled."""
    data, *_, properties = load(case)
    locations = properties["class_locations"]
    if key not in locations:
        raise ValueError(
            f"`{case}` must be preprocessed with the dataset's ignore label, got no locations of "
            "annotated voxels. Run nnUNetv2_preprocess again."
        )

    is_annotated = np.zeros(grid, dtype=bool)
    if len(locations[key]):
        # The first number of a location, and of a shape, is that of the channel.
        voxels = np.asarray(locations[key])[:, 1:]
        cells = cells_of_voxels(voxels, data.shape[1:], grid)
        is_annotated[tuple(cells.T)] = True
    return is_annotated
