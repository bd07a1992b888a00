import re

import numpy as np
import pytest

from nnunet_dro.pages.contours import outline


@pytest.mark.parametrize(
    ("mask", "path"),
    [
        ([[0, 0], [0, 0]], ""),
        ([[1]], "M0 0h1v1h-1z"),
        ([[1, 1], [1, 1]], "M0 0h2v2h-2z"),
        ([[0, 0], [0, 1]], "M1 1h1v1h-1z"),
        ([[1, 0], [1, 1]], "M0 0h1v1h1v1h-2z"),
    ],
)
def test_outline_follows_the_pixels(mask, path):
    assert outline(np.array(mask, dtype=bool)) == path


def test_outline_of_a_ring_has_two_loops():
    ring = np.ones((3, 3), dtype=bool)
    ring[1, 1] = False
    assert outline(ring).count("M") == outline(ring).count("z") == 2


def test_outline_encloses_the_mask():
    # The shoelace formula over all loops gives the number of pixels, whatever touches at a corner.
    mask = np.random.default_rng(1).random((20, 20)) < 0.5
    area = 0
    for loop in outline(mask).split("z")[:-1]:
        x, y = (int(n) for n in re.match(r"M(\d+) (\d+)", loop).groups())
        corners = [(x, y)]
        for kind, step in re.findall(r"([hv])(-?\d+)", loop):
            x, y = (x + int(step), y) if kind == "h" else (x, y + int(step))
            corners.append((x, y))
        area += sum(x0 * y1 - x1 * y0 for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True))
    assert area / 2 == mask.sum()
