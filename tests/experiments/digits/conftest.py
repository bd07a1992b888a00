import numpy as np
import pytest


@pytest.fixture(scope="module")
def made_digits():
    """25 noisy images of each of ten patterns, in [0, 1]."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 25)
    images = np.clip(rng.random((10, 784))[labels] + rng.normal(scale=0.2, size=(250, 784)), 0, 1)
    return images, labels
