"""One training by nnU-Net's own command, which is watched while it runs."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnunet_dro.nnunet.command import CommandError, SafeStop, last_lines, run_command
from nnunet_dro.nnunet.target import Target

#: Weight of the past in nnU-Net's running mean of the pseudo Dice.
_EMA = 0.9

_EPOCH_TIME = re.compile(r"Epoch time: ([\d.]+) s")

_LINE = re.compile(r": (?:Epoch (?P<epoch>\d+)|Pseudo dice \[(?P<dice>.*)\]) *$", re.MULTILINE)


@dataclass(frozen=True)
class Epochs:
    """The epochs that the log of a training reports."""

    current: int | None  # the epoch that began last; None before the first one
    #: Running mean, as nnU-Net computes it (0.9 times the mean so far, 0.1 times the epoch), of the foreground mean of
    #: the pseudo Dice, for each finished epoch that has a value.
    pseudo_dice: dict[int, float]
    n_validated: int  # number of validation cases that have been predicted after the last epoch

    def progress(self, n_epochs: int, n_validation: int) -> tuple[int, int, str]:
        """How much of the training is done, of how much, and what that counts."""
        if max(self.pseudo_dice, default=-1) >= n_epochs - 1:
            return self.n_validated, n_validation, "validation cases"
        return self.current or 0, n_epochs, "epochs"


def log_files(fold: Path) -> list[Path]:
    """The log files of a fold, one for each start of the training, oldest first."""
    # Sorting by name would put 2026_11_1 before 2026_9_1.
    return sorted(fold.glob("training_log_*.txt"), key=lambda path: (path.stat().st_mtime_ns, path.name))


def read_epochs(fold: Path, *, without: Collection[Path] = ()) -> Epochs:
    r"""Read the log files of a fold; for an epoch that was trained again, the later file counts.

    Example:
        >>> lines = "12:00: Epoch 0\n12:01: Pseudo dice [0.5, 0.7]\n12:01: Epoch 1\n"
        >>> size = Path("training_log_2026_9_1.txt").write_text(lines)
        >>> read_epochs(Path())
        Epochs(current=1, pseudo_dice={0: 0.6}, n_validated=0)
    """
    current: int | None = None
    means: dict[int, float] = {}
    for path in log_files(fold):
        if path in without:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        # The last line may be incomplete.
        for match in _LINE.finditer(text[: text.rfind("\n") + 1]):
            if match["epoch"] is not None:
                current = int(match["epoch"])
            elif current is not None and not math.isnan(mean := _mean(match["dice"])):
                means[current] = mean
    running: dict[int, float] = {}
    value: float | None = None
    for epoch, mean in sorted(means.items()):
        value = mean if value is None else _EMA * value + (1 - _EMA) * mean
        running[epoch] = value
    # Beside the label maps there may be their probabilities, and the summary in the end.
    predicted = [path for path in (fold / "validation").glob("*") if path.suffix not in (".json", ".npz", ".pkl")]
    return Epochs(current, running, len(predicted))


def training_seconds(fold: Path) -> float:
    """Time of all epochs that the log files of a fold report, seconds; 0 if they report none.

    An epoch that was trained again after an interruption counts twice.
    """
    logs = [path.read_text(encoding="utf-8", errors="replace") for path in log_files(fold)]
    return sum(float(seconds) for log in logs for seconds in _EPOCH_TIME.findall(log))


def _mean(numbers: str) -> float:
    """Mean of the classes that have a value: ``np.float32(0.5), nan`` gives 0.5."""
    texts = re.findall(r"(?:np\.float\d+\()?([-+.\w]+)\)?", numbers)
    values = [value for value in map(_number, texts) if not math.isnan(value)]
    return sum(values) / len(values) if values else float("nan")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


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
