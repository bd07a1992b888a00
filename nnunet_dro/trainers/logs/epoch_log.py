"""The protocol of all logs of a training, and how an epoch of a log ends."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

StepT_contra = TypeVar("StepT_contra", contravariant=True)
SummaryT = TypeVar("SummaryT", bound="Summary")


class Summary(Protocol):
    """The results of an epoch."""

    def line(self) -> str:
        """One line for nnU-Net's log."""


class EpochLog(Protocol[StepT_contra, SummaryT]):
    """Collects the results of the iterations of an epoch, and writes files for the user at its end.

    Attributes:
        what: Name of what is logged, for messages.
        summaries: One summary per epoch so far.
    """

    what: str
    summaries: list[SummaryT]

    def record(self, step: StepT_contra) -> None:
        """Add the results of one iteration."""

    def end_epoch(self, epoch: int, folder: Path) -> SummaryT:
        """Write the files of an epoch.

        Args:
            epoch: Number of the epoch that ended, from 0.
            folder: Folder of the fold, where nnU-Net keeps its own log.

        Returns:
            The summary of the epoch, which is now the last of ``summaries``.

        Raises:
            OSError: If a file cannot be written; ``summaries`` has the epoch all the same.
        """

    def keep_epochs_before(self, epoch: int, folder: Path) -> None:
        """Continue the files of an interrupted training, without its epochs from ``epoch`` on."""


def end_epoch(log: EpochLog[Any, SummaryT], epoch: int, folder: Path, *, report: Callable[[str], object]) -> SummaryT:
    """End an epoch of a log. A file that cannot be written only causes a warning: a picture is not worth a training.

    Args:
        log: The log.
        epoch: Number of the epoch that ended, from 0.
        folder: Folder of the fold.
        report: Writes a line to nnU-Net's log.

    Returns:
        The summary of the epoch.
    """
    try:
        summary = log.end_epoch(epoch, folder)
    except OSError as error:
        report(f"WARNING: could not write the {log.what} of this epoch: {error}")
        summary = log.summaries[-1]
    report(summary.line())
    return summary
