"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerL2RW`."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from batchgenerators.dataloading.nondet_multi_threaded_augmenter import NonDetMultiThreadedAugmenter
from batchgenerators.dataloading.single_threaded_augmenter import SingleThreadedAugmenter
from nnunetv2.utilities.default_n_proc_DA import get_allowed_n_proc_DA
from numpy.typing import NDArray
from torch import Tensor, nn
from torch import distributed as dist

from nnunet_dro.files.case_table import MISSING
from nnunet_dro.losses import LearnedWeights, WeightedGradient
from nnunet_dro.losses.learned_weights import Batch
from nnunet_dro.naming import count, name_some
from nnunet_dro.sampling import UNIFORM, HardnessTable
from nnunet_dro.trainers.case_columns import CaseColumns
from nnunet_dro.trainers.data.case_groups import table_column
from nnunet_dro.trainers.data.dataloading import DrawsByHardness, loader_of
from nnunet_dro.trainers.l2rw.weights_log import WeightsLog
from nnunet_dro.trainers.log.epoch_log import TrainingLog
from nnunet_dro.trainers.named import NamedTrainer
from nnunet_dro.trainers.options import TrainerOptions

#: Norm to which nnU-Net clips gradients.
_LARGEST_NORM = 12
#: Column of the case table.
_COLUMN = "trusted"
#: Batches of at most this many cases have as many trusted cases; larger batches have an eighth.
_SMALL_BATCH = 4


class FastestWay:
    """Weighted gradients in the faster of the two ways, which the first iterations find.

    Both ways are exact.

    Args:
        learned: What computes the gradients.
        device: Where it does so.
        report: Takes one line for the log once the choice is made.
    """

    def __init__(
        self, learned: LearnedWeights, device: torch.device, report: Callable[[str], object]
    ) -> None:
        self.learned = learned
        self.device = device
        self.report = report
        self.times: list[float] = []

    @property
    def is_chosen(self) -> bool:
        """Whether a way was chosen; until then they take turns."""
        return len(self.times) == 4 or self.learned.not_at_once is not None

    def gradient(self, batch: Batch, trusted: Batch) -> WeightedGradient:
        """See `LearnedWeights.gradient`."""
        if self.is_chosen:
            return self.learned.gradient(batch, trusted)

        self.learned.at_once = len(self.times) % 2 == 1
        start = self._now()
        gradient = self.learned.gradient(batch, trusted)
        self.times.append(self._now() - start)
        if self.is_chosen:
            self.report(f"Learning to reweight: the weights are computed {self._choice()}")
        return gradient

    def _choice(self) -> str:
        """Choose a way, and say which and why."""
        reason = self.learned.not_at_once
        if reason is not None:
            return f"case by case and not at once: {reason}"

        case_by_case, at_once = self.times[2:]  # the first turn of each way warms up
        self.learned.at_once = at_once < case_by_case
        way = "at once" if self.learned.at_once else "case by case"
        return f"{way} (case by case {case_by_case:.3f} s, at once {at_once:.3f} s per iteration)"

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
    _learned: LearnedWeights | FastestWay | None = None

    def _check_before_training(self) -> None:
        cases = [str(case) for case in self.do_split()[0]]
        trusted = trusted_cases(self, cases)
        self.beginning.keep_entries(
            {case: "yes" if case in trusted else "no" for case in cases},
            column=_COLUMN,
        )

    def _learning(self) -> LearnedWeights:
        """What computes the weights and the weighted gradient of a batch."""
        network = self.network
        sum_over_ranks = None
        if self.is_ddp:
            # Without the wrapper: this trainer exchanges the weighted gradients itself.
            network = network.module
            sum_over_ranks = dist.all_reduce
            if any(isinstance(module, nn.SyncBatchNorm) for module in network.modules()):
                raise RuntimeError(
                    "nnUNetTrainerL2RW needs each case by itself, but the batch norm of this "
                    "network mixes the cases of all GPUs. Train on one GPU, or use a network with "
                    "instance norm, as nnU-Net's own networks do."
                )

        scale = None
        if self.grad_scaler is not None:
            scale = self.grad_scaler.scale

        def losses(output: Any, target: Any) -> Tensor:
            return self.loss.per_case(output, target).losses

        def autocast() -> AbstractContextManager[Any]:
            return torch.autocast("cuda") if self.device.type == "cuda" else nullcontext()

        return LearnedWeights(
            network,
            losses,
            autocast=autocast,
            scale=scale,
            sum_over_ranks=sum_over_ranks,
        )

    def get_dataloaders(self) -> tuple[Any, Any]:
        """nnU-Net's data loaders; the one of the trusted cases is set up beside them."""
        train, validation = super().get_dataloaders()
        cases = list(loader_of(train).table.cases)
        trusted = trusted_cases(self, cases)
        self.dataloader_trusted = trusted_augmenter(train, trusted, self.loader_class)

        self.weights_log = WeightsLog(cases, trusted, n_epochs=self.num_epochs)
        if "weights" in self.beginning.state:
            self.weights_log.load_state_dict(self.beginning.state["weights"])
        next(self.dataloader_trusted)  # starts the workers, as nnU-Net does with its own
        return train, validation

    def on_train_start(self) -> None:
        """Start as nnU-Net does, and log which cases are trusted."""
        super().on_train_start()
        if self.local_rank != 0:
            return

        trusted = sorted(self.weights_log.trusted)
        self.print_to_log_file(
            f"Learning to reweight with {count(len(trusted), 'trusted case')} of "
            f"{len(self.weights_log.cases)}: {name_some(trusted)}"
        )

    def train_step(self, batch: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
        """Make a step along the weighted gradient, and return the unweighted mean loss."""
        if self._learned is None:
            self._learned = FastestWay(self._learning(), self.device, self.print_to_log_file)
        trusted = next(self.dataloader_trusted)
        gradient = self._learned.gradient(self._inputs(batch), self._inputs(trusted))

        drawn = CaseColumns.in_batch(batch, device=self.device)
        drawn = replace(drawn, losses=gradient.losses, weights=gradient.weights)
        # Sent before the step, which waits for the device anyway when it asks whether to be made.
        self.loss.send(drawn, gradient.losses.mean())
        self._step_along(gradient)
        cases, mean_loss = self.loss.step()
        return self._store(cases, mean_loss)

    def _inputs(self, batch: dict[str, Any]) -> tuple[Any, Any]:
        """Images and target of a batch on the device."""
        return self._on_device(batch["data"]), self._on_device(batch["target"])

    def _store(self, cases: CaseColumns, mean_loss: float) -> dict[str, NDArray[np.float32]]:
        self.weights_log.record(cases)
        return super()._store(cases, mean_loss)

    def _step_along(self, gradient: WeightedGradient) -> None:
        """Do what nnU-Net does after its backward pass.

        If no case of the batch helps the trusted ones, there is nothing to do.
        """
        total = float(gradient.total)
        if total == 0 or (self.grad_scaler is None and not math.isfinite(total)):
            return

        self.optimizer.zero_grad(set_to_none=True)
        gradient.write()
        if self.grad_scaler is not None:
            self.grad_scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), _LARGEST_NORM)

        if self.grad_scaler is None:
            self.optimizer.step()
        else:  # skips the step after an overflow, and lowers the scale
            self.grad_scaler.step(self.optimizer)
            self.grad_scaler.update()

    def _epoch_logs(self) -> list[TrainingLog]:
        return [*super()._epoch_logs(), self.weights_log]

    def on_train_end(self) -> None:
        """End as nnU-Net does, and stop the workers of the trusted cases."""
        super().on_train_end()
        if hasattr(self.dataloader_trusted, "_finish"):
            self.dataloader_trusted._finish()

    def _hardness_state(self) -> dict[str, Any]:
        state = super()._hardness_state()
        if self.hardness_log is None:
            return state
        return {**state, "weights": self.weights_log.state_dict()}


