"""A training by nnU-Net's own command: its target, its log, and how it is watched while it runs."""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnunet_dro.files.case_table import find_case_table
from nnunet_dro.files.json_file import read_json
from nnunet_dro.files.output_folder import check_writable
from nnunet_dro.naming import name_some
from nnunet_dro.nnunet.command import CommandError, SafeStop, last_lines, run_command
from nnunet_dro.nnunet.folders import (
    CHECKPOINT,
    SPLITS_FILE,
    dataset_folder,
    find_dataset,
    first_checkpoint,
    fold_folder,
    folder_of,
    plans_option,
    read_dataset_json,
)
from nnunet_dro.nnunet.raw_dataset import COPIES, case_names
from nnunet_dro.nnunet.splits_file import held_out_cases, read_fold


@dataclass(frozen=True)
class Target:
    """A fold to train and validate on."""

    dataset: str  # name of the dataset (Dataset123_Name)
    configuration: str  # name of the configuration, which the plans have
    fold: str  # number of the fold, or ``all``
    plans: str
    preprocessed: Path  # the dataset's folder in nnUNet_preprocessed
    results: Path  # the dataset's folder in nnUNet_results

    @property
    def references(self) -> Path:
        """Folder of the reference label maps, which nnU-Net's own validation reads."""
        return self.preprocessed / COPIES

    @property
    def dataset_json(self) -> Path:
        """File with the names of labels and regions."""
        return self.preprocessed / "dataset.json"

    @property
    def cases(self) -> Path | None:
        """The dataset's case table, which the trainers read as well; None if there is none."""
        return find_case_table(self.preprocessed, dataset_folder("nnUNet_raw", self.dataset))

    def validation_cases(self) -> list[str]:
        """The validation cases of the fold.

        They are all cases if nnU-Net has not divided them yet, or divides them itself.
        """
        divided = self.divided_cases()
        if divided is not None:
            return divided

        description = read_dataset_json(self.dataset_json)
        ending = str(description.get("file_ending", ""))
        return sorted(case_names(self.references, ending))

    def divided_cases(self) -> list[str] | None:
        """The validation cases that splits_final.json gives the fold; None if it does not say."""
        divided = read_fold(self.preprocessed / SPLITS_FILE, self.fold)
        return sorted(divided["val"]) if divided else None

    def held_out_cases(self) -> set[str]:
        """The cases that the fold validates on and does not train on, as far as that is known."""
        return held_out_cases(self.preprocessed / SPLITS_FILE, self.fold)

    def prediction(self, trainer: str) -> str:
        """The command that predicts with a trainer of this fold."""
        return (
            f"nnUNetv2_predict -i INPUT -o OUTPUT -d {self.dataset} -c {self.configuration} "
            f"-f {self.fold}{plans_option(self.plans)} -tr {trainer}"
        )

    def fold_folder(self, trainer: str) -> Path:
        """The folder in which nnU-Net writes the results of a trainer."""
        return fold_folder(self.results, trainer, self.plans, self.configuration, self.fold)


def find_target(dataset: str, configuration: str, fold: str, *, plans: str) -> Target:
    """Find what nnU-Net would train on.

    Raises:
        FileNotFoundError: If something is missing.
        ValueError: If a name is wrong, or the plans are not usable.
        OSError: If the results cannot be written.
    """
    if not re.fullmatch(r"\d+|all", fold, re.ASCII):
        raise ValueError(
            f"`fold` must be a number or all, got {fold!r}. Give it as to nnUNetv2_train."
        )
    if fold != "all":
        fold = str(int(fold))

    preprocessed = find_dataset(
        dataset,
        folder_of("nnUNet_preprocessed"),
        cure="run nnUNetv2_plan_and_preprocess",
    )
    target = Target(
        dataset=preprocessed.name,
        configuration=configuration,
        fold=fold,
        plans=plans,
        preprocessed=preprocessed,
        results=folder_of("nnUNet_results") / preprocessed.name,
    )
    _check_plans(target)
    check_writable(target.results)
    return target


def _check_plans(target: Target) -> None:
    """Raise an error if the dataset is not preprocessed, or the plans lack the configuration."""
    path = target.preprocessed / f"{target.plans}.json"
    lacking = [file for file in (path, target.dataset_json) if not file.is_file()]
    if not target.references.is_dir():
        lacking.append(target.references)
    if lacking:
        raise FileNotFoundError(
            f"`dataset` must be planned and preprocessed, got no {str(lacking[0])!r}. Run "
            "nnUNetv2_plan_and_preprocess, or name other plans with -p."
        )

    try:
        configurations = list(read_json(path)["configurations"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`plans` must be a plans file of nnU-Net, got {str(path)!r}. Plan again."
        ) from error

    if target.configuration not in configurations:
        raise ValueError(
            f"`configuration` must be in {str(path)!r}, got {target.configuration!r}. Choose from: "
            f"{name_some(configurations, at_most=20)}."
        )


#: Weight of the past in nnU-Net's running mean of the pseudo Dice.
_EMA = 0.9

_EPOCH_TIME = re.compile(r"Epoch time: ([\d.]+) s")

#: A number that is not part of a name, as 32 is of float32.
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d*)?(?:e[-+]?\d+)?")

