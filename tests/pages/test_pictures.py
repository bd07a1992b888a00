import base64
import io

import numpy as np
import pytest
from PIL import Image

from nnunet_dro.pages.pictures import data_uri, grey_levels


def test_picture_is_small_even_of_noise():
    uri = data_uri(np.random.default_rng(0).random((800, 800)))
    picture = Image.open(io.BytesIO(base64.b64decode(uri.removeprefix("data:image/webp;base64,"))))
    assert picture.size == (288, 288)
    # Three planes of 60 cases, and the rest of the page.
    assert 180 * len(uri) < 4_500_000


def test_grey_levels_run_from_black_to_white_but_for_a_few_voxels():
    values = np.arange(1001.0)
    values[-1] = 1e9

    grey = grey_levels(values)

    assert (grey.min(), grey.max()) == (0, 1)
    assert grey[500] == pytest.approx(0.5, abs=0.01)
    assert not grey_levels(np.full((2, 2), 7.0)).any()
