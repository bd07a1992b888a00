import numpy as np
import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def made_digits():
    """60 noisy images of a 4, 60 of a 9 and 5 of a 7, in [0, 1]; each has a first pixel of its own."""
    rng = np.random.default_rng(0)
    digits = np.repeat([4, 9, 7], [60, 60, 5])
    patterns = dict(zip((4, 7, 9), rng.random((3, 784)), strict=True))
    images = np.clip([patterns[digit] for digit in digits] + rng.normal(scale=0.2, size=(125, 784)), 0, 1)
    images[:, 0] = np.arange(125) / 125
    return images, digits
