"""Grey images as small pictures inside a page, with the outlines of masks.

The outlines run along the edges of pixels.
"""

import base64
import io
from collections import defaultdict
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

#: Masks, each with a word for the looks of its outline.
Masks = Iterable[tuple[str, npt.NDArray[np.bool_]]]


@dataclass(frozen=True)
class Plane:
    """A plane of an image with outlines, sizes in voxels."""

    name: str
    width: int
    height: int
    aspect: float  # physical width / height
    line: float  # width of the outlines, CSS pixels
    image: str  # in grey, as a data URI
    #: A word for the looks of each outline that is there, and its path.
    outlines: tuple[tuple[str, str], ...]

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
        """Draw a plane.

        Args:
            name: Name of the plane.
            grey: Grey levels (rows, columns), from 0 (black) to 1 (white).
            masks: Masks of the same shape, each with a word for the looks of its outline.
            spacing: Spacing of rows and of columns, mm.
            shown: About how many CSS pixels wide it is shown.
            size: The longest side of the picture in pixels, and the most bytes.
        """
        height, width = grey.shape
        width_mm = width * spacing[1]
        height_mm = height * spacing[0]

        # About a third of a voxel, so that thin structures stay visible.
        line = min(max(0.35 * shown / width, 0.6), 1.8)
        return cls(
            name,
            width,
            height,
            aspect=round(width_mm / height_mm, 4),
            line=round(line, 2),
            image=data_uri(grey, *size),
            outlines=outlines_of(masks),
        )


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


def plane_at(volume: npt.NDArray[Any], axis: int, index: int) -> npt.NDArray[Any]:
    """A plane of a volume (z, y, x), in which superior is up."""
    plane: npt.NDArray[Any] = np.take(volume, index, axis=axis)
    # Axial planes have their front up as they are.
    return plane if axis == 0 else plane[::-1]


def grey_levels(image: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The values of an image from 0 (black) to 1 (white), but for the darkest and brightest few.

    (image - low) / (high - low), clipped, with the percentiles of `_WINDOW` as ends. A constant
    image is black.
    """
    # Two million voxels are enough for the percentiles.
    step = max(1, image.size // 2_000_000)
    sample = image.ravel()[::step]
    low, high = np.percentile(sample, _WINDOW)
    span = max(float(high - low), 1e-9)

    return np.asarray(np.clip((image - low) / span, 0, 1))


def data_uri(
    grey: npt.NDArray[np.float64], longest: int = SMALL[0], most_bytes: int = SMALL[1]
) -> str:
    """A grey image as WebP in a data URI.

    A larger one is made smaller until its longest side fits. For the bytes, quality is given up,
    down to the last of `_QUALITIES`.
    """
    from PIL import Image

    picture = Image.fromarray(np.rint(grey * 255).astype(np.uint8))
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    for quality in _QUALITIES:
        buffer = io.BytesIO()
        picture.save(buffer, "WEBP", quality=quality, method=4)
        if buffer.tell() <= most_bytes:
            break

    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"data:image/webp;base64,{encoded}"


def outlines_of(masks: Masks) -> tuple[tuple[str, str], ...]:
    """The outlines of the masks that are not empty, with the words for their looks."""
    outlines = []
    for kind, mask in masks:
        path = outline(mask)
        if path:
            outlines.append((kind, path))
    return tuple(outlines)


def outline(mask: npt.NDArray[np.bool_]) -> str:
    """The outline of a mask (rows, columns) as an SVG path in pixels, not smoothed.

    It is of closed loops, one subpath each; the text is empty for an empty mask.
    """
    return "".join(_subpath(loop) for loop in _loops(mask))


def _loops(mask: npt.NDArray[np.bool_]) -> list[list[Vertex]]:
    """Closed sequences of corners (x, y), the mask on their right."""
    following = _edges(mask)
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


def _edges(mask: npt.NDArray[np.bool_]) -> dict[Vertex, list[Vertex]]:
    """Corners to the corners where the edges of pixels lead that begin there.

    They are the edges between the mask and what is outside, each with the mask on its right. Two
    edges begin where two pixels of the mask touch at a corner.
    """
    following: dict[Vertex, list[Vertex]] = defaultdict(list)
    for axis, (right, down) in enumerate(((1, 0), (0, 1))):
        changes = np.diff(mask.astype(np.int8), axis=axis, prepend=0, append=0)
        for y, x in np.argwhere(changes).tolist():
            near = (x, y)
            far = (x + right, y + down)
            # Where the mask begins downwards, its upper edge runs right; where it begins to the
            # right, its left edge runs up. Where it ends, the reverse.
            begins = changes[y, x] > 0
            if begins == (axis == 0):
                following[near].append(far)
            else:
                following[far].append(near)
    return following


def _subpath(loop: list[Vertex]) -> str:
    """One loop as relative steps; corners on a straight line are left out."""
    earlier = [loop[-1], *loop[:-1]]
    later = [*loop[1:], loop[0]]

    turns = []
    for before, corner, after in zip(earlier, loop, later, strict=True):
        # The corners before and after a turn differ in both coordinates.
        x_differs = before[0] != after[0]
        y_differs = before[1] != after[1]
        if x_differs and y_differs:
            turns.append(corner)

    first = turns[0]
    parts = [f"M{first[0]} {first[1]}"]
    for start, end in pairwise(turns):
        right = end[0] - start[0]
        down = end[1] - start[1]
        parts.append(f"h{right}" if down == 0 else f"v{down}")
    return "".join(parts) + "z"
