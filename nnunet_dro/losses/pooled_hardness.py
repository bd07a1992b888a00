"""The hardness of a case from its last patches together, as if they were one image."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nnunet_dro.losses.dice_ce import DiceCECaseLosses, mean_of_present


class PooledHardness:
    """Dice + cross-entropy of each case over the patches that were seen of it last.

    The sums over voxels that Dice and cross-entropy are computed from are kept for each case, S <-
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
        """Take the patches of a batch in, and return the hardness of their cases, shape (b,), detached.

        The patches of a case that comes several times are added up. A sum that is not finite is not
        taken in, and the hardness of its case is NaN.
        """
        dice = torch.stack(
            [cases.intersection[0], cases.predicted[0], cases.reference[0]], 1
        ).flatten(1)
        new = torch.cat(
            [dice, cases.cross_entropy[0][:, None], cases.n_voxels[0][:, None]], 1
        ).float()
        if self._sums is None:
            self._sums = new.new_zeros((self.n, new.shape[1]))
        sums = self._sums.to(new.device)
        is_finite = new.isfinite().all(1, keepdim=True)
        kept = sums[indices]
        sums.index_copy_(0, indices, torch.where(is_finite, self.memory * kept, kept))
        sums.index_add_(0, indices, new.masked_fill(~is_finite, 0.0))
        self._sums = sums
        return self._hardness(sums[indices], cases).masked_fill(~is_finite[:, 0], torch.nan)

    @staticmethod
    def _hardness(sums: Tensor, cases: DiceCECaseLosses) -> Tensor:
        settings = cases.settings
        intersection, predicted, reference = sums[:, :-2].chunk(3, 1)
        dice = (2 * intersection + settings.smooth) / (
            predicted + reference + settings.smooth
        ).clamp_min(1e-8)
        mean = mean_of_present(dice, reference > 0)
        return (
            settings.weight_ce * sums[:, -2] / sums[:, -1].clamp_min(1)
            - settings.weight_dice * mean
        )

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries: the sums of each case, or None before the first batch."""
        return {"sums": None if self._sums is None else self._sums.cpu().numpy()}

    def load_state_dict(
        self, state: dict[str, Any], here: NDArray[np.int64], there: NDArray[np.int64]
    ) -> None:
        """Restore the sums of cases, whose positions are ``here`` in this object and ``there`` in the state."""
        self._sums = None
        if state["sums"] is not None:
            restored = np.asarray(state["sums"], dtype=np.float32)
            self._sums = torch.zeros((self.n, restored.shape[1]))
            self._sums[torch.from_numpy(here)] = torch.from_numpy(restored[there])
