"""How rare raw images look among those of other cases.

nnU-Net trains on preprocessed images, whose intensities are normalised: those look otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.scoring.grid import Grid
from nnunet_dro.evaluation.scoring.readers import Reader
from nnunet_dro.evaluation.stratifying.images import find_channels, grey_of, read_colours
from nnunet_dro.fingerprints import N_PER_CHANNEL, fingerprint, rarity_of_images
from nnunet_dro.naming import name_some


@dataclass(frozen=True, eq=False)
class CaseImage:
    """The image of a case: its first channel, and the fingerprint of all if it is asked for.

    Where any value that was read is not finite, there is neither.
    """

    path: Path
    grey: FloatArray | None  # shape (z, y, x)
    grid: Grid
    fingerprint: FloatArray | None


def read_case_image(
    case: str, folder: Path, reader: Reader | None, *, with_fingerprint: bool
) -> CaseImage:
    """Read the image of a case.

    Args:
        case: Name of the case.
        folder: Folder of the images.
        reader: As for `read_label_map`.
        with_fingerprint: Whether all channels are read for the fingerprint.
    """
    path, *others = find_channels(folder, case)
    colours, grid = read_colours(path, reader)
    channels = [colours]
    if with_fingerprint:
        channels += [read_colours(other, reader)[0] for other in others]
    if not all(np.isfinite(channel).all() for channel in channels):
        return CaseImage(path, None, grid, None)

    numbers = None
    if with_fingerprint:
        numbers = np.concatenate([fingerprint(channel) for channel in channels])
    return CaseImage(path, grey_of(colours), grid, numbers)


def rarities_of(
    fingerprints: Mapping[str, FloatArray | None],
) -> tuple[dict[str, float], list[str]]:
    """The rarity of each image among all, and a note if they cannot be compared.

    Images of different numbers of channels cannot, nor can those without a fingerprint: the rarity
    of all is NaN.
    """
    rarities = dict.fromkeys(fingerprints, float("nan"))
    numbers = {case: values for case, values in fingerprints.items() if values is not None}
    examples = {len(values): case for case, values in numbers.items()}
    if len(examples) == 1:
        compared = rarity_of_images(list(numbers.values())).tolist()
        rarities |= dict(zip(numbers, compared, strict=True))

    if len(examples) < 2:
        return rarities, []
    listed = [f"{n // N_PER_CHANNEL} of {case}" for n, case in sorted(examples.items())]
    return rarities, [
        "How rare images look is not known, because they differ in their numbers of channels: "
        f"{name_some(listed)}."
    ]
