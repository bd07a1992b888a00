"""The hardness of a case from its last patches together, as if they were one image."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nnunet_dro.losses.dice_ce import DiceCECaseLosses, mean_of_present


class PooledHardness:
    """Dice + cross-entropy of each case over the patches that were seen of it last.

    For each case, the sums over voxels that Dice and cross-entropy are computed from are kept, S <-
    m S + s, and

        l_i  =  weight_ce  CE_i / n_i  -  weight_dice  mean_c 2 I_ic / (P_ic + R_ic)

    is computed from these sums, with the classes c that any of these patches has (none: the Dice is
    1). The loss of a single patch says above all what the patch contains: where a class is absent
    its soft Dice is about 0, and a patch with a few voxels of it is hard in every case. Here a
    patch counts as much as there is in it, as in nnU-Net's own pseudo Dice, and false positives in
    patches without the class count in the Dice of the patches with it.

    The sums are those of the full resolution. Under several ranks each rank keeps the sums of the
    patches that it saw.

    Args:
        n: Number of cases.
        memory: m, the weight of the past at each visit, in [0, 1): about 1 / (1 - m) patches count.

    Raises:
        ValueError: If the memory is out of range.
    """

    def __init__(self, n: int, *, memory: float) -> None:
        if not 0 <= memory < 1:
            raise ValueError(
                f"`memory` must be in [0, 1), got {memory!r}. 0.9 remembers about ten patches."
            )
        self.n = n
        self.memory = memory
        # (n, 3 c + 2); the number of classes is known at the first batch.
        self._sums: Tensor | None = None

    @torch.no_grad()
    def __call__(self, indices: Tensor, cases: DiceCECaseLosses) -> Tensor:
        """Take in the patches of a batch, and return the hardness of their cases.

        The patches of a case that comes several times are added up. A sum that is not finite is not
        taken in, and the hardness of its case is NaN.

        Returns:
            Shape (b,), detached.
        """
        # One row per case, with the sums of the full resolution.
        new = torch.cat(
            [
                cases.intersection[0],
                cases.predicted[0],
                cases.reference[0],
                cases.cross_entropy[0][:, None],
                cases.n_voxels[0][:, None],
            ],
            1,
        )
        new = new.float()
        is_finite = new.isfinite().all(1, keepdim=True)

        if self._sums is None:
            self._sums = new.new_zeros((self.n, new.shape[1]))
        sums = self._sums.to(new.device)

        # S <- m S + s, where a case that comes several times forgets once.
        old = sums[indices]
        kept = torch.where(is_finite, self.memory * old, old)
        sums.index_copy_(0, indices, kept)
        sums.index_add_(0, indices, new.masked_fill(~is_finite, 0.0))
        self._sums = sums

        hardness = self._hardness(sums[indices], cases)
        return hardness.masked_fill(~is_finite[:, 0], torch.nan)

    @staticmethod
    def _hardness(sums: Tensor, cases: DiceCECaseLosses) -> Tensor:
        """The l_i of the class, from the sums of these cases, shape (b,)."""
        settings = cases.settings
        volumes = sums[:, :-2]
        cross_entropy = sums[:, -2]
        n_voxels = sums[:, -1].clamp_min(1)

        intersection, predicted, reference = volumes.chunk(3, 1)
        dice = cases.dice(intersection, predicted, reference)
        mean_dice = mean_of_present(dice, reference > 0)

        cross_entropy_part = settings.weight_ce * cross_entropy / n_voxels
        dice_part = settings.weight_dice * mean_dice
        return cross_entropy_part - dice_part

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries: the sums of each case, or None before the first batch."""
        if self._sums is None:
            return {"sums": None}
        return {"sums": self._sums.cpu().numpy()}

    def load_state_dict(
        self, state: dict[str, Any], here: NDArray[np.int64], there: NDArray[np.int64]
    ) -> None:
        """Restore the sums of the cases that the state has.

        Args:
            state: An earlier `state_dict`.
            here: Positions of these cases in this object.
            there: Their positions in the state.
        """
        self._sums = None
        if state["sums"] is None:
            return

        saved = np.asarray(state["sums"], dtype=np.float32)
        n_columns = saved.shape[1]
        self._sums = torch.zeros((self.n, n_columns))
        positions = torch.from_numpy(here)
        self._sums[positions] = torch.from_numpy(saved[there])
