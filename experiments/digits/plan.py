"""The trainings of the experiment, everything that determines each, and their images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import avg_pool2d

#: The digit that is rare in training.
RARE = 3
#: Share of the rare digit's training images that is kept, to the epochs of a training.
EPOCHS = {0.01: 220, 0.05: 60}
#: Robustness of the methods, 1/loss units; 0 is ordinary training (ERM). The small ones have the
#: larger share alone.
BETAS = (0.0, 0.1, 1.0, 10.0, 100.0)
SMALL = (0.1, 1.0)
#: The learning rate of the papers; and a smaller one with epochs for as much training with the
#: larger share, and betas.
RATE = 0.01
SMALLER_RATE = 0.003
SLOW_EPOCHS = 200
SLOW = (0.0, 100.0)
#: The seed of the sketch that the epochs were chosen with.
SKETCH_SEED = 100
#: Pixels of the rim that is cut off, as the digits are in the middle; and the side of the squares
#: that are averaged.
RIM = 2
POOL = 3


@dataclass(frozen=True)
class Run:
    """Trainings that go side by side, one for each beta, and everything that determines them."""

    share: float  # Share of the rare digit's training images that is kept, in (0, largest_share].
    #: Robustness of each training, 1/loss units; 0 is ERM, by the same code.
    betas: tuple[float, ...]
    #: Seed of the split, the first weights and the draws. All of them are the same for each beta.
    seed: int
    epochs: int  # Number of epochs, each of as many draws as there are training images.
    #: Largest share that is compared, in (0, 1]. Images of the rare digit beyond it are test
    #: images, whatever the share, so that all shares have the same test images.
    largest_share: float = max(EPOCHS)
    n_train: int = 400  # Training images per digit, before the cut.
    n_test: int = 100  # Test images per digit; the rare one has more.
    batch: int = 8  # Images per iteration.
    learning_rate: float = RATE  # Learning rate of SGD.

    @property
    def n_rare(self) -> int:
        """Training images of the rare digit, at least one."""
        return self._n_kept(self.share)

    @property
    def n_rare_test(self) -> int:
        """Test images of the rare digit."""
        return self.n_train - self._n_kept(self.largest_share) + self.n_test

    def measures(self, epoch: int) -> bool:
        """Whether something is measured after that epoch.

        That is after each of the first quarter, then after every second one.
        """
        return epoch <= self.epochs // 4 or epoch % 2 == 0

    def _n_kept(self, share: float) -> int:
        return max(1, round(share * self.n_train))


def slow_runs(seeds: Sequence[int]) -> list[Run]:
    """The trainings with the smaller learning rate."""
    return [Run(max(EPOCHS), SLOW, seed, SLOW_EPOCHS, learning_rate=SMALLER_RATE) for seed in seeds]


def planned_runs(seeds: Sequence[int], betas: Sequence[float] = BETAS, *, quick: bool) -> list[Run]:
    """All trainings of the experiment with these betas, a seed at a time.

    They have the learning rate of the papers.
    """
    if quick:
        return [Run(0.05, tuple(betas), seed, epochs=8, n_train=20, n_test=5) for seed in seeds]

    runs = []
    for seed in seeds:
        for share, epochs in EPOCHS.items():
            has_all = share == max(EPOCHS)
            betas_of_share = tuple(beta for beta in betas if has_all or beta not in SMALL)
            if betas_of_share:
                runs.append(Run(share, betas_of_share, seed, epochs))
    return runs


class Split(NamedTuple):
    """Images of shape (n, 8, 8), standardised with the training images, and labels (n,)."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def split_digits(images: NDArray[np.float64], labels: NDArray[np.int64], run: Run) -> Split:
    """The run's training and test images, without their rim and averaged over 3 x 3 pixels.

    The rare digit keeps its share of the training images. Test images of the rare digit are all
    that no share has in training, so that the test images depend on the seed alone. Images have the
    shape (n, 784), in [0, 1].
    """
    rng = np.random.default_rng([run.seed, 0])
    train = []
    test = []
    for digit in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == digit))[: run.n_train + run.n_test]
        n_train = run.n_train
        n_test = run.n_test
        if digit == RARE:
            n_train = run.n_rare
            n_test = run.n_rare_test
        train.append(rows[:n_train])
        test.append(rows[-n_test:])

    train_rows = np.concatenate(train)
    test_rows = np.concatenate(test)
    centre = images[train_rows].mean()
    spread = images[train_rows].std()
    whole = torch.from_numpy((images - centre) / spread).float().reshape(-1, 28, 28)
    small = avg_pool2d(whole[:, RIM:-RIM, RIM:-RIM], POOL)
    targets = torch.from_numpy(labels)
    return Split(small[train_rows], targets[train_rows], small[test_rows], targets[test_rows])
