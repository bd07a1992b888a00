"""The connected components of masks, where those of two masks meet, and which lesions are matched.

Lesions fill a small part of an image, so only the numbering and what is counted with it look at
every voxel; all else looks at the voxels of the lesions.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nnunet_dro.arrays import BoolArray, FloatArray, IndexArray, Int64Array
from nnunet_dro.evaluation.scoring.foreground import Box
from nnunet_dro.evaluation.scoring.grid import IntegerArray
from nnunet_dro.evaluation.scoring.instances import Instances, MatchRule

#: Headers store voxel sizes in single precision.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Components:
    """The numbered parts of a mask (z, y, x)."""

    numbers: IntegerArray  # of each voxel's component, from 1; 0 outside
    voxels: IndexArray  # flat indices of the mask's voxels
    numbers_of_voxels: Int64Array  # the numbers of those voxels alone
    n_voxels: Int64Array  # of each component
    boxes: list[Box]  # the smallest one around each
    centres: FloatArray  # of mass, in voxels, shape (n, 3)

    def __len__(self) -> int:
        return len(self.n_voxels)

    @classmethod
    def of(cls, mask: BoolArray, *, connectivity: int) -> "Components":
        """The connected components of a mask (z, y, x)."""
        numbers = connected_components(mask, connectivity=connectivity)
        return cls.numbered(mask, numbers)

    @classmethod
    def numbered(cls, mask: BoolArray, numbers: IntegerArray) -> "Components":
        """From the number of each voxel's component, 0 outside the mask.

        Every number up to the largest must occur.
        """
        import cc3d

        voxels = np.flatnonzero(mask)
        # What is outside is the first component there.
        statistics = cc3d.statistics(numbers)
        return cls(
            numbers=numbers,
            voxels=voxels,
            numbers_of_voxels=numbers.ravel()[voxels].astype(np.int64),
            n_voxels=statistics["voxel_counts"][1:].astype(np.int64),
            boxes=statistics["bounding_boxes"][1:],
            centres=statistics["centroids"][1:],
        )


def connected_components(mask: BoolArray, *, connectivity: int) -> IntegerArray:
    """Number the connected components of a mask (z, y, x) from 1; 0 outside."""
    import cc3d

    # As bytes the mask is numbered more than twice as fast.
    mask_of_bytes = np.ascontiguousarray(mask).view(np.uint8)
    return cc3d.connected_components(mask_of_bytes, connectivity=connectivity)


def dilated(mask: BoolArray, *, n_dilations: int) -> BoolArray:
    """A mask that is dilated some times.

    The neighbours of a voxel are the 18 that share a face or an edge with it.
    """
    from scipy import ndimage

    # No iteration would mean to scipy: until nothing changes.
    if not n_dilations:
        return mask
    neighbours = ndimage.generate_binary_structure(3, 2)
    return ndimage.binary_dilation(mask, neighbours, iterations=n_dilations)


def meetings(numbers: IntegerArray, others: Components) -> dict[tuple[int, int], int]:
    """Where numbered components meet those of another mask.

    Returns:
        Pair of components (number, number of the other) to its voxels in common, for the pairs
        that have any.
    """
    # A pair of numbers is the number with these two digits.
    n_others = len(others) + 1
    numbers_there = numbers.ravel()[others.voxels]
    codes = numbers_there.astype(np.int64) * n_others + others.numbers_of_voxels
    codes, counts = np.unique(codes, return_counts=True)

    n_common = {}
    for code, n_voxels in zip(codes.tolist(), counts.tolist(), strict=True):
        number, other = divmod(code, n_others)
        if number != 0:
            n_common[number, other] = n_voxels
    return n_common


@dataclass(frozen=True, eq=False)
class Match:
    """A lesion of the reference, and the predicted lesions that it is compared with together.

    There are none if it is missed.
    """

    lesion: int
    n_voxels: int
    predicted: tuple[int, ...]
    n_predicted: int
    n_common: int
    counted: bool = True

    @property
    def iou(self) -> float:
        """Voxels in common per voxels in either."""
        n_either = self.n_voxels + self.n_predicted - self.n_common
        return self.n_common / n_either

    @property
    def dice(self) -> float:
        """Twice the voxels in common per voxels of both."""
        n_both = self.n_voxels + self.n_predicted
        return 2 * self.n_common / n_both


@dataclass(frozen=True, eq=False)
class Matching:
    """The lesions of a label in reference and prediction.

    There is a match for each of the reference's, in their order.
    """

    reference: Components
    prediction: Components
    matches: tuple[Match, ...]

    @property
    def counted(self) -> tuple[Match, ...]:
        """The lesions of the reference that are large enough to be counted."""
        return tuple(match for match in self.matches if match.counted)

    @cached_property
    def matched(self) -> Mapping[int, tuple[int, ...]]:
        """Number of a predicted lesion to the lesions of the reference that it is matched with.

        Predicted lesions that are matched with none are not in it.
        """
        lesions: dict[int, tuple[int, ...]] = {}
        for match in self.matches:
            for number in match.predicted:
                lesions[number] = (*lesions.get(number, ()), match.lesion)
        return lesions

    @property
    def invented(self) -> tuple[int, ...]:
        """The numbers of the predicted lesions that are matched with no lesion of the reference."""
        numbers = range(1, len(self.prediction) + 1)
        return tuple(number for number in numbers if number not in self.matched)

    @property
    def rightly_predicted(self) -> tuple[int, ...]:
        """The numbers of the predicted lesions that are matched with a lesion that is counted."""
        numbers: set[int] = set()
        for match in self.counted:
            numbers.update(match.predicted)
        return tuple(sorted(numbers))


def match_lesions(
    reference: BoolArray, prediction: BoolArray, instances: Instances, *, voxel_mm3: float = 1.0
) -> Matching:
    """Find the lesions of a label and match them."""
    predicted = Components.of(prediction, connectivity=instances.connectivity)
    rule = instances.rule
    if rule.name == "brats":
        mask = dilated(reference, n_dilations=rule.n_dilations)
        zones = connected_components(mask, connectivity=26)
        lesions = Components.numbered(reference, np.where(reference, zones, 0))
        common = meetings(lesions.numbers, predicted)
        # The dilation of a lesion is the component of the dilation that holds it.
        pairs = list(meetings(zones, predicted))
    else:
        lesions = Components.of(reference, connectivity=instances.connectivity)
        common = meetings(lesions.numbers, predicted)
        pairs = list(common)
    if rule.name == "iou":
        pairs = _one_to_one(common, lesions, predicted, rule)

    numbers_of_lesion: dict[int, list[int]] = defaultdict(list)
    for lesion, number in pairs:
        numbers_of_lesion[lesion].append(number)

    # 50 voxels of 1 mm are 50 mm3 and no more, also where the header says 1.0000001.
    smallest_mm3 = instances.above_mm3 * (1 + _ROUNDING)
    matches = []
    for lesion, n_voxels in enumerate(lesions.n_voxels.tolist(), 1):
        numbers = numbers_of_lesion[lesion]

        match = Match(
            lesion=lesion,
            n_voxels=n_voxels,
            predicted=tuple(numbers),
            n_predicted=int(sum(predicted.n_voxels[number - 1] for number in numbers)),
            n_common=sum(common.get((lesion, number), 0) for number in numbers),
            counted=n_voxels * voxel_mm3 > smallest_mm3,
        )
        matches.append(match)
    return Matching(lesions, predicted, tuple(matches))


def _one_to_one(
    common: Mapping[tuple[int, int], int],
    lesions: Components,
    predicted: Components,
    rule: MatchRule,
) -> list[tuple[int, int]]:
    """Pairs with the least IoU or more, each lesion in one, the largest IoU first.

    Among pairs of equal IoU the lesions that are numbered first come first.
    """
    iou = {}
    for (lesion, number), n_common in common.items():
        n_voxels = int(lesions.n_voxels[lesion - 1])
        n_predicted = int(predicted.n_voxels[number - 1])
        n_either = n_voxels + n_predicted - n_common
        iou[lesion, number] = n_common / n_either

    number_of_lesion: dict[int, int] = {}
    taken = set()
    largest_first = sorted(iou, key=lambda pair: (-iou[pair], pair))
    for lesion, number in largest_first:
        if iou[lesion, number] < rule.threshold:
            break
        if lesion not in number_of_lesion and number not in taken:
            number_of_lesion[lesion] = number
            taken.add(number)
    return list(number_of_lesion.items())
