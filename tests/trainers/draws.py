"""The numbers of the cases of a batch, and what a trainer does besides its steps, for the tests."""

import resource
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nnunet_dro.sampling import Draws
from nnunet_dro.trainers.case_columns import ENTRY, CaseColumns, entry_of


def draws_of(batch: dict[str, Any]) -> CaseColumns:
    """The columns that a batch carries."""
    return CaseColumns.in_batch(batch)


def redraw(batch: dict[str, Any], **columns: Tensor) -> None:
    """Make a batch say that it was drawn with other numbers."""
    batch[ENTRY] = replace(draws_of(batch), **columns).rows()


def cases_of_step(indices: Sequence[int], **columns: Sequence[float]) -> CaseColumns:
    """What a step found of its cases; what is not given is 0, and the weights are 1."""
    nothing = np.zeros(len(indices))
    drawn = Draws(np.asarray(indices, dtype=np.int64), *[nothing] * 5)
    given = {"losses": nothing, **columns}
    tensors = {name: torch.tensor(np.asarray(values, float)) for name, values in given.items()}
    return replace(draws_of(entry_of(drawn)), **tensors)


def end_epoch(trainer: Any) -> None:
    """End an epoch in which the trainer has made its steps."""
    trainer.on_train_epoch_start()
    trainer.on_train_epoch_end([{"loss": np.array(0.0)}])


def run_epoch(trainer: Any, epoch: int, n_steps: int = 2) -> list[str]:
    """Train for an epoch of a few steps; returns the names of the cases that were drawn."""
    trainer.current_epoch = epoch
    trainer.on_train_epoch_start()
    drawn = []
    outputs = []
    for _ in range(n_steps):
        batch = next(trainer.dataloader_train)
        drawn += list(batch["keys"])
        outputs.append(trainer.train_step(batch))
    trainer.on_train_epoch_end(outputs)
    return drawn


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    """A disk that is full as soon as a file has this size."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def log_of(trainer: Any) -> str:
    """What the trainer has written to nnU-Net's log."""
    with open(trainer.log_file) as file:
        return file.read()


def check_same_network(mine: Any, theirs: Any, **tolerance: float) -> None:
    """Check that the networks of two trainers have the same parameters, to the last bit unless a
    tolerance is given."""
    for one, other in zip(mine.network.parameters(), theirs.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, **(tolerance or {"rtol": 0, "atol": 0}))
