"""The trainings of the experiment, and everything that determines each."""

from collections.abc import Sequence
from dataclasses import dataclass

#: The digit that is rare in training.
RARE = 3

#: Share of the rare digit's training images that is kept, to the epochs of a training.
EPOCHS = {0.01: 220, 0.05: 60}

#: Robustness of the methods, 1/loss units; 0 is ordinary training (ERM).
BETAS = (0.0, 10.0, 100.0)

SEEDS = range(5)

#: The seed of the sketch that the epochs were chosen with.
SKETCH_SEED = 100


@dataclass(frozen=True)
class Run:
    """Trainings that go side by side, one for each beta, and everything that determines them.

    Attributes:
        share: Share of the rare digit's training images that is kept, in (0, largest_share].
        betas: Robustness of each training, 1/loss units; 0 is ERM, by the same code.
        seed: Seed of the split, the first weights and the draws. All of them are the same for each beta.
        epochs: Number of epochs, each of as many draws as there are training images.
        largest_share: Largest share that is compared, in (0, 1]. Images of the rare digit beyond it are test images,
            whatever the share, so that all shares have the same test images.
        n_train: Training images per digit, before the cut.
        n_test: Test images per digit; the rare one has more.
        batch: Images per iteration.
        learning_rate: Learning rate of SGD.

    Raises:
        ValueError: If ``share`` or ``largest_share`` is out of range, or there is no beta.
    """

    share: float
    betas: tuple[float, ...]
    seed: int
    epochs: int
    largest_share: float = max(EPOCHS)
    n_train: int = 400
    n_test: int = 100
    batch: int = 8
    learning_rate: float = 0.01

    def __post_init__(self) -> None:
        if not 0 < self.largest_share <= 1:
            raise ValueError(
                f"`largest_share` must be in (0, 1], got {self.largest_share!r}. 0.05 keeps one image in twenty."
            )
        if not 0 < self.share <= self.largest_share:
            raise ValueError(
                f"`share` must be in (0, {self.largest_share:g}], got {self.share!r}. 0.01 keeps one in a hundred."
            )
        if not self.betas:
            raise ValueError("`betas` must have at least one number, got none. (0.0, 10.0) compares beta 10 with ERM.")

    @property
    def n_rare(self) -> int:
        """Training images of the rare digit, at least one."""
        return self._n_kept(self.share)

    @property
    def n_rare_test(self) -> int:
        """Test images of the rare digit."""
        return self.n_train - self._n_kept(self.largest_share) + self.n_test

    def measures(self, epoch: int) -> bool:
        """Whether something is measured after that epoch: after each of the first quarter, then every second one."""
        return epoch <= self.epochs // 4 or epoch % 2 == 0

    def _n_kept(self, share: float) -> int:
        return max(1, round(share * self.n_train))


def planned_runs(seeds: Sequence[int], *, quick: bool) -> list[Run]:
    """All trainings of the experiment, a seed at a time."""
    if quick:
        return [Run(0.05, BETAS, seed, epochs=8, n_train=20, n_test=5) for seed in seeds]
    return [Run(share, BETAS, seed, epochs) for seed in seeds for share, epochs in EPOCHS.items()]
