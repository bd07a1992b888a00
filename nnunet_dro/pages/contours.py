"""The outline of a mask, along the edges of its pixels."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Vertex = tuple[int, int]


def outline(mask: npt.NDArray[np.bool_]) -> str:
    """The outline as an SVG path in pixel units: no smoothing, every corner is a pixel's.

    Args:
        mask: Shape (rows, columns).

    Returns:
        Closed loops, one subpath each, as the attribute ``d`` of a path; empty text for an empty mask.
    """
    return "".join(_subpath(loop) for loop in _loops(mask))


def line_width(n_columns: int, *, shown: int) -> float:
    """How wide to draw outlines, in CSS pixels: about a third of a voxel, so that thin structures stay visible.

    Args:
        n_columns: Voxels from left to right.
        shown: How many CSS pixels they take.
    """
    return round(min(max(0.35 * shown / n_columns, 0.6), 1.8), 2)


def _loops(mask: npt.NDArray[np.bool_]) -> list[list[Vertex]]:
    """Closed sequences of corners (x, y), the mask on their right."""
    following: dict[Vertex, list[Vertex]] = {}
    padded = np.pad(mask, 1).astype(np.int8)
    # Between rows: where the mask begins downwards its upper edge runs right, where it ends its lower edge runs left.
    for y, x, sign in _steps(padded, axis=0):
        start, end = ((x, y), (x + 1, y)) if sign > 0 else ((x + 1, y), (x, y))
        following.setdefault(start, []).append(end)
    for y, x, sign in _steps(padded, axis=1):
        start, end = ((x, y + 1), (x, y)) if sign > 0 else ((x, y), (x, y + 1))
        following.setdefault(start, []).append(end)
    loops = []
    while following:
        start = next(iter(following))
        loop = [start]
        while True:
            ends = following[loop[-1]]
            corner = ends.pop()
            if not ends:
                del following[loop[-1]]
            if corner == start:
                break
            loop.append(corner)
        loops.append(loop)
    return loops


def _steps(padded: npt.NDArray[np.int8], *, axis: int) -> list[tuple[int, int, int]]:
    """Row, column and sign of every change along an axis, in pixels of the unpadded mask."""
    change: npt.NDArray[Any] = np.diff(padded, axis=axis)
    change = change[:, 1:-1] if axis == 0 else change[1:-1, :]
    return [(int(y), int(x), int(change[y, x])) for y, x in np.argwhere(change)]


def _subpath(loop: list[Vertex]) -> str:
    """One loop as relative steps; corners on a straight line are left out."""
    n = len(loop)
    turns = [
        loop[i]
        for i in range(n)
        if not (loop[i - 1][0] == loop[i][0] == loop[(i + 1) % n][0])
        and not (loop[i - 1][1] == loop[i][1] == loop[(i + 1) % n][1])
    ]
    parts = [f"M{turns[0][0]} {turns[0][1]}"]
    for (x0, y0), (x1, y1) in pairwise(turns):
        parts.append(f"h{x1 - x0}" if y0 == y1 else f"v{y1 - y0}")
    return "".join(parts) + "z"
