"""`nnUNetv2_train DATASET CONFIGURATION FOLD -tr nnUNetTrainerGILS`."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nnunet_dro.losses import DiceCELoss, cross_entropies
from nnunet_dro.trainers.gils.perturbation import (
    Ascent,
    Perturbed,
    ascend,
    bare,
    find_features_module,
)
from nnunet_dro.trainers.gils.perturbation_log import PerturbationLog, make_example
from nnunet_dro.trainers.log.epoch_log import TrainingLog
from nnunet_dro.trainers.nnUNetTrainerLS import nnUNetTrainerLS
from nnunet_dro.trainers.options import GILSOptions


class nnUNetTrainerGILS(nnUNetTrainerLS):  # noqa: N801
    """nnU-Net trained on each batch and on a copy made harder, with label smoothing.

    An example of a name is `nnUNetTrainerGILS_T2_gamma0.1`.

    It is meant for few training data and for domains that are not among them. An iteration has two
    optimiser steps: one on the generated batch, then one on the original batch.

    Source: Wang et al., "Generalizing Few Data to Unseen Domains Flexibly Based on Label Smoothing
    Integrated with Distributionally Robust Optimization", 2024, Algorithm 1 (GI-LS).
    """

    options: ClassVar[GILSOptions] = GILSOptions()
    #: Dotted name of the layer that computes the logits of full resolution; '' for nnU-Net's own
    #: networks.
    features_module: ClassVar[str] = ""
    #: Created together with the network.
    perturbation_log: PerturbationLog

    def initialize(self) -> None:
        """Initialise as nnU-Net does, and find the features early: an error then costs no time."""
        super().initialize()
        find_features_module(bare(self.network), self.features_module)
        self.perturbation_log = PerturbationLog(self.options.steps)

    def _epoch_logs(self) -> list[TrainingLog]:
        return [*super()._epoch_logs(), self.perturbation_log]

    def train_step(self, batch: dict[str, Any]) -> dict[str, NDArray[np.float32]]:
        """Make a step on the generated batch, and then one on the original batch.

        In a warm-up there is only the second step. Its loss is returned.
        """
        if self.current_epoch < self.options.warmup:
            return super().train_step(batch)

        batch = {
            **batch,
            "data": self._on_device(batch["data"]),
            "target": self._on_device(batch["target"]),
        }
        perturbed = self._perturb(batch["data"], batch["target"])
        self._record(perturbed, batch)

        # The losses of this step are not stored: stale losses belong to the original images.
        self._step_on({**batch, "data": perturbed.data})
        return super().train_step(batch)

    def _perturb(self, data: Tensor, target: Tensor | list[Tensor]) -> Perturbed:
        """Move the images of a batch to their worst neighbours."""
        network = bare(self.network)
        n_channels = data.shape[1]
        if self.is_cascaded:
            # The last channels are the labels of the stage before.
            n_channels -= len(self.label_manager.foreground_labels)

        ascent = Ascent(
            steps=self.options.steps,
            eta=self.options.step_size,
            gamma=self.options.penalty,
            largest_change=self.options.largest_change,
        )
        return ascend(
            network,
            find_features_module(network, self.features_module),
            data,
            lambda output: self._losses_to_ascend(output, target),
            ascent,
            n_voxels=self._n_annotated(target),
            n_channels=n_channels,
        )

    def _losses_to_ascend(self, output: Any, target: Tensor | list[Tensor]) -> Tensor:
        per_case = self.loss.per_case
        if isinstance(per_case, DiceCELoss):
            return cross_entropies(per_case, output, target)
        return per_case(output, target).losses  # a loss of another trainer, as it is

    def _n_annotated(self, target: Tensor | list[Tensor]) -> Tensor | None:
        """Number of voxels with a label in each case, or None if all voxels have one."""
        labels = self.label_manager
        if not labels.has_ignore_label:
            return None

        finest = _finest(target)
        if labels.has_regions:
            is_ignored = finest[:, -1] > 0
        else:
            is_ignored = finest[:, 0] == labels.ignore_label
        return (~is_ignored).flatten(1).sum(1)

    def _record(self, perturbed: Perturbed, batch: dict[str, Any]) -> None:
        if self.local_rank != 0:
            return

        self.perturbation_log.record(perturbed)
        if self.perturbation_log.example is None:
            self.perturbation_log.example = make_example(
                batch["data"],
                perturbed.data,
                _finest(batch["target"]),
                [str(name) for name in batch["keys"]],
                ignore_label=self.label_manager.ignore_label,
                regions=self.label_manager.has_regions,
            )


def _finest(target: Tensor | list[Tensor]) -> Tensor:
    """The target of full resolution, which is the first one in deep supervision."""
    return target[0] if isinstance(target, list) else target
