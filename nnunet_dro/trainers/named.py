"""Base of all trainers that are made from a name: nnU-Net's trainer with the options in the name."""

import os
from typing import Any, ClassVar

import torch
from nnunetv2.training.lr_scheduler.polylr import PolyLRScheduler
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.options import DROOptions, TrainerOptions


class NamedTrainer(HardnessWeighted, nnUNetTrainer):
    """nnU-Net's trainer with the length, the optimiser and the sampling that its name asks for."""

    #: The class of the options that the name of this trainer can give.
    options_class: ClassVar[type[TrainerOptions]] = DROOptions

    def __init__(
        self,
        plans: dict[str, Any],
        configuration: str,
        fold: int,
        dataset_json: dict[str, Any],
        device: torch.device = torch.device("cuda"),  # noqa: B008
    ) -> None:
        super().__init__(plans, configuration, fold, dataset_json, device)
        self.num_epochs = self.options.epochs
        self.num_iterations_per_epoch = self.options.iterations
        self.num_val_iterations_per_epoch = self.options.validation_iterations

    def initialize(self) -> None:
        """nnU-Net's, in as many threads as OMP_NUM_THREADS asks for."""
        # nnUNetv2_train takes a thread for every processor, whatever the environment says.
        wished = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
        if self.device.type == "cpu" and wished.isdecimal() and 0 < int(wished) < torch.get_num_threads():
            torch.set_num_threads(int(wished))
            self.print_to_log_file(f"Threads: {wished}, as OMP_NUM_THREADS says.")
        super().initialize()

    def configure_optimizers(self) -> tuple[torch.optim.Optimizer, Any]:
        """nnU-Net's optimiser, or SGD without momentum."""
        if not self.options.plain_sgd:
            optimizer, scheduler = super().configure_optimizers()
            return optimizer, scheduler
        optimizer = torch.optim.SGD(self.network.parameters(), self.initial_lr, weight_decay=self.weight_decay)
        return optimizer, PolyLRScheduler(optimizer, self.initial_lr, self.num_epochs)
