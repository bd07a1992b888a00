"""What the cases of a batch were drawn with, for the tests."""

from dataclasses import replace
from typing import Any

from torch import Tensor

from nnunet_dro.trainers.case_columns import DrawColumns


def draws_of(batch: dict[str, Any]) -> DrawColumns:
    """The columns that a batch carries."""
    return DrawColumns.in_batch(batch)


def redraw(batch: dict[str, Any], **columns: Tensor) -> None:
    """Make a batch say that it was drawn with other numbers."""
    batch.update(replace(draws_of(batch), **columns).entries())
