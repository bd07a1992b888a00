"""Bases of all trainers that are made from a name: nnU-Net's trainer with the options in it."""

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from nnunetv2.training.lr_scheduler.polylr import PolyLRScheduler
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.files.case_table import notes_on_spelling
from nnunet_dro.sampling import Rule
from nnunet_dro.trainers.data.case_groups import groups_of, weights_of
from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.options import GroupOptions

#: Share of a training after which nnU-Net saves it again: 50 of 1000 epochs.
_SAVED_SHARE = 0.05

#: Bytes that file systems take in the name of a folder.
_LONGEST_FOLDER = 255
#: Room that is kept for the names of the plans and of the configuration (3d_cascade_fullres is
#: nnU-Net's longest).
_PLANS_LENGTH = 15
_CONFIGURATION_LENGTH = 18


class NamedTrainer(HardnessWeighted, nnUNetTrainer):
    """nnU-Net's trainer with the length, the optimiser and the sampling that its name asks for."""

    def __init__(
        self,
        plans: dict[str, Any],
        configuration: str,
        fold: int,
        dataset_json: dict[str, Any],
        device: torch.device = torch.device("cuda"),  # noqa: B008
    ) -> None:
        super().__init__(plans, configuration, fold, dataset_json, device)
        self.initial_lr = self.options.learning_rate
        self.num_epochs = self.options.epochs
        self.num_iterations_per_epoch = self.options.iterations
        self.num_val_iterations_per_epoch = self.options.validation_iterations

        # As often as nnU-Net: a short training would otherwise be saved at its best epochs only, or
        # never.
        self.save_every = max(1, round(self.num_epochs * _SAVED_SHARE))

    def initialize(self) -> None:
        """Initialise as nnU-Net does, in as many threads as OMP_NUM_THREADS asks for."""
        # nnUNetv2_train takes a thread for every processor, whatever the environment says.
        wished = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        if self.device.type == "cpu" and wished.isdecimal():
            n_threads = int(wished)
            if 0 < n_threads < torch.get_num_threads():
                torch.set_num_threads(n_threads)
                self.print_to_log_file(f"Threads: {wished}, as OMP_NUM_THREADS says.")

        super().initialize()

    def on_train_start(self) -> None:
        """Start as nnU-Net does, and warn of a name that is too long for folders of ensembles."""
        super().on_train_start()
        if self.local_rank != 0:
            return

        name = type(self).__name__
        length = len(name.encode())
        longest = longest_name(
            str(self.plans_manager.plans_name),
            list(self.plans_manager.available_configurations),
        )
        if length > longest:
            self.print_to_log_file(
                f"WARNING: {name} has {length} characters. nnUNetv2_find_best_configuration joins "
                "the names of two models to one folder's, and may fail with names of more than "
                f"{longest}. Use fewer options or a shorter column, or call it with "
                "--disable_ensembling."
            )

    def configure_optimizers(self) -> tuple[torch.optim.Optimizer, Any]:
        """nnU-Net's optimiser, or SGD without momentum."""
        if not self.options.plain_sgd:
            optimizer, scheduler = super().configure_optimizers()
            return optimizer, scheduler

        optimizer = torch.optim.SGD(
            self.network.parameters(),
            self.initial_lr,
            weight_decay=self.weight_decay,
        )
        return optimizer, PolyLRScheduler(optimizer, self.initial_lr, self.num_epochs)

    def _on_device(self, values: Any) -> Any:
        """A tensor, or a list of them, moved to the device without waiting for it."""
        if isinstance(values, list):
            return [value.to(self.device, non_blocking=True) for value in values]
        return values.to(self.device, non_blocking=True)


class GroupedTrainer(NamedTrainer):
    """A trainer whose name contains a column of the case table."""

    options: ClassVar[GroupOptions] = GroupOptions(column="group")  # each name has its own column

    def groups(self, cases: Sequence[str]) -> list[str]:
        """Group of each case, or with `asWeights` its weight.

        Raises:
            OSError: If the case table is missing or cannot be read.
            ValueError: If the column has no usable entry for a case.
        """
        if self.options.as_weights:
            return weights_of(self, cases, column=self.options.column)
        return groups_of(self, cases, column=self.options.column)

    def _make_rule(self, cases: Sequence[str]) -> Rule:
        return self.options.rule(self.groups(cases))

    def _check_before_training(self) -> None:
        cases = [str(case) for case in self.do_split()[0]]
        groups = self.groups(cases)
        self.beginning.keep_entries(
            dict(zip(cases, groups, strict=True)),
            column=self.options.column,
        )
        if self.options.as_weights:
            return
        for note in notes_on_spelling(self.options.column, groups):
            self.print_to_log_file(note)


def longest_name(plans: str, configurations: Sequence[str]) -> int:
    """The longest name of a trainer, in bytes, with which nnU-Net can name an ensemble.

    The folder of an ensemble is named after two models of ``plans`` and any of ``configurations``.
    """
    ensemble = len("ensemble______") + len("___0_1_2_3_4") + 2 * len("____")
    plans_length = max(_PLANS_LENGTH, len(plans.encode()))
    lengths = [_CONFIGURATION_LENGTH, *(len(name.encode()) for name in configurations)]
    return (_LONGEST_FOLDER - ensemble) // 2 - plans_length - max(lengths)
