"""Grey images as small pictures inside a page, with the outlines of masks along the edges of their pixels."""

import base64
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

#: Longest side of a picture in pixels, and its bytes: a page with 60 cases in three planes stays
#: below 5 MB.
SMALL = (288, 16_000)

#: Qualities of WebP to try until a picture is small enough; only noise needs the last ones.
_QUALITIES = (80, 60, 40, 20, 5)

_WINDOW = (0.5, 99.5)  # Percentiles of the image that become black and white.

Vertex = tuple[int, int]

Masks = Iterable[
    tuple[str, npt.NDArray[np.bool_]]
]  # Masks, each with a word for the looks of its outline.


@dataclass(frozen=True)
class Plane:
    """A plane of an image with outlines, sizes in voxels."""

    name: str
    width: int
    height: int
    aspect: float  # physical width / height
    line: float  # width of the outlines, CSS pixels
    image: str  # in grey, as a data URI
    outlines: tuple[
        tuple[str, str], ...
    ]  # word for the looks of each outline that is there, and its path

    @classmethod
    def of(
        cls,
        name: str,
        grey: npt.NDArray[np.float64],
        masks: Masks,
        spacing: Sequence[float],
        *,
        shown: int,
        size: tuple[int, int] = SMALL,
    ) -> "Plane":
        """The picture of an array (rows, columns) from 0 (black) to 1 (white), shown about so many CSS pixels wide."""
        height, width = grey.shape
        aspect = round(width * spacing[1] / (height * spacing[0]), 4)
        # About a third of a voxel, so that thin structures stay visible.
        line = round(min(max(0.35 * shown / width, 0.6), 1.8), 2)
        return cls(name, width, height, aspect, line, data_uri(grey, *size), outlines_of(masks))


@dataclass(frozen=True)
class Picture:
    """What a gallery shows of one case."""

    case: str
    text: str  # what follows the name
    details: Sequence[str]  # lines in small letters
    #: Each plane with its description, the outlines to show, and what is below.
    planes: Sequence[tuple[Plane, str, Sequence[tuple[str, str]], str]]
    rank: str = ""  # what is before the name
    chart: Markup = field(default_factory=Markup)
    link: Markup = field(default_factory=Markup)  # to the viewer


def cut(volume: npt.NDArray[Any], axis: int, index: int) -> npt.NDArray[Any]:
    """A plane of a volume (z, y, x), in which superior is up."""
    plane: npt.NDArray[Any] = np.take(volume, index, axis=axis)
    return plane[::-1] if axis else plane


def grey_levels(image: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The values of an image from 0 (black) to 1 (white), but for the darkest and brightest few."""
    step = max(1, image.size // 2_000_000)
    low, high = np.percentile(image.ravel()[::step], _WINDOW)
    return np.asarray(np.clip((image - low) / max(float(high - low), 1e-9), 0, 1))


def data_uri(
    grey: npt.NDArray[np.float64], longest: int = SMALL[0], most_bytes: int = SMALL[1]
) -> str:
    """A grey image as WebP in a data URI.

    Its longest side fits, and quality is given up for bytes, to a limit.
    """
    from PIL import Image

    picture = Image.fromarray(np.rint(grey * 255).astype(np.uint8))
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    for quality in _QUALITIES:
        picture.save(buffer := io.BytesIO(), "WEBP", quality=quality, method=4)
        if buffer.tell() <= most_bytes:
            break
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def outlines_of(masks: Masks) -> tuple[tuple[str, str], ...]:
    """The outlines of the masks that are not empty, with the words for their looks."""
    paths = ((kind, outline(mask)) for kind, mask in masks)
    return tuple((kind, path) for kind, path in paths if path)


def outline(mask: npt.NDArray[np.bool_]) -> str:
    """The outline of a mask (rows, columns) as closed loops of an SVG path in pixels, not smoothed.

    Or empty.
    """
    return "".join(_subpath(loop) for loop in _loops(mask))


def _loops(mask: npt.NDArray[np.bool_]) -> list[list[Vertex]]:
    """Closed sequences of corners (x, y), the mask on their right."""
    following: dict[Vertex, list[Vertex]] = {}
    padded = np.pad(mask, 1).astype(np.int8)
    for axis, inside in ((0, np.s_[:, 1:-1]), (1, np.s_[1:-1, :])):
        change: npt.NDArray[Any] = np.diff(padded, axis=axis)[inside]
        for y, x in np.argwhere(change).tolist():
            ends = [(x, y), (x, y + 1) if axis else (x + 1, y)]
            # Where the mask begins downwards its upper edge runs right, and where it begins to the
            # right, up.
            start, end = ends if (change[y, x] > 0) == (axis == 0) else ends[::-1]
            following.setdefault(start, []).append(end)
    loops = []
    while following:
        start = next(iter(following))
        loop = [start]
        while True:
            corners = following[loop[-1]]
            corner = corners.pop()
            if not corners:
                del following[loop[-1]]
            if corner == start:
                break
            loop.append(corner)
        loops.append(loop)
    return loops


def _subpath(loop: list[Vertex]) -> str:
    """One loop as relative steps; corners on a straight line are left out."""
    around = zip([loop[-1], *loop], loop, [*loop[1:], loop[0]], strict=False)
    # The corners before and after a turn differ in both coordinates.
    turns = [
        corner
        for before, corner, after in around
        if before[0] != after[0] and before[1] != after[1]
    ]
    parts = [f"M{turns[0][0]} {turns[0][1]}"]
    for (x0, y0), (x1, y1) in pairwise(turns):
        parts.append(f"h{x1 - x0}" if y0 == y1 else f"v{y1 - y0}")
    return "".join(parts) + "z"
