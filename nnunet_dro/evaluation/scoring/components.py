"""The connected components of masks, where those of two masks meet, and which lesions are matched.

Lesions fill a small part of an image, so only the numbering itself looks at every voxel; all else
looks at the voxels of the lesions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.foreground import Box, IndexArray
from nnunet_dro.evaluation.scoring.grid import IntegerArray
from nnunet_dro.evaluation.scoring.instances import Instances, MatchRule

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Components:
    """The numbered parts of a mask (z, y, x)."""

    numbers: IntegerArray  # of each voxel's component, from 1; 0 outside
    voxels: IndexArray  # flat indices of the mask's voxels
    of_voxel: npt.NDArray[np.int64]  # their numbers
    n_voxels: npt.NDArray[np.int64]  # of each component
    boxes: list[Box]  # the smallest one around each
    centres: npt.NDArray[np.float64]  # of mass, in voxels, shape (n, 3)

    def __len__(self) -> int:
        return len(self.n_voxels)

    @classmethod
    def of(cls, mask: BoolArray, *, connectivity: int) -> "Components":
        """The connected components of a mask (z, y, x)."""
        return cls.numbered(mask, connected_components(mask, connectivity=connectivity))

    @classmethod
    def numbered(cls, mask: BoolArray, numbers: IntegerArray) -> "Components":
        """From the number of each voxel's component, 0 outside the mask.

        Every number up to the largest must occur.
        """
        voxels = np.flatnonzero(mask)
        of_voxel = numbers.ravel()[voxels].astype(np.int64)
        n_voxels = np.bincount(of_voxel)[1:]
        # One component after the other.
        order = np.argsort(of_voxel, kind="stable")
        starts = np.cumsum(n_voxels) - n_voxels
        places = np.stack(np.unravel_index(voxels[order], mask.shape), axis=1)
        low = np.minimum.reduceat(places, starts)
        high = np.maximum.reduceat(places, starts) + 1
        boxes: list[Box] = [
            tuple(map(slice, *ends)) for ends in zip(low.tolist(), high.tolist(), strict=True)
        ]
        centres = np.add.reduceat(places, starts) / n_voxels[:, None]
        return cls(numbers, voxels, of_voxel, n_voxels, boxes, centres)


def connected_components(mask: BoolArray, *, connectivity: int) -> IntegerArray:
    """Number the connected components of a mask (z, y, x) from 1; 0 outside."""
    import cc3d

    # As bytes the mask is numbered more than twice as fast.
    return cc3d.connected_components(
        np.ascontiguousarray(mask).view(np.uint8), connectivity=connectivity
    )


def dilated(mask: BoolArray, *, n_dilations: int) -> BoolArray:
    """A mask that is dilated some times by the 18 neighbours of each voxel, those that share a face or an edge."""
    from scipy import ndimage

    neighbours = ndimage.generate_binary_structure(3, 2)
    # No iteration would mean to scipy: until nothing changes.
    return (
        ndimage.binary_dilation(mask, neighbours, iterations=n_dilations) if n_dilations else mask
    )


def meetings(numbers: IntegerArray, others: Components) -> dict[tuple[int, int], int]:
    """Pairs of components (number, number of the other) to their voxels in common, for those that have any."""
    first: npt.NDArray[Any] = numbers.ravel()[others.voxels].astype(np.int64)
    codes, n_voxels = np.unique(first * (len(others) + 1) + others.of_voxel, return_counts=True)
    pairs = zip(*np.divmod(codes, len(others) + 1), n_voxels, strict=True)
    return {(int(a), int(b)): int(n) for a, b, n in pairs if a}


@dataclass(frozen=True, eq=False)
class Match:
    """A lesion of the reference, and the predicted lesions (none if it is missed) that it is compared with together."""

    lesion: int
    n_voxels: int
    predicted: tuple[int, ...]
    n_predicted: int
    n_common: int
    counted: bool = True

    @property
    def iou(self) -> float:
        """Voxels in common per voxels in either."""
        return self.n_common / (self.n_voxels + self.n_predicted - self.n_common)

    @property
    def dice(self) -> float:
        """Twice the voxels in common per voxels of both."""
        return 2 * self.n_common / (self.n_voxels + self.n_predicted)


@dataclass(frozen=True, eq=False)
class Matching:
    """The lesions of a label in reference and prediction, and a match for each of the reference's, in their order."""

    reference: Components
    prediction: Components
    matches: tuple[Match, ...]

    @property
    def counted(self) -> tuple[Match, ...]:
        """The lesions of the reference that are large enough to be counted."""
        return tuple(match for match in self.matches if match.counted)

    @cached_property
    def matched(self) -> Mapping[int, tuple[int, ...]]:
        """The number of each predicted lesion that is matched, to the lesions of the reference that it belongs to."""
        of_predicted: dict[int, tuple[int, ...]] = {}
        for match in self.matches:
            for number in match.predicted:
                of_predicted[number] = (*of_predicted.get(number, ()), match.lesion)
        return of_predicted

    @property
    def invented(self) -> tuple[int, ...]:
        """The numbers of the predicted lesions that are matched with no lesion of the reference."""
        return tuple(
            number for number in range(1, len(self.prediction) + 1) if number not in self.matched
        )

    @property
    def rightly_predicted(self) -> tuple[int, ...]:
        """The numbers of the predicted lesions that are matched with a lesion that is counted."""
        return tuple(sorted({number for match in self.counted for number in match.predicted}))


