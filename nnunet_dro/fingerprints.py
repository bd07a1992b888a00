"""The fingerprint of an image: what it looks like, without its labels. numpy only.

Training, `doctor` and `strata` look at images by the same numbers.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Percentiles of the intensities.
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
#: Numbers of a fingerprint per channel.
N_PER_CHANNEL = 2 * (len(PERCENTILES) + 1)
#: Most voxels of a channel that are looked at, in evenly spaced slices.
_MOST_VOXELS = 2**21


def fingerprint(image: ArrayLike) -> NDArray[np.float64]:
    """Percentiles and the mean gradient of each channel, raw and standardised.

    The gradient is the mean absolute difference of neighbours along the last two axes. Standardised
    means that the channel has mean 0 and standard deviation 1 (0 throughout if it is constant).

    Args:
        image: Intensities, shape (channels, [slices,] rows, columns), finite.

    Returns:
        Shape (20 channels,).

    Raises:
        ValueError: If the image has fewer than three axes, or no voxel.

    Example:
        >>> fingerprint(np.arange(12.0).reshape(1, 3, 4)).shape
        (20,)
    """
    channels = np.asarray(image)
    if channels.ndim < 3 or not channels.size:
        raise ValueError(
            "`image` must have the shape (channels, [slices,] rows, columns) and a voxel, got "
            f"{channels.shape}."
        )
    numbers = []
    for channel in channels:
        slices = channel.reshape(-1, *channel.shape[-2:])
        step = max(1, -(-slices.size // _MOST_VOXELS))
        values = slices[::step].astype(np.float64)

        deviation = float(values.std())
        percentiles = np.percentile(values, PERCENTILES)
        gradient = _mean_gradient(values)
        numbers += [*percentiles, gradient]

        scale = 1 / deviation if deviation > 0 else 0.0
        numbers += [*(scale * (percentiles - values.mean())), scale * gradient]
    return np.array(numbers)


def _mean_gradient(slices: NDArray[np.float64]) -> float:
    gradients = [
        float(np.abs(np.diff(slices, axis=axis)).mean())
        for axis in (-2, -1)
        if slices.shape[axis] > 1
    ]
    return float(np.mean(gradients)) if gradients else 0.0
