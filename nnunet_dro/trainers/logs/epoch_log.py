"""What every log of a training does, and how an epoch of it ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

StepT_contra = TypeVar("StepT_contra", contravariant=True)
SummaryT = TypeVar("SummaryT", bound="Summary")


class Summary(Protocol):
    """What a log says of an epoch."""

    def line(self) -> str:
        """One line for nnU-Net's log."""


class EpochLog(Protocol[StepT_contra, SummaryT]):
    """Collects what the iterations of an epoch say, and writes files for people when it is over.

    Attributes:
        what: What is written, for messages.
        summaries: One per epoch so far.
    """

    what: str
    summaries: list[SummaryT]

    def record(self, step: StepT_contra) -> None:
        """Collect what one iteration says."""

    def end_epoch(self, epoch: int, folder: Path) -> SummaryT:
        """Write the files of an epoch.

        Args:
            epoch: The epoch that ended, counted from 0.
            folder: Of the fold, where nnU-Net keeps its own log.

        Returns:
            What the log says of the epoch, now the last of ``summaries``.

        Raises:
            OSError: If a file cannot be written; ``summaries`` has the epoch all the same.
        """

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Drop what an earlier, interrupted training wrote from ``epoch`` on, and take over what is before."""


def end_epoch(log: EpochLog[Any, SummaryT], epoch: int, folder: Path, *, report: Callable[[str], object]) -> SummaryT:
    """End an epoch of a log. A file that cannot be written is reported, for a picture is not worth a training.

    Args:
        log: The log.
        epoch: The epoch that ended, counted from 0.
        folder: Of the fold.
        report: Takes lines for nnU-Net's log.

    Returns:
        What the log says of the epoch.
    """
    try:
        summary = log.end_epoch(epoch, folder)
    except OSError as error:
        report(f"WARNING: could not write the {log.what} of this epoch: {error}")
        summary = log.summaries[-1]
    report(summary.line())
    return summary
