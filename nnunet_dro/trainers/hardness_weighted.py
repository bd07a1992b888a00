"""Hardness weighted sampling for any trainer of nnU-Net, as a mixin."""

import math
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import distributed as dist
from torch import nn

from nnunet_dro.losses import DiceCELoss, PooledHardness
from nnunet_dro.naming import count
from nnunet_dro.sampling import UNIFORM, HardnessTable, Rule
from nnunet_dro.trainers.beginning import Beginning
from nnunet_dro.trainers.case_columns import CaseColumns, rows_of_all_ranks
from nnunet_dro.trainers.checkpoint import CheckpointedLogger, whole_checkpoint
from nnunet_dro.trainers.data.case_groups import watched_groups
from nnunet_dro.trainers.data.dataloading import (
    DrawsByHardness,
    HardnessDataLoader,
    loader_of,
    put_loader,
)
from nnunet_dro.trainers.data.image_rarity import draws_of_rare_images
from nnunet_dro.trainers.data.preprocessed_cases import check_preprocessed, check_previous_stage
from nnunet_dro.trainers.data.subvolumes import Subvolumes, subvolumes_of
from nnunet_dro.trainers.data.voxel_shares import voxel_shares
from nnunet_dro.trainers.log.epoch_log import Row, TrainingLog
from nnunet_dro.trainers.log.hardness_log import HardnessLog
from nnunet_dro.trainers.log.lines import (
    line_of_end,
    line_of_start,
    line_of_versions,
    lines_before,
)
from nnunet_dro.trainers.options import DROOptions, TrainerOptions
from nnunet_dro.trainers.weighted_loss import HardnessWeightedLoss, per_case_loss

if TYPE_CHECKING:
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer as _Trainer
else:
    _Trainer = object


