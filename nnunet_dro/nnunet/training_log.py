"""nnU-Net's training log, read while it is written."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

#: Weight of the past in nnU-Net's running mean of the pseudo Dice.
_EMA = 0.9

_LINE = re.compile(r": (?:Epoch (?P<epoch>\d+)|Pseudo dice \[(?P<dice>.*)\]) *$", re.MULTILINE)


@dataclass(frozen=True)
class Epochs:
    """What the log of a training says.

    Attributes:
        current: The epoch that has begun last; None before the first.
        pseudo_dice: The foreground mean of nnU-Net's pseudo Dice of each epoch that is over, as a running mean
            (0.9 of the one before, 0.1 of the epoch), as nnU-Net's own; epochs without a value have none.
    """

    current: int | None
    pseudo_dice: dict[int, float]


def log_files(fold: Path) -> list[Path]:
    """The logs of a fold, one per start of the training, oldest first."""
    # Their names do not sort: nnU-Net writes 2026_9_1 and 2026_11_1.
    return sorted(fold.glob("training_log_*.txt"), key=lambda path: (path.stat().st_mtime_ns, path.name))


def read_epochs(fold: Path, *, without: Collection[Path] = ()) -> Epochs:
    """Read the logs of a fold, one after the other: epochs that were trained again count as the later log has them.

    Args:
        fold: nnU-Net's folder of the fold; it need not be there yet.
        without: Logs to leave out.

    Returns:
        The epochs.
    """
    current: int | None = None
    means: dict[int, float] = {}
    for path in log_files(fold):
        if path in without:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        # The last line may be half written.
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
    return Epochs(current, running)


def _mean(numbers: str) -> float:
    """The mean of the classes that have a value: ``np.float32(0.5), nan`` is 0.5."""
    texts = re.findall(r"(?:np\.float\d+\()?([-+.\w]+)\)?", numbers)
    values = [value for value in map(_number, texts) if not math.isnan(value)]
    return sum(values) / len(values) if values else float("nan")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
