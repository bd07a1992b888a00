"""The fingerprint of an image, and how rare it is: what it looks like, without its labels.

Training, `doctor` and `strata` look at images by the same numbers. numpy, scipy and scikit-learn
only.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nnunet_dro.naming import count

#: Percentiles of the intensities.
PERCENTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
#: Details of an image are what a Gaussian of so many pixels smooths away, and the one before does
#: not.
DETAILS = (1, 2, 4)
#: Numbers of a fingerprint per channel, on intensities and on details.
N_OF_INTENSITIES = 2 * (len(PERCENTILES) + 1)
N_OF_DETAILS = 2 * len(DETAILS)
N_PER_CHANNEL = N_OF_INTENSITIES + N_OF_DETAILS
#: Columns of tables with the kinds of images to the numbers that these are of.
KINDS = {"kind": "intensities", "kind_of_details": "details"}
#: Number of kinds whose sizes are said.
_N_SAID = 6
#: Standard deviation of details, in that of the channel, that are none.
_LEAST_DETAILS = 1e-5
#: Most voxels of a channel that are looked at, in evenly spaced slices.
_MOST_VOXELS = 2**21
#: Share of the variance of the fingerprints that the principal components keep.
_VARIANCE = 0.9
#: The width of the kernel is the median distance to the nearest share of the images.
_NEAREST = 0.1
#: Images less far from each other than this, in standard deviations, are copies.
_COPY = 1e-9
#: The density that images climb is that of so many of them at most, evenly spaced.
_MOST_OF_DENSITY = 2000
#: In widths of the kernel: climbs this near to each other go on as one, a climb ends where a step
#: is this short, and peaks this near to each other are one.
_MERGED = 0.01
_SHORTEST_STEP = 1e-4
_ONE_PEAK = 0.5
#: A climb ends after so many steps at the latest; some dozens are enough.
_MOST_STEPS = 500


def fingerprint(image: ArrayLike) -> NDArray[np.float64]:
    """Numbers on the intensities and on the details of each channel.

    Those of the intensities are their percentiles and the mean gradient, raw and standardised. The
    gradient is the mean absolute difference of neighbours along the last two axes. Standardised
    means that the channel has mean 0 and standard deviation 1 (0 throughout if it is constant).

    Those of the details are, of three sizes, how strong they are and whether they are bright or
    dark. A detail is the difference of the standardised channel smoothed less and smoothed more,
    along the last two axes, with Gaussians of 0, 1, 2 and 4 pixels; the numbers are its standard
    deviation and its skewness. So an image and its negative differ, even if they have the same
    histogram.

    Args:
        image: Intensities, shape (channels, [slices,] rows, columns), finite.

    Returns:
        Shape (26 channels,): 20 numbers on intensities and 6 on details of the first channel, and
        so on.

    Raises:
        ValueError: If the image has fewer than three axes, or no voxel.

    Example:
        >>> fingerprint(np.arange(12.0).reshape(1, 3, 4)).shape
        (26,)
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

        # By its rounding error, the deviation of equal values can be above 0.
        deviation = float(values.std()) if np.ptp(values) > 0 else 0.0
        percentiles = np.percentile(values, PERCENTILES)
        gradient = _mean_gradient(values)
        numbers += [*percentiles, gradient]

        scale = 1 / deviation if deviation > 0 else 0.0
        numbers += [*(scale * (percentiles - values.mean())), scale * gradient]
        numbers += _of_details(scale * (values - values.mean()))
    return np.array(numbers)


def _mean_gradient(slices: NDArray[np.float64]) -> float:
    gradients = [
        float(np.abs(np.diff(slices, axis=axis)).mean())
        for axis in (-2, -1)
        if slices.shape[axis] > 1
    ]
    return float(np.mean(gradients)) if gradients else 0.0


