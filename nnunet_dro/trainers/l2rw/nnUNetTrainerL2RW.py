"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerL2RW`."""

import math
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter
from batchgenerators.dataloading.single_threaded_augmenter import SingleThreadedAugmenter
from nnunetv2.utilities.default_n_proc_DA import get_allowed_n_proc_DA
from numpy.typing import NDArray
from torch import distributed as dist
from torch import nn

from nnunet_dro.files.case_table import MISSING
from nnunet_dro.losses import LearnedWeights, WeightedGradient
from nnunet_dro.naming import name_some
from nnunet_dro.sampling import UNIFORM, HardnessTable
from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.data.case_groups import table_column
from nnunet_dro.trainers.data.dataloading import DrawsByHardness, loader_of
from nnunet_dro.trainers.l2rw.weights_log import WeightsLog
from nnunet_dro.trainers.log.epoch_log import EpochLog
from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.options import TrainerOptions

#: Norm to which nnU-Net clips gradients.
_LARGEST_NORM = 12
#: Column of the case table.
_COLUMN = "trusted"
_SMALL_BATCH = 4  # Batches of at most this many cases have as many trusted cases; larger batches have an eighth.


class FastestWay:
    """Finds the faster of the two ways to learnt weights, both exact, in the first iterations of a training."""

    def __init__(self, learned: LearnedWeights, device: torch.device) -> None:
        self.learned = learned
        self.device = device
        self.times: list[float] = []
        self._started = 0.0

    def start(self) -> None:
        """Start an iteration. The ways take turns; the first turn of each is not timed."""
        self.learned.at_once = len(self.times) % 2 == 1 and self.learned.not_at_once is None
        self._started = self._now()

    def stop(self) -> str | None:
        """End an iteration; returns one line for the log once the choice is made."""
        self.times.append(self._now() - self._started)
        if (reason := self.learned.not_at_once) is not None:
            return f"Learning to reweight: the weights are computed case by case and not at once: {reason}"
        if len(self.times) < 4:
            return None
        case_by_case, at_once = self.times[2:]
        self.learned.at_once = at_once < case_by_case
        names = ("case by case", "at once")
        return (
            f"Learning to reweight: the weights are computed {names[self.learned.at_once]} ({names[0]} "
            f"{case_by_case:.3f} s, {names[1]} {at_once:.3f} s per iteration)"
        )

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


class nnUNetTrainerL2RW(NamedTrainer):  # noqa: N801
    """nnU-Net that learns from a few trusted cases how much each of the others counts.

    Trusted cases have ``yes`` in the column ``trusted`` of cases.csv. Each iteration draws a batch
    and a trusted batch. The weight of a case of the batch is how much a step on it would lower the
    loss of the trusted batch. The Dice is always computed for each case alone, because a batch Dice
    is not a sum over cases.

    Source: Ren et al. 2018, "Learning to Reweight Examples for Robust Deep Learning", Algorithm 1.
    """

    options: ClassVar[TrainerOptions] = TrainerOptions()
    dataloader_trusted: Any = None
    #: Created together with the data loaders.
    weights_log: WeightsLog
    _learned: LearnedWeights | None = None
    _fastest_way: FastestWay | None = None

    def _check_before_training(self) -> None:
        trusted_cases(self, [str(case) for case in self.do_split()[0]])

    def _learning(self) -> LearnedWeights:
        # Without the wrapper of distributed training: this trainer exchanges the weighted gradients
        # itself.
        network = self.network.module if self.is_ddp else self.network
        if self.is_ddp and any(
            isinstance(module, nn.SyncBatchNorm) for module in network.modules()
        ):
            raise RuntimeError(
                "nnUNetTrainerL2RW needs each case by itself, but the batch norm of this network mixes the cases of "
                "all GPUs. Train on one GPU, or use a network with instance norm, as nnU-Net's own networks do."
            )
        return LearnedWeights(
            network,
            lambda output, target: self.loss.per_case(output, target).losses,
            autocast=lambda: (
                torch.autocast("cuda") if self.device.type == "cuda" else nullcontext()
            ),
            scale=None if self.grad_scaler is None else self.grad_scaler.scale,
            sum_over_ranks=dist.all_reduce if self.is_ddp else None,
        )

    def get_dataloaders(self) -> tuple[Any, Any]:
        """The data loaders of training and validation.

        Sets up the one of the trusted cases as well.
        """
        train, validation = super().get_dataloaders()
        cases = list(loader_of(train).table.cases)
        trusted = trusted_cases(self, cases)
        self.dataloader_trusted = trusted_augmenter(train, trusted, self.loader_class)
        self.weights_log = WeightsLog(cases, trusted)
        if self._restored is not None and "weights" in self._restored:
            self.weights_log.load_state_dict(self._restored["weights"])
        next(self.dataloader_trusted)  # starts the workers, as nnU-Net does with its own
        return train, validation

    def on_train_start(self) -> None:
        """Also log which cases are trusted."""
        super().on_train_start()
        if self.local_rank != 0:
            return
        trusted = sorted(self.weights_log.trusted)
        n_cases = len(self.weights_log.cases)
        self.print_to_log_file(
            f"Learning to reweight: {len(trusted)} of {n_cases} training cases are trusted: {name_some(trusted)}"
        )

    def train_step(self, batch: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
        """Make a step along the weighted gradient.

        Returns the unweighted mean loss of the cases.
        """
        if self._learned is None:
            self._learned = self._learning()
            self._fastest_way = (
                FastestWay(self._learned, self.device) if len(batch["data"]) > 1 else None
            )
        trusted = next(self.dataloader_trusted)
        if self._fastest_way is not None:
            self._fastest_way.start()
        both = [
            (self._on_device(one["data"]), self._on_device(one["target"]))
            for one in (batch, trusted)
        ]
        found = self._learned.gradient(*both)
        if self._fastest_way is not None and (result := self._fastest_way.stop()):
            self.print_to_log_file(result)
            self._fastest_way = None
        drawn = CaseColumns.in_batch(batch, device=self.device)
        # Sent before the step, which waits for the device anyway when it asks whether to be made.
        self.loss.send(
            replace(drawn, losses=found.losses, weights=found.weights), found.losses.mean()
        )
        self._step_along(found)
        return self._store(*self.loss.step())

    def _store(self, cases: CaseColumns, mean_loss: float) -> dict[str, NDArray[np.float32]]:
        if cases.weights.isfinite().all():
            self.weights_log.record(cases)
        return super()._store(cases, mean_loss)

    def _step_along(self, found: WeightedGradient) -> None:
        """Do what nnU-Net does after its backward pass, or nothing if no case of the batch helps the trusted ones."""
        total = float(found.total)
        if total == 0 or (self.grad_scaler is None and not math.isfinite(total)):
            return
        self.optimizer.zero_grad(set_to_none=True)
        found.write()
        if self.grad_scaler is not None:
            self.grad_scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), _LARGEST_NORM)
        if self.grad_scaler is None:
            self.optimizer.step()
        else:  # skips the step after an overflow, and lowers the scale
            self.grad_scaler.step(self.optimizer)
            self.grad_scaler.update()

    def _epoch_logs(self) -> list[EpochLog]:
        return [*super()._epoch_logs(), self.weights_log]

    def on_train_end(self) -> None:
        """End as nnU-Net does, and stop the workers of the trusted cases."""
        super().on_train_end()
        if hasattr(self.dataloader_trusted, "_finish"):
            self.dataloader_trusted._finish()

    def _hardness_state(self) -> dict[str, Any] | None:
        state = super()._hardness_state()
        return (
            state
            if self.hardness_log is None
            else {**(state or {}), "weights": self.weights_log.state_dict()}
        )


