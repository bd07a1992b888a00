"""How often a log writes what grows with the cases: the rows of an epoch, and its picture."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

#: A log of more rows than these leaves epochs out, as long as so many epochs are left.
MOST_ROWS = 400_000
FEWEST_EPOCHS = 60
#: Pictures take at most this share of the time of a training.
_SHARE_OF_TIME = 0.01


def epochs_per_entry(n_cases: int, n_epochs: int | None) -> int:
    """How many epochs share the rows of one, a power of two; 1 where there are few cases or epochs.

    It is the smallest that leaves at most `MOST_ROWS` rows, or the largest that leaves at least
    `FEWEST_EPOCHS` epochs. Of the logs of several folds, which differ by a few cases, those with
    fewer epochs have none that the others lack.

    Args:
        n_cases: Number of cases, and so of the rows of an epoch.
        n_epochs: Number of epochs of the training; None if it is not known.

    Example:
        >>> epochs_per_entry(400, 1000), epochs_per_entry(1000, 1000), epochs_per_entry(5000, 1000)
        (1, 4, 16)
    """
    every = 1
    n_rows = n_cases * (n_epochs or 0)
    while n_epochs and n_rows > MOST_ROWS * every and n_epochs >= 2 * every * FEWEST_EPOCHS:
        every *= 2
    return every


class PicturePace:
    """Spaces pictures so far apart that drawing them takes a small share of the time."""

    def __init__(self) -> None:
        self._next = -float("inf")

    @property
    def is_due(self) -> bool:
        """Whether enough time has passed since the last picture; it has before the first one."""
        return time.monotonic() >= self._next

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Measure how long a picture takes."""
        start = time.monotonic()
        yield
        end = time.monotonic()
        self._next = end + (end - start) / _SHARE_OF_TIME
