"""The numbers of the cases of a batch, and what a trainer does besides its steps, for the tests."""

from collections.abc import Sequence
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
    return replace(
        draws_of(entry_of(drawn)), **{name: torch.tensor(np.asarray(values, float)) for name, values in given.items()}
    )


def end_epoch(trainer: Any) -> None:
    """End an epoch in which the trainer has made its steps."""
    trainer.on_train_epoch_start()
    trainer.on_train_epoch_end([{"loss": np.array(0.0)}])


def log_of(trainer: Any) -> str:
    """What the trainer has written to nnU-Net's log."""
    with open(trainer.log_file) as file:
        return file.read()


def check_same_network(mine: Any, theirs: Any, **tolerance: float) -> None:
    """Check that the networks of two trainers have the same parameters, to the last bit unless a tolerance is given."""
    for one, other in zip(mine.network.parameters(), theirs.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, **(tolerance or {"rtol": 0, "atol": 0}))
