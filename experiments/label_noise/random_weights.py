"""The control of learning to reweight: nnU-Net whose cases have random weights."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nnunet_dro.trainers.hardness_weighted import HardnessWeighted
from nnunet_dro.trainers.registry import trainer_class

#: Name of the trainer without its length, and the folder in which nnU-Net finds it.
RANDOM_WEIGHTS = "nnUNetTrainerRandomWeights"
TRAINER_FOLDER = Path(__file__).parent / "trainers"
#: Plain training, from which it differs in the weights alone.
_PLAIN = "nnUNetTrainerHWS_beta0"


class RectifiedGaussianWeights:
    """Weights of the cases of a batch that know nothing of the cases.

    w_i = max(z_i, 0) / sum_j max(z_j, 0) with standard normal z, drawn again where all are
    negative: Ren et al. 2018, eq. (16), who do not say what happens then. No other random numbers
    share the stream.
    """

    def __init__(self, seed: int) -> None:
        self.rng = torch.Generator().manual_seed(seed)

    def __call__(self, hardness: Tensor, *_: Tensor, **__: Tensor) -> tuple[Tensor, Tensor]:
        """The weights times the number of cases b, and which of them were clipped.

        Both have the shape (b,); none is clipped.
        """
        drawn = torch.zeros(len(hardness))
        while not drawn.any():
            drawn = torch.randn(len(hardness), generator=self.rng).clamp_min(0)
        weights = (len(drawn) * drawn / drawn.sum()).to(hardness)
        return weights, torch.zeros_like(weights)


class _WithRandomWeights(HardnessWeighted):
    def _build_loss(self) -> Any:
        loss: Any = super()._build_loss()
        # Of the training's seed, but not of its stream: patches and augmentation are those of plain
        # training.
        loss.importance = RectifiedGaussianWeights(torch.initial_seed())
        return loss


def random_weights_trainer(name: str) -> type:
    """The trainer class of a name.

    `RANDOM_WEIGHTS` and the options of plain training, as ``..._20epochs``.
    """
    plain = trainer_class(name.replace(RANDOM_WEIGHTS, _PLAIN, 1))
    namespace = {
        "__module__": __name__,
        "__doc__": "Plain nnU-Net whose cases have random weights.",
    }
    metaclass: Any = type(plain)
    return metaclass(name, (_WithRandomWeights, plain), namespace)
