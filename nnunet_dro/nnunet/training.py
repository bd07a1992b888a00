"""One training by nnU-Net's own command, which is watched while it runs."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nnunet_dro.nnunet.command import CommandError, last_lines, run_command
from nnunet_dro.nnunet.safe_stop import SafeStop
from nnunet_dro.nnunet.target import Target
from nnunet_dro.nnunet.training_log import Epochs, log_files, read_epochs

#: How many of the last lines of a log a failure quotes.
N_LINES = 5

_FINAL, _CHECKPOINTS = "checkpoint_final.pth", ("checkpoint_latest.pth", "checkpoint_best.pth")


class TrainingFailedError(RuntimeError):
    """A training failed.

    Attributes:
        reason: The reason, in one line.
        lines: The last lines of the output.
    """

    def __init__(self, reason: str, lines: list[str]) -> None:
        super().__init__(reason)
        self.reason, self.lines = reason, lines


def is_validated(fold: Path) -> bool:
    """Whether training and validation are complete: nnU-Net writes summary.json last."""
    return (fold / _FINAL).is_file() and (fold / "validation" / "summary.json").is_file()


def train(
    target: Target,
    trainer: str,
    *,
    device: str,
    log: Path,
    watch: Callable[[Epochs], None],
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    safe_stop: SafeStop | None = None,
) -> None:
    """Train and validate, or continue where an earlier start stopped; nothing is trained twice.

    If this function is interrupted (by Ctrl-C or an error of ``watch``), the training and its workers are ended.
    ``watch`` is called about twice a second, and at the end, with the epochs of nnU-Net's log. A nnUNet_results in
    ``environment`` must be that of ``target``.
    """
    fold = target.fold_folder(trainer)
    if is_validated(fold):
        watch(read_epochs(fold))
        return
    how: list[str] = []
    if (fold / _FINAL).is_file():
        how = ["--val"]
    elif any((fold / name).is_file() for name in _CHECKPOINTS):
        how = ["--c"]
    # The logs of an earlier training say nothing about one that starts from the beginning.
    old = [] if how else log_files(fold)
    command = ["nnUNetv2_train", target.dataset, target.configuration, target.fold, "-tr", trainer]
    command += ["-p", target.plans, "-device", device, *options, *how]
    try:
        run_command(
            command,
            log=log,
            environment=environment or {},
            while_running=lambda: watch(read_epochs(fold, without=old)),
            safe_stop=safe_stop,
        )
    except CommandError as error:
        lines = _quoted(error.lines)
        said = f": {lines[-1]}" if lines else ""
        reason = f"{error.command} ended with exit code {error.exit_code}{said} (log: {log})"
        raise TrainingFailedError(reason, lines) from error
    if not is_validated(fold):
        reason = f"`{trainer}` must leave validation predictions, got none in {str(fold)!r}; see {str(log)!r}"
        raise TrainingFailedError(reason, _quoted(last_lines(log)))
    watch(read_epochs(fold, without=old))


def _quoted(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines[-N_LINES:]]
