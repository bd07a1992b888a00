"""Base of all trainers that are made from a name: nnU-Net's trainer with the options in the name."""

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

    def configure_optimizers(self) -> tuple[torch.optim.Optimizer, Any]:
        """nnU-Net's optimiser, or SGD without momentum."""
        if not self.options.plain_sgd:
            optimizer, scheduler = super().configure_optimizers()
            return optimizer, scheduler
        optimizer = torch.optim.SGD(self.network.parameters(), self.initial_lr, weight_decay=self.weight_decay)
        return optimizer, PolyLRScheduler(optimizer, self.initial_lr, self.num_epochs)
