"""The training and the test images of a run."""

from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d

from experiments.digits.plan import RARE, Run

#: Pixels of the rim that is cut off; the digits are in the middle.
RIM = 2
#: Side of the squares of pixels that are averaged.
POOL = 3


@dataclass(frozen=True)
class Split:
    """Images of shape (n, 8, 8), standardised with the training images, and labels of shape (n,)."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor

    def to(self, device: str) -> "Split":
        """The same images and labels on a device."""
        return Split(*(getattr(self, field.name).to(device) for field in fields(self)))


def split_digits(images: NDArray[np.float64], labels: NDArray[np.int64], run: Run) -> Split:
    """The run's training and test images, without their rim and averaged over 3 x 3 pixels.

    The rare digit keeps its share of the training images. Test images of the rare digit are all that no share has in
    training, so that the test images depend on the seed alone.

    Args:
        images: Shape (n, 784), in [0, 1].
        labels: Their digits, shape (n,).
        run: What to train.
    """
    rng = np.random.default_rng([run.seed, 0])
    train, test = [], []
    for digit in np.unique(labels):
        here = rng.permutation(np.flatnonzero(labels == digit))[: run.n_train + run.n_test]
        n_train, n_test = (run.n_rare, run.n_rare_test) if digit == RARE else (run.n_train, run.n_test)
        train.append(here[:n_train])
        test.append(here[-n_test:])
    train_rows, test_rows = np.concatenate(train), np.concatenate(test)
    centre, spread = images[train_rows].mean(), images[train_rows].std()
    whole = torch.from_numpy((images - centre) / spread).float().reshape(-1, 28, 28)
    small, targets = avg_pool2d(whole[:, RIM:-RIM, RIM:-RIM], POOL), torch.from_numpy(labels)
    return Split(small[train_rows], targets[train_rows], small[test_rows], targets[test_rows])