def trusted_cases(trainer: Any, cases: Sequence[str]) -> list[str]:
    """The training cases with ``yes`` in the column ``trusted`` of the trainer's case table.

    Raises:
        ValueError: If an entry is neither yes nor no, or none of the cases is trusted.
    """
    meaning = ": yes for cases whose label maps you have checked, otherwise no"
    entries, path = table_column(trainer, cases, _COLUMN, meaning=meaning)

    answers = entries.str.lower()
    wrong = ~answers.isin(["yes", "no", MISSING.lower()])
    if wrong.any():
        case = entries.index[wrong][0]
        raise ValueError(
            f"`{_COLUMN}` of {case} in {path} must be yes or no, got {entries[case]!r}. Correct it."
        )

    all_trusted = set(answers.index[answers == "yes"])
    trusted = [case for case in cases if case in all_trusted]
    if trusted:
        return trusted

    got = "none"
    if all_trusted:
        got = f"yes only for other cases ({name_some(sorted(all_trusted))})"
    raise ValueError(
        f"`{_COLUMN}` in {path} must be yes for at least one of the {len(cases)} training cases of "
        f"fold {trainer.fold}, got {got}. Check some of their label maps (such as {cases[0]}) and "
        "mark these cases."
    )


def trusted_batch_size(n_cases: int) -> int:
    """Number of trusted cases for a batch of n cases.

    For a large batch it is a small share, as in Ren et al. 2018.
    """
    if n_cases <= _SMALL_BATCH:
        return n_cases
    return max(_SMALL_BATCH, n_cases // 8)


def trusted_augmenter(
    train: Any, trusted: Sequence[str], loader_class: type[DrawsByHardness]
) -> Any:
    """An augmenter that draws trusted cases only, uniformly.

    It has as many workers as nnU-Net's for validation.
    """
    loader = loader_of(train)
    table = HardnessTable(trusted, rule=UNIFORM)
    own: Any = loader_class.taking_over(loader, table)
    own.batch_size = trusted_batch_size(loader.batch_size)
    for name in ("data_shape", "seg_shape"):  # only in nnU-Net before 2.7
        if hasattr(own, name):
            _, *shape = getattr(own, name)
            setattr(own, name, (own.batch_size, *shape))

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