def trusted_cases(trainer: Any, cases: Sequence[str]) -> list[str]:
    """The training cases with ``yes`` in the column ``trusted`` of the trainer's case table, at least one."""
    meaning = ": yes for cases whose label maps you have checked, otherwise no"
    entries, path = table_column(trainer, _COLUMN, meaning=meaning)
    says = entries.str.lower()
    if (wrong := ~says.isin(["yes", "no", MISSING.lower()])).any():
        case = entries.index[wrong][0]
        raise ValueError(
            f"`{_COLUMN}` of {case} in {path} must be yes or no, got {entries[case]!r}. Correct it."
        )
    trusted = set(says.index[says == "yes"])
    if found := [case for case in cases if case in trusted]:
        return found
    others = (
        f", got yes only for other cases ({name_some(sorted(trusted))})"
        if trusted
        else ", got none"
    )
    raise ValueError(
        f"`{_COLUMN}` in {path} must be yes for at least one of the {len(cases)} training cases of fold "
        f"{trainer.fold}{others}. Check some of their label maps (such as {cases[0]}) and mark these cases."
    )


def trusted_batch_size(n_cases: int) -> int:
    """Number of trusted cases for a batch of n cases.

    A small share of a large batch, as in Ren et al. 2018.
    """
    return n_cases if n_cases <= _SMALL_BATCH else max(_SMALL_BATCH, n_cases // 8)


def trusted_augmenter(
    train: Any, trusted: Sequence[str], loader_class: type[DrawsByHardness]
) -> Any:
    """An augmenter that draws trusted cases only, uniformly, with as many workers as nnU-Net has for validation."""
    loader = loader_of(train)
    table = HardnessTable(trusted, rule=UNIFORM)
    own: Any = loader_class.taking_over(loader, table)
    own.batch_size = trusted_batch_size(loader.batch_size)
    for name in ("data_shape", "seg_shape"):  # only in nnU-Net before 2.7
        if hasattr(own, name):
            setattr(own, name, (own.batch_size, *getattr(own, name)[1:]))
    if isinstance(train, SingleThreadedAugmenter):
        return SingleThreadedAugmenter(own, None)
    n_workers = max(1, get_allowed_n_proc_DA() // 2)
    return NonDetMultiThreadedAugmenter(
        own,
        None,
        n_workers,
        max(3, n_workers // 2),
        pin_memory=train.pin_memory,
        wait_time=train.wait_time,
    )
