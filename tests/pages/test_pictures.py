import base64
import io
import re

import numpy as np
import pytest
from PIL import Image

from nnunet_dro.pages.pictures import data_uri, grey_levels, outline


def test_picture_is_small_even_of_noise():
    uri = data_uri(np.random.default_rng(0).random((800, 800)))
    assert Image.open(
        io.BytesIO(base64.b64decode(uri.removeprefix("data:image/webp;base64,")))
    ).size == (288, 288)
    # Three planes of 60 cases, and the rest of the page.
    assert 180 * len(uri) < 4_500_000


def test_grey_levels_run_from_black_to_white_but_for_a_few_voxels():
    values = np.arange(1001.0)
    values[-1] = 1e9

    grey = grey_levels(values)

    assert (grey.min(), grey.max()) == (0, 1)
    assert grey[500] == pytest.approx(0.5, abs=0.01)
    assert not grey_levels(np.full((2, 2), 7.0)).any()


@pytest.mark.parametrize(
    ("mask", "path"),
    [
        ([[0, 0], [0, 0]], ""),
        ([[1]], "M0 0h1v1h-1z"),
        ([[1, 1], [1, 1]], "M0 0h2v2h-2z"),
        ([[0, 0], [0, 1]], "M1 1h1v1h-1z"),
        ([[1, 0], [1, 1]], "M0 0h1v1h1v1h-2z"),
        ([[1, 1, 1], [1, 0, 1], [1, 1, 1]], "M0 0h3v3h-3zM2 1h-1v1h1z"),
    ],
)
def test_outline_follows_the_pixels(mask, path):
    assert outline(np.array(mask, dtype=bool)) == path


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
        area += sum(
            x0 * y1 - x1 * y0
            for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True)
        )

    assert area / 2 == mask.sum()
