"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerDRO`."""

from typing import Any

import torch
from nnunetv2.training.lr_scheduler.polylr import PolyLRScheduler
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from nnunet_dro.trainers.hardness_weighted import HardnessWeighted


class nnUNetTrainerDRO(HardnessWeighted, nnUNetTrainer):  # noqa: N801
    """nnU-Net trained with hardness weighted sampling; options in the name, `nnUNetTrainerDRO_beta10_noIS_20epochs`.

    Source: Fidon et al., "Distributionally Robust Deep Learning using Hardness Weighted Sampling", MELBA 2022.
    """

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