def match_lesions(
    reference: BoolArray, prediction: BoolArray, instances: Instances, *, voxel_mm3: float = 1.0
) -> Matching:
    """Find the lesions of a label and match them."""
    predicted = Components.of(prediction, connectivity=instances.connectivity)
    rule = instances.rule
    if rule.name == "brats":
        zones = connected_components(
            dilated(reference, n_dilations=rule.n_dilations), connectivity=26
        )
        lesions = Components.numbered(reference, np.where(reference, zones, 0))
        # The dilation of a lesion is the component of the dilation that holds it.
        reached = list(meetings(zones, predicted))
    else:
        lesions = Components.of(reference, connectivity=instances.connectivity)
        reached = []
    common = meetings(lesions.numbers, predicted)
    if rule.name == "overlap":
        reached = list(common)
    elif rule.name == "iou":
        reached = _one_to_one(common, lesions.n_voxels, predicted.n_voxels, rule)
    of_lesion: dict[int, list[int]] = {}
    for lesion, number in reached:
        of_lesion.setdefault(lesion, []).append(number)
    matches = []
    for lesion, n_voxels in enumerate(lesions.n_voxels.tolist(), 1):
        numbers = tuple(of_lesion.get(lesion, ()))
        n_predicted = int(sum(predicted.n_voxels[number - 1] for number in numbers))
        n_common = sum(common.get((lesion, number), 0) for number in numbers)
        # Volumes are rounded so that 50 voxels of 1 mm, whose header says 0.99999994, are 50 mm3.
        counted = round(n_voxels * voxel_mm3, 3) > instances.above_mm3
        matches.append(Match(lesion, n_voxels, numbers, n_predicted, n_common, counted))
    return Matching(lesions, predicted, tuple(matches))


def _one_to_one(
    common: Mapping[tuple[int, int], int],
    n_reference: npt.NDArray[np.int64],
    n_prediction: npt.NDArray[np.int64],
    rule: MatchRule,
) -> list[tuple[int, int]]:
    """Pairs with the least IoU or more, the largest IoU first.

    Of equal ones the lesions that are numbered first.
    """
    iou = {
        (r, p): n / int(n_reference[r - 1] + n_prediction[p - 1] - n)
        for (r, p), n in common.items()
    }
    taken: dict[int, int] = {}
    numbers = set()
    for r, p in sorted(iou, key=lambda pair: (-iou[pair], pair)):
        if iou[r, p] >= rule.threshold and r not in taken and p not in numbers:
            taken[r] = p
            numbers.add(p)
    return list(taken.items())