_LINE = re.compile(r": (?:Epoch (?P<epoch>\d+)|Pseudo dice \[(?P<dice>.*)\]) *$", re.MULTILINE)


@dataclass(frozen=True)
class Epochs:
    """The epochs that the log of a training reports."""

    current: int | None  # the epoch that began last; None before the first one
    #: Running mean, as nnU-Net computes it (0.9 times the mean so far, 0.1 times the epoch), of the
    #: foreground mean of the pseudo Dice, for each finished epoch that has a value.
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
    return sorted(
        fold.glob("training_log_*.txt"),
        key=lambda path: (path.stat().st_mtime_ns, path.name),
    )


def read_epochs(fold: Path, *, without: Collection[Path] = ()) -> Epochs:
    """Read the log files of a fold; for an epoch that was trained again, the later file counts.

    Args:
        fold: The folder of the fold.
        without: Log files that do not count.
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
                continue

            mean = _mean(match["dice"])
            if current is not None and not math.isnan(mean):
                means[current] = mean

    # Beside the label maps there may be their probabilities, and the summary in the end.
    others = (".json", ".npz", ".pkl")
    n_validated = sum(path.suffix not in others for path in fold.glob("validation/*"))
    return Epochs(current, _running_means(means), n_validated)


def _running_means(means: Mapping[int, float]) -> dict[int, float]:
    """The running mean that nnU-Net computes, for each epoch that has a mean."""
    running: dict[int, float] = {}
    value: float | None = None
    for epoch, mean in sorted(means.items()):
        value = mean if value is None else _EMA * value + (1 - _EMA) * mean
        running[epoch] = value
    return running


def training_seconds(fold: Path) -> float:
    """Seconds of all epochs that the logs of a fold report, those that were trained twice too."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in log_files(fold)]
    return sum(float(seconds) for text in texts for seconds in _EPOCH_TIME.findall(text))


def _mean(numbers: str) -> float:
    """Mean of the classes that have a value: ``np.float32(0.5), nan`` gives 0.5."""
    values = [float(text) for text in _NUMBER.findall(numbers)]
    return sum(values) / len(values) if values else math.nan


#: How many of the last lines of a log a failure quotes.
N_LINES = 5


class TrainingFailedError(RuntimeError):
    """A training failed, for a reason in one line, with the last lines of its output."""

    def __init__(self, reason: str, lines: list[str]) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lines = lines


def is_validated(fold: Path) -> bool:
    """Whether training and validation are complete: nnU-Net writes summary.json last."""
    return (fold / CHECKPOINT).is_file() and (fold / "validation" / "summary.json").is_file()


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

    If it is interrupted, the training is ended.

    Args:
        target: What to train on.
        trainer: Name of the trainer.
        device: As in nnU-Net's option ``-device``.
        log: File to which the command and its output are appended.
        watch: Called about twice a second, and at the end, with the epochs of nnU-Net's log.
        options: Further arguments of nnUNetv2_train.
        environment: Variables of the command. A nnUNet_results must be that of ``target``.
        safe_stop: Holds requests to stop back until a call of ``watch`` is over.

    Raises:
        TrainingFailedError: If the command fails or leaves no predictions.
    """
    fold = target.fold_folder(trainer)
    if is_validated(fold):
        watch(read_epochs(fold))
        return

    how = _how_to_go_on(fold)
    # The logs of an earlier training say nothing about one that starts from the beginning.
    old_logs = [] if how else log_files(fold)
    command = ["nnUNetv2_train", target.dataset, target.configuration, target.fold, "-tr", trainer]
    command += ["-p", target.plans, "-device", device, *options, *how]
    try:
        run_command(
            command,
            log=log,
            environment=environment or {},
            while_running=lambda: watch(read_epochs(fold, without=old_logs)),
            safe_stop=safe_stop,
        )
    except CommandError as error:
        lines = _quoted(error.lines)
        said = f": {lines[-1]}" if lines else ""
        reason = f"{error.command} ended with exit code {error.exit_code}{said} (log: {log})"
        raise TrainingFailedError(reason, lines) from error

    if not is_validated(fold):
        reason = (
            f"`{trainer}` must leave validation predictions, got none in {str(fold)!r}; see "
            f"{str(log)!r}"
        )
        raise TrainingFailedError(reason, _quoted(last_lines(log)))
    watch(read_epochs(fold, without=old_logs))


def _how_to_go_on(fold: Path) -> list[str]:
    """The option of nnUNetv2_train that continues a training; none for one that begins."""
    if (fold / CHECKPOINT).is_file():
        return ["--val"]
    if first_checkpoint(fold) is not None:
        return ["--c"]
    return []


def _quoted(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines[-N_LINES:]]