class HardnessWeighted(_Trainer):
    """Mixin that makes a trainer of nnU-Net train most on the cases that its network is worst at.

    ``class Mine(HardnessWeighted, nnUNetTrainerDA5)`` is all that is needed. Set `options` to
    choose beta and everything else.

    Example:
        >>> from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer
        >>> class Mine(HardnessWeighted, nnUNetTrainer):
        ...     options = DROOptions(beta=10.0)
        >>> str(Mine.options.rule())
        'beta 10'

    Source: Fidon et al. 2022 (MELBA), Algorithm 1.
    """

    options: ClassVar[TrainerOptions] = DROOptions()
    #: The class of the data loader. A trainer with a data loader of its own sets a class that
    #: derives from `DrawsByHardness` and from that one.
    loader_class: ClassVar[type[DrawsByHardness]] = HardnessDataLoader
    #: Created together with the data loaders, when the training cases are known; None where nothing
    #: is trained.
    hardness_log: HardnessLog = None  # type: ignore[assignment]
    logger: Any

    # nnU-Net reads this signature and stores its own arguments by these names.
    def __init__(
        self,
        plans: dict[str, Any],
        configuration: str,
        fold: int,
        dataset_json: dict[str, Any],
        device: torch.device = torch.device("cuda"),  # noqa: B008
    ) -> None:
        super().__init__(plans, configuration, fold, dataset_json, device)
        self.beginning = Beginning(self)
        self.logger = CheckpointedLogger(
            self.logger,
            save=self._hardness_state,
            load=self.beginning.load,
        )

    def _make_rule(self, cases: Sequence[str]) -> Rule:
        """What decides how likely each training case is to be drawn.

        It is called when the cases are known.
        """
        return self.options.rule(rarity=self._draws_of_images)

    @cached_property
    def _draws_of_images(self) -> NDArray[np.float64] | None:
        """How often each training case is drawn for its image, relative to chance.

        None where images are not looked at.
        """
        cap = self.options.cap_of_kinds
        if cap == 1:
            return None
        batch_size = None if self.options.replace else self._max_cases
        return draws_of_rare_images(self, cap=cap, batch_size=batch_size)

    @property
    def _max_cases(self) -> int:
        """Number of cases in the largest batch of a rank."""
        n_ranks = dist.get_world_size() if self.is_ddp else 1
        return math.ceil(self.configuration_manager.batch_size / n_ranks)

    def _check_before_training(self) -> None:
        """Raise errors before workers are started, whose messages at their end would hide them."""
        _ = self._draws_of_images

    def _build_loss(self) -> nn.Module:
        plain = super()._build_loss()
        return HardnessWeightedLoss(
            plain,
            per_case_loss(plain, self.options),
            importance=self.options.importance,
            normalised=self.options.normalised,
            max_cases=self._max_cases,
            is_ddp=self.is_ddp,
        ).to(self.device)

    def get_tr_and_val_datasets(self) -> tuple[Any, Any]:
        """nnU-Net's training and validation cases.

        All must be preprocessed and, in a cascade, predicted by the stage before.
        """
        train, validation = super().get_tr_and_val_datasets()
        cases = [*train.identifiers, *validation.identifiers]
        check_preprocessed(Path(self.preprocessed_dataset_folder), cases)
        if self.is_cascaded:
            check_previous_stage(Path(self.folder_with_segs_from_previous_stage), cases)
        return train, validation

    def get_dataloaders(self) -> tuple[Any, Any]:
        """nnU-Net's data loaders; the one for training draws from the hardness table."""
        if self.options.logit_adjustment or self.options.vector_scaling:
            # Not together with the loss, which is also built where nothing is trained.
            adjusted = per_case_loss(self.loss.plain, self.options, shares=voxel_shares(self))
            self.loss.per_case = adjusted.to(self.device)

        train, validation = super().get_dataloaders()
        loader = loader_of(train)
        cases = [str(case) for case in loader.indices]

        subvolumes = self._subvolumes(loader)
        items = subvolumes.names if subvolumes else cases

        table = HardnessTable(
            items,
            rule=self._make_rule(cases),
            momentum=self.options.history.momentum,
            exploration=self.options.exploration,
            replace=self.options.replace,
            auto_beta=self.options.auto_beta,
        )
        table.warming_up = self._warms_up
        self.loss.pooled = self._pooled_hardness(len(items))
        self.hardness_log = HardnessLog(
            table,
            self.options.importance,
            groups=self._watched_groups(cases),
            subvolumes=subvolumes,
            n_epochs=self.num_epochs,
        )
        self.beginning.restore()
        self.estimate_beta()
        lines = lines_before(
            table,
            self.loss,
            self.options,
            cases=cases,
            fold=self.fold,
            batch_size=int(loader.batch_size),
        )
        for line in lines:
            self.print_to_log_file(line)

        # nnU-Net has already started its workers, which draw uniformly.
        put_loader(train, self.loader_class.taking_over(loader, table, subvolumes))
        return train, validation

    def _subvolumes(self, loader: Any) -> Subvolumes | None:
        """The sub-volumes of the training cases, which are drawn; None where cases are."""
        if math.prod(self.options.subvolumes) == 1:
            return None
        return subvolumes_of(loader, self.options.subvolumes, report=self.print_to_log_file)

    def _pooled_hardness(self, n_items: int) -> PooledHardness | None:
        """What pools the losses of the last patches of an item; None if only the last counts."""
        if self.options.history.hardness != "pooled":
            return None

        if isinstance(self.loss.per_case, DiceCELoss):
            gather = None
            if self.is_ddp:
                gather = partial(rows_of_all_ranks, max_cases=self.loss.max_cases)
            return PooledHardness(n_items, memory=self.options.history.memory, gather=gather)

        self.print_to_log_file(
            "The hardness of a case is the loss of its last patch: only nnU-Net's Dice + "
            "cross-entropy can be pooled."
        )
        return None

    def _watched_groups(self, cases: Sequence[str]) -> dict[str, list[str]]:
        try:
            return watched_groups(self, cases)
        except (OSError, ValueError) as error:
            self.print_to_log_file(
                f"WARNING: the log will not show the share of draws per group: {error}"
            )
            return {}

    def estimate_beta(self) -> None:
        """Estimate beta if the options ask for it; every rank does so, from the same losses."""
        if self.options.auto_beta:
            self.hardness_log.table.estimate_beta()

    def on_train_start(self) -> None:
        """Log how cases are drawn, and continue the logs of a resumed training."""
        self.beginning.check()
        self._check_before_training()
        super().on_train_start()

        self.beginning.begin()
        self.beginning.warn_of_validation()
        if self.local_rank != 0:
            return

        for log in self._epoch_logs():
            log.keep_epochs_before(self.current_epoch, Path(self.output_folder))
        drawn = self.hardness_log
        self.print_to_log_file(line_of_versions())
        self.print_to_log_file(
            line_of_start(
                drawn.table,
                drawn.importance,
                drawn.items,
                uniformly=self.draws_uniformly,
            )
        )

    def _epoch_logs(self) -> list[TrainingLog]:
        """The logs that are written after each epoch."""
        return [self.hardness_log]

    @property
    def draws_uniformly(self) -> bool:
        """Whether every case is as likely as any other, to the end."""
        return self.hardness_log.table.rule == UNIFORM and not self.options.auto_beta

    @property
    def _warms_up(self) -> bool:
        return self.current_epoch < self.options.history.warmup

    def on_train_epoch_start(self) -> None:
        """Start an epoch as nnU-Net does; after a warm-up, begin to draw by hardness."""
        super().on_train_epoch_start()
        table = self.hardness_log.table
        if table.warming_up != self._warms_up:
            table.warming_up = self._warms_up
            self.print_to_log_file(
                f"The warm-up of {count(self.options.history.warmup, 'epoch')} is over: draws "
                "are no longer uniform."
            )

    def train_step(self, batch: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
        """Make nnU-Net's step on the weighted loss, and return nnU-Net's own, without weights."""
        cases, mean_loss = self._step_on(batch)
        return self._store(cases, mean_loss)

    def _step_on(self, batch: dict[str, Any]) -> tuple[CaseColumns, float]:
        """Make nnU-Net's step on the weighted loss.

        Returns:
            The cases, which are not stored yet, and nnU-Net's loss.
        """
        table = self.hardness_log.table
        rule = None if table.warming_up else table.rule
        with self.loss.drawn(batch, rule):
            super().train_step(batch)
        return self.loss.step()

    def _store(self, cases: CaseColumns, mean_loss: float) -> dict[str, NDArray[np.float32]]:
        """Store and log the cases of a step; returns what nnU-Net's step returns."""
        self.hardness_log.table.update(cases.indices, cases.losses)
        self.hardness_log.record(cases)
        return {"loss": np.array(mean_loss, dtype=np.float32)}

    def on_train_epoch_end(self, train_outputs: list[dict[str, Any]]) -> None:
        """Write the logs of the epoch."""
        super().on_train_epoch_end(train_outputs)
        self.estimate_beta()
        if self.local_rank != 0:
            return

        for log in self._epoch_logs():
            for line in log.end_epoch(self.current_epoch, Path(self.output_folder)):
                self.print_to_log_file(line)
        self._log_elsewhere(self.hardness_log.rows[-1])

    def on_train_end(self) -> None:
        """End as nnU-Net does, and name the cases for which an earned share has come to nothing."""
        super().on_train_end()
        if self.local_rank != 0:
            return

        if line := line_of_end(self.hardness_log.table):
            self.print_to_log_file(line)

    def perform_actual_validation(self, save_probabilities: bool = False) -> None:
        """Validate as nnU-Net does, and say where its scores will be too good."""
        self.beginning.warn_of_validation()
        super().perform_actual_validation(save_probabilities)

    def _log_elsewhere(self, row: Row) -> None:
        """Send the scalars of an epoch to nnU-Net's other loggers, such as Weights & Biases.

        nnU-Net's local logger is left out, because it takes no new keys.
        """
        for logger in getattr(self.logger, "loggers", []):
            for name, value in row.items():
                if name != "epoch" and np.isfinite(value):
                    logger.log(f"hardness/{name}", value, self.current_epoch)

    def save_checkpoint(self, filename: str) -> None:
        """Write nnU-Net's checkpoint with the hardness table in it, completely or not at all."""
        if self.local_rank != 0:
            return  # only the first rank writes; another one would remove its unfinished file
        with whole_checkpoint(filename) as partial:
            super().save_checkpoint(str(partial))

    def _hardness_state(self) -> dict[str, Any]:
        """What this class adds to a checkpoint; nothing if it is empty."""
        return self.beginning.state_of_training()