def _of_details(slices: NDArray[np.float64]) -> list[float]:
    """Standard deviation and skewness of the details of each size, the finest first."""
    from scipy.ndimage import gaussian_filter

    numbers = []
    values = slices.astype(np.float32)
    finer = values
    for pixels in DETAILS:
        coarser = gaussian_filter(values, (0, pixels, pixels))
        details = finer - coarser
        details -= details.mean()
        deviation = float(details.std())

        skewness = 0.0
        # Less is the rounding of a channel that has no details.
        if deviation > _LEAST_DETAILS:
            skewness = float(np.mean((details / deviation) ** 3))
        numbers += [deviation, skewness]
        finer = coarser
    return numbers


def parts(fingerprints: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The numbers on intensities and those on details, by each of which looks are compared.

    Apart, since a difference that is clear in one of them would drown among all numbers.

    Args:
        fingerprints: Those of several images, shape (n, 26 channels).

    Returns:
        Shapes (n, 20 channels) and (n, 6 channels).
    """
    table = np.asarray(fingerprints, dtype=np.float64)
    by_channel = table.reshape(len(table), -1, N_PER_CHANNEL)
    intensities, details = np.split(by_channel, [N_OF_INTENSITIES], axis=2)
    return intensities.reshape(len(table), -1), details.reshape(len(table), -1)


def rarity_of_images(fingerprints: ArrayLike) -> NDArray[np.float64]:
    """How rare images are, by their intensities or by their details: the larger `rarity` of both.

    Args:
        fingerprints: Those of several images, shape (n, 26 channels), finite.

    Returns:
        Shape (n,), > 0, with a mean of 1.

    Raises:
        ValueError: If the fingerprints are not finite.
    """
    larger = np.max([rarity(part) for part in parts(fingerprints)], axis=0)
    return np.asarray(larger / larger.mean())


def rarity(fingerprints: ArrayLike) -> NDArray[np.float64]:
    """How rare images are: the inverse density of their fingerprints, relative to its mean.

    The fingerprints are standardised and reduced to the principal components that hold
    90 % of their variance. With d a Gaussian kernel density estimate there, whose width is the
    median distance of an image to the nearest tenth of the images, the rarity is 1 / d over the
    mean of 1 / d. It is also how often an image is drawn, relative to chance, if all looks are to
    be drawn equally often.

    Args:
        fingerprints: Numbers that describe each image, shape (n, k), finite.

    Returns:
        Shape (n,), > 0 and at most n, with a mean of 1. All 1 where the fingerprints are equal, or
        fewer than three.

    Raises:
        ValueError: If the fingerprints are empty or not finite.

    Example:
        >>> fingerprints = np.array([[0.0], [0.1], [0.2], [0.3], [5.0]])
        >>> rarity(fingerprints).round(1).tolist()
        [1.0, 0.7, 0.7, 1.0, 1.7]
    """
    from sklearn.neighbors import KernelDensity

    components = _components(fingerprints)
    if components is None:
        return np.ones(len(np.asarray(fingerprints)))

    width = _width(components)
    log_density = KernelDensity(bandwidth=width).fit(components).score_samples(components)
    inverse = np.exp(log_density.min() - log_density)
    return inverse / inverse.mean()


def kinds(fingerprints: ArrayLike) -> NDArray[np.int64]:
    """Which images are of one kind, as those of a scanner or of a stain.

    The density of `rarity` has a peak for every kind of image. An image belongs to the peak that it
    comes to by climbing (mean shift): each step leads to the mean of all images, weighted by the
    kernel at the place. Images whose looks differ by degrees have one peak, however far the tails
    reach, and are of one kind. So kinds are told apart less easily than images that are rare.

    Args:
        fingerprints: Numbers that describe each image, shape (n, k), finite.

    Returns:
        The number of the kind of each image, shape (n,): 0 for the largest kind, then 1, 2 and so
        on. All 0 where the fingerprints are equal, or fewer than three.

    Raises:
        ValueError: If the fingerprints are empty or not finite.

    Example:
        >>> kinds([[0.0], [0.1], [0.2], [0.3], [5.0]]).tolist()
        [0, 0, 0, 0, 1]

    Source: mean shift, Comaniciu and Meer 2002 (IEEE TPAMI 24), with a Gaussian kernel.
    """
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial.distance import cdist

    components = _components(fingerprints)
    if components is None:
        return np.zeros(len(np.asarray(fingerprints)), dtype=np.int64)

    width = _width(components)
    peaks, climb = _peaks(components / width)
    is_one = cdist(peaks, peaks) < _ONE_PEAK
    _, peak = connected_components(is_one, directed=False)
    kind = peak[climb]

    order = np.argsort(-np.bincount(kind), kind="stable")
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    return number[kind]


def kinds_in_words(kinds: ArrayLike, noun: str) -> str:
    """How many kinds of images there are, and of how many images, the largest first.

    Args:
        kinds: Those of each image, in the order of `KINDS`, shape (n, 2).
        noun: What is counted, as "case".

    Returns:
        Such as "2 by intensities (45 cases, 5), 1 by details (50 cases)".
    """
    said = []
    for column, numbers in zip(np.asarray(kinds).T, KINDS.values(), strict=True):
        sizes = np.bincount(column)
        listed = [count(int(sizes[0]), noun), *map(str, sizes[1:_N_SAID])]
        if len(sizes) > _N_SAID:
            listed.append("...")
        said.append(f"{len(sizes)} by {numbers} ({', '.join(listed)})")
    return ", ".join(said)


def _components(fingerprints: ArrayLike) -> NDArray[np.float64] | None:
    """Principal components of the standardised fingerprints; None if these cannot be told apart."""
    from sklearn.decomposition import PCA

    table = np.asarray(fingerprints, dtype=np.float64)
    if table.ndim != 2 or not table.size or not np.isfinite(table).all():
        raise ValueError(
            f"`fingerprints` must be finite, of shape (images, numbers), got {table.shape}."
        )

    deviations = table.std(axis=0)
    differs = deviations > 1e-9 * np.maximum(1.0, np.abs(table).max(axis=0))
    if len(table) < 3 or not differs.any():
        return None
    standardised = (table - table.mean(axis=0))[:, differs] / deviations[differs]
    return PCA(_VARIANCE, svd_solver="full").fit_transform(standardised)


def _peaks(
    places: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Where climbs from each place end, and which of these ends belongs to each place.

    Args:
        places: In widths of the kernel, shape (n, k).
    """
    from scipy.spatial.distance import cdist

    step = -(-len(places) // _MOST_OF_DENSITY)
    density = places[::step]
    ends = places
    end = np.arange(len(places))
    for _ in range(_MOST_STEPS):
        weights = np.exp(-cdist(ends, density, "sqeuclidean") / 2)
        # A place far from all that the density is made of stays where it is.
        is_far = weights.sum(axis=1) == 0
        means = weights @ density / np.maximum(weights.sum(axis=1), 1e-300)[:, None]
        means[is_far] = ends[is_far]
        longest = float(np.abs(means - ends).max())

        _, first, merged = np.unique(
            np.round(means / _MERGED), axis=0, return_index=True, return_inverse=True
        )
        ends = means[first]
        end = merged.reshape(-1)[end]
        if longest < _SHORTEST_STEP:
            break
    return ends, end


def _width(components: NDArray[np.float64]) -> float:
    """The width of the kernel: the median distance of an image to the nearest tenth of the others.

    Where most images have that many copies, it is the smallest distance of images that differ.
    """
    from sklearn.neighbors import NearestNeighbors

    n_nearest = min(len(components) - 1, math.ceil(_NEAREST * len(components)))
    neighbours = NearestNeighbors(n_neighbors=n_nearest).fit(components)
    distances, _ = neighbours.kneighbors()
    width = float(np.median(distances[:, -1]))
    if width > _COPY:
        return width

    different = np.unique(np.round(components / _COPY), axis=0) * _COPY
    neighbours = NearestNeighbors(n_neighbors=1).fit(different)
    distances, _ = neighbours.kneighbors()
    return float(distances.min())
