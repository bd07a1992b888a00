"""The hardness of a case from its last patches together, as if they were one image."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nnunet_dro.bad_input import check_number
from nnunet_dro.losses.dice_ce import DiceCECaseLosses, mean_of_present

#: Turns the rows of this process, shape (b, columns), into those of all processes of a distributed
#: training, in the same order in each of them. Rows with a negative first column are fillers.
RowsOfAllRanks = Callable[[Tensor], Tensor]

#: A class counts while this many voxels of its reference are left in the sums of a case. What its
#: Dice would otherwise say of a few voxels seen long ago is the noise of all patches since.
_LEAST_VOXELS = 0.5
#: The smallest m^k, for k visits since a class was in the hard prediction, at which it counts: with
#: 1 / e, it counts in the last 1 / (1 - m) patches.
_LEAST_MEMORY = math.exp(-1)


class PooledHardness:
    """Dice + cross-entropy of each case over the patches that were seen of it last.

    For each case, the sums over voxels that Dice and cross-entropy are computed from are kept, S <-
    m S + s, and

        l_i  =  weight_ce  CE_i / n_i  -  weight_dice  mean_c 2 I_ic / (P_ic + R_ic)

    is computed from these sums, with the classes c that the case has or that the network sees in it
    (none: the Dice is 1). The loss of a single patch says above all what the patch contains: where
    a class is absent its soft Dice is about 0, and a patch with a few voxels of it is hard in every
    case. Here a patch counts as much as there is in it, as in nnU-Net's own pseudo Dice, and false
    positives in patches without the class count in the Dice of the patches with it.

    A class counts

    - while R_ic is at least half a voxel. So a single voxel is forgotten after 7 visits with m =
      0.9, and 500 voxels after 66, if no other patch has the class;
    - or if one of the last 1 / (1 - m) patches has a voxel of it in the hard prediction. Without
      this a case in which a lesion is invented, or not annotated, would be the easiest of all. It
      is forgotten sooner than the reference, because a network that learns stops inventing.

    The sums are those of the full resolution.

    Args:
        n: Number of cases.
        memory: m, the weight of the past at each visit, in [0, 1): about 1 / (1 - m) patches count.
        gather: Exchanges the sums of a batch between processes, all of which must call this object
            in the same step. Each then has the sums of the patches of all. None for a single
            process.

    Raises:
        ValueError: If the memory is out of range.
    """

    def __init__(self, n: int, *, memory: float, gather: RowsOfAllRanks | None = None) -> None:
        check_number("memory", memory, "[0, 1)", "0.9 remembers about ten patches.")
        self.n = n
        self.memory = memory
        self.gather = gather
        # (n + 1, 4 c + 2): I, P, R, CE, n and m^k since the last prediction. The last row is for
        # fillers. The number of classes is known at the first batch.
        self._sums: Tensor | None = None

    @torch.no_grad()
    def __call__(self, indices: Tensor, cases: DiceCECaseLosses) -> Tensor:
        """Take in the patches of a batch, and return the hardness of their cases.

        The patches of a case that comes several times are added up. A sum that is not finite is not
        taken in, and the hardness of its case is NaN.

        Args:
            indices: Positions of the cases, shape (b,).
            cases: What a `DiceCELoss` with the hardness "pooled" says of the patches.

        Returns:
            Shape (b,), detached.

        Raises:
            ValueError: If the loss has another hardness.
        """
        if cases.is_predicted is None:
            raise ValueError(
                f"`cases` must be of a `DiceCELoss` with `hardness` 'pooled', got "
                f"{cases.settings.hardness!r}. Make the loss with it."
            )

        # One row per case, with the sums of the full resolution.
        new = torch.cat(
            [
                cases.intersection[0],
                cases.predicted[0],
                cases.reference[0],
                cases.cross_entropy[0][:, None],
                cases.n_voxels[0][:, None],
                cases.is_predicted[0],
            ],
            1,
        )
        new = new.float()
        is_finite = new.isfinite().all(1)

        rows = torch.cat([indices[:, None], new], 1)
        if self.gather is not None:
            rows = self.gather(rows)
        sums = self._take_in(rows)

        hardness = self._hardness(sums[indices], cases)
        return hardness.masked_fill(~is_finite, torch.nan)

    def _take_in(self, rows: Tensor) -> Tensor:
        """Pool the rows of a batch, the first column of which has the positions of the cases.

        Returns:
            The sums of all cases.
        """
        # Fillers are not left out, because the number of rows that are left would have to be waited
        # for.
        indices = rows[:, 0].long()
        is_filler = indices < 0
        indices = indices.masked_fill(is_filler, self.n)

        new = rows[:, 1:]
        is_finite = new.isfinite().all(1)
        is_refused = is_filler | ~is_finite
        new = new.masked_fill(is_refused[:, None], 0.0)

        if self._sums is None:
            self._sums = new.new_zeros((self.n + 1, new.shape[1]))
        sums = self._sums.to(new.device)

        # S <- m S + s, where a case that comes several times forgets once.
        sums.index_copy_(0, indices, self.memory * sums[indices])
        sums.index_add_(0, indices, new)

        # m^k is 1 in the visit itself, however often a class was predicted before.
        pooled = sums[indices]
        pooled[:, _first_prediction(sums) :].clamp_(max=1)
        sums.index_copy_(0, indices, pooled)

        self._sums = sums
        return sums

    @staticmethod
    def _hardness(sums: Tensor, cases: DiceCECaseLosses) -> Tensor:
        """The l_i of the class, from the sums of these cases, shape (b,)."""
        settings = cases.settings
        first = _first_prediction(sums)
        intersection, predicted, reference = sums[:, : first - 2].chunk(3, 1)
        cross_entropy = sums[:, first - 2]
        n_voxels = sums[:, first - 1].clamp_min(1)
        memory_of_prediction = sums[:, first:]
        is_there = reference >= _LEAST_VOXELS
        is_seen = memory_of_prediction > _LEAST_MEMORY
        dice = cases.dice(intersection, predicted, reference)
        mean_dice = mean_of_present(dice, is_there | is_seen)

        cross_entropy_part = settings.weight_ce * cross_entropy / n_voxels
        dice_part = settings.weight_dice * mean_dice
        return cross_entropy_part - dice_part

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint carries: the sums of each case, or None before the first batch.

        The memory of the predictions has an entry of its own, which checkpoints of version 0.3 and
        before lack.
        """
        if self._sums is None:
            return {"sums": None}

        values = self._sums[: self.n].cpu().numpy().copy()
        sums, predictions = np.split(values, [_first_prediction(values)], axis=1)
        return {"sums": sums, "predictions": predictions}

    def load_state_dict(
        self, state: dict[str, Any], here: NDArray[np.int64], there: NDArray[np.int64]
    ) -> None:
        """Restore the sums of the cases that the state has.

        From a state without a memory of the predictions, classes count as soon as they are
        predicted again.

        Args:
            state: An earlier `state_dict`.
            here: Positions of these cases in this object.
            there: Their positions in the state.
        """
        self._sums = None
        if state["sums"] is None:
            return

        sums = np.asarray(state["sums"], dtype=np.float32)
        n_classes = (sums.shape[1] - 2) // 3
        predictions = state.get("predictions", np.zeros((len(sums), n_classes)))
        values = np.concatenate([sums, predictions], axis=1, dtype=np.float32)
        self._sums = torch.zeros((self.n + 1, values.shape[1]))
        self._sums[torch.from_numpy(here)] = torch.from_numpy(values[there])


def _first_prediction(sums: Tensor | NDArray[np.float32]) -> int:
    """The column of the first m^k among the 4 c + 2 of the sums: 3 c + 2."""
    n_classes = (sums.shape[1] - 2) // 4
    return 3 * n_classes + 2
