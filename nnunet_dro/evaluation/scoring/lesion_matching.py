"""Which predicted lesions belong to which lesions of the reference."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nnunet_dro.evaluation.scoring.components import BoolArray, Components, connected_components, dilated, meetings
from nnunet_dro.evaluation.scoring.instances import Instances, MatchRule


@dataclass(frozen=True, eq=False)
class Match:
    """A lesion of the reference, and the predicted lesions that it is compared with.

    Attributes:
        lesion: Its number.
        n_voxels: Its voxels.
        predicted: The numbers of the predicted lesions; none if it is missed.
        n_predicted: Their voxels together.
        n_common: The voxels that they and the lesion have in common.
        counted: Whether it is large enough to be counted.
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
        return self.n_common / (self.n_voxels + self.n_predicted - self.n_common)

    @property
    def dice(self) -> float:
        """Twice the voxels in common per voxels of both."""
        return 2 * self.n_common / (self.n_voxels + self.n_predicted)


@dataclass(frozen=True, eq=False)
class Matching:
    """The lesions of a label in reference and prediction, matched.

    Attributes:
        reference: The lesions of the reference.
        prediction: The predicted lesions.
        matches: One for each lesion of the reference, in their order.
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
        """The number of each predicted lesion that is matched, to the lesions of the reference that it belongs to."""
        of_predicted: dict[int, tuple[int, ...]] = {}
        for match in self.matches:
            for number in match.predicted:
                of_predicted[number] = (*of_predicted.get(number, ()), match.lesion)
        return of_predicted

    @property
    def invented(self) -> tuple[int, ...]:
        """The numbers of the predicted lesions that are matched with no lesion of the reference."""
        return tuple(number for number in range(1, len(self.prediction) + 1) if number not in self.matched)

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
        zones = connected_components(dilated(reference, n_dilations=rule.n_dilations), connectivity=26)
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
    """Pairs with the least IoU or more, the largest IoU first; of equal ones the lesions that are numbered first."""
    iou = {(r, p): n / int(n_reference[r - 1] + n_prediction[p - 1] - n) for (r, p), n in common.items()}
    taken: list[tuple[int, int]] = []
    lesions, numbers = set(), set()
    for r, p in sorted(iou, key=lambda pair: (-iou[pair], pair)):
        if iou[r, p] >= rule.threshold and r not in lesions and p not in numbers:
            taken.append((r, p))
            lesions.add(r)
            numbers.add(p)
    return taken
