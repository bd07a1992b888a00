"""The topology of masks: how well centrelines agree, and how many parts, loops and cavities differ.

Of a mask, voxels that share a corner are connected; of what is around it, voxels that share a face.
In an image of one slice these are 8 and 4 neighbours. So the Euler number, which is that of the
closed cubes, fits the components and the cavities.
"""

import numpy as np

from nnunet_dro.arrays import BoolArray
from nnunet_dro.evaluation.scoring.components import connected_components
from nnunet_dro.evaluation.scoring.metrics import BETTI_ERRORS


def centreline_dice(
    reference: BoolArray, prediction: BoolArray, *, flat: tuple[int, ...] = ()
) -> float:
    """The clDice of two masks (z, y, x), of which neither is empty.

    With the voxels V and the centrelines S of reference R and prediction P:

        precision = |S_P and V_R| / |S_P|        sensitivity = |S_R and V_P| / |S_R|
        clDice = 2 precision sensitivity / (precision + sensitivity)

    and 0 where both are 0.

    Args:
        reference: Where the reference has the label.
        prediction: The same of the prediction.
        flat: The axes of the image that have a single voxel; see `Grid.flat`.

    Source: Shit et al. 2021, clDice - a Novel Topology-Preserving Loss Function for Tubular
    Structure Segmentation, eq. (1) and (2).
    """
    # Thinning needs two axes.
    reference = reference.squeeze(flat[:1])
    prediction = prediction.squeeze(flat[:1])
    precision = _share_inside(centreline(prediction), reference)
    sensitivity = _share_inside(centreline(reference), prediction)
    if precision + sensitivity == 0:
        return 0.0
    return 2 * precision * sensitivity / (precision + sensitivity)


def centreline(mask: BoolArray) -> BoolArray:
    """The voxels that thinning leaves of a mask, by Zhang 1984 in 2-D and Lee 1994 in 3-D.

    Thinning may leave nothing of a part, as of a straight vessel of an even width. The centreline
    of such a part is what erosion leaves last of it, so that it counts whether it is found.
    """
    from scipy import ndimage
    from skimage.measure import label
    from skimage.morphology import skeletonize

    line: BoolArray = skeletonize(mask).astype(np.bool_)  # type: ignore[no-untyped-call]
    parts = label(mask)  # type: ignore[no-untyped-call]
    neighbours = np.ones((3,) * mask.ndim)

    remaining = mask & ~np.isin(parts, parts[line])
    while remaining.any():
        eroded = ndimage.binary_erosion(remaining, neighbours)
        line |= remaining & ~np.isin(parts, parts[eroded])
        remaining = eroded
    return line


def _share_inside(line: BoolArray, mask: BoolArray) -> float:
    return float(np.count_nonzero(line & mask) / np.count_nonzero(line))


def betti_errors(reference: BoolArray, prediction: BoolArray) -> dict[str, float]:
    """The name of each of `BETTI_ERRORS` to the difference of two masks (z, y, x), without a sign.

    One of the masks may be empty: all its Betti numbers are 0.
    """
    pairs = zip(betti_numbers(reference), betti_numbers(prediction), strict=True)
    differences = [float(abs(n_reference - n_prediction)) for n_reference, n_prediction in pairs]
    return dict(zip(BETTI_ERRORS, differences, strict=True))


def betti_numbers(mask: BoolArray) -> tuple[int, int, int]:
    """How many components, loops and cavities a mask (z, y, x) has.

    Components b_0 and cavities b_2 are counted. Loops follow from the Euler number chi:

        b_0 - b_1 + b_2 = chi
    """
    from skimage.measure import euler_number

    n_components = int(connected_components(mask, connectivity=26).max())

    around = ~np.pad(mask, 1)
    n_outside = 1
    n_cavities = int(connected_components(around, connectivity=6).max()) - n_outside

    number = int(euler_number(mask, connectivity=3))  # type: ignore[no-untyped-call]
    n_loops = n_components + n_cavities - number
    return n_components, n_loops, n_cavities
