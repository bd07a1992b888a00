"""The fingerprint of an image, and how rare it is."""

import numpy as np
import pytest
from scipy.stats import laplace

from nnunet_dro.fingerprints import (
    N_OF_INTENSITIES,
    N_PER_CHANNEL,
    PERCENTILES,
    fingerprint,
    kinds,
    kinds_in_words,
    parts,
    rarity,
    rarity_of_images,
)


def test_it_has_percentiles_and_the_gradient_of_each_channel():
    ramp = np.tile(np.arange(101.0), (101, 1))
    image = np.stack([ramp, 2 * ramp + 5])[:, None]

    channels = fingerprint(image).reshape(2, N_PER_CHANNEL)
    numbers = channels[:, :N_OF_INTENSITIES].reshape(2, 2, -1)

    np.testing.assert_allclose(numbers[0, 0], [*PERCENTILES, 0.5])
    np.testing.assert_allclose(numbers[1, 0, :-1], 2 * np.array(PERCENTILES) + 5)
    # Standardised, both channels are the same image.
    np.testing.assert_allclose(numbers[0, 1], numbers[1, 1])
    assert numbers[0, 1, -1] == pytest.approx(0.5 / ramp.std())
    np.testing.assert_allclose(
        channels[0, N_OF_INTENSITIES:], channels[1, N_OF_INTENSITIES:], rtol=1e-3, atol=1e-4
    )


def test_a_constant_channel_has_no_spread():
    # The mean of equal numbers is not always exactly that number.
    numbers = fingerprint(np.full((1, 4, 5, 6), 0.1))

    np.testing.assert_array_equal(numbers[:10], [*[0.1] * len(PERCENTILES), 0.0])
    np.testing.assert_array_equal(numbers[10:], 0.0)


def dots(n, *, seed=0):
    """An image of n bright dots on a dark ground, of a few pixels each."""
    rng = np.random.default_rng(seed)
    image = rng.normal(0, 0.1, (64, 64))
    rows, columns = rng.integers(2, 62, (2, n))
    image[rows, columns] += 5
    image[rows + 1, columns] += 5
    return image


def test_the_skewness_of_details_tells_bright_dots_from_dark_ones():
    image = dots(40)

    bright, dark = (fingerprint(values[None])[-6:].reshape(3, 2) for values in (image, -image))

    np.testing.assert_allclose(bright[:, 0], dark[:, 0], rtol=1e-5)
    np.testing.assert_allclose(bright[:, 1], -dark[:, 1], rtol=1e-4)
    assert (bright[:2, 1] > 1).all()


def test_details_are_between_two_gaussians():
    """A wave of 20 pixels: a Gaussian of s pixels leaves exp(-(2 pi s / 20)^2 / 2) of it."""
    wave = np.sin(2 * np.pi * np.arange(400) / 20)
    deviations = fingerprint(np.tile(wave, (400, 1))[None])[-6::2]

    left = np.exp(-((2 * np.pi * np.array([0, 1, 2, 4]) / 20) ** 2) / 2)
    np.testing.assert_allclose(deviations, -np.diff(left), rtol=0.04)


def test_negatives_with_the_same_histogram_are_a_kind_of_their_own():
    """Bright dots and a dark band, or the other way round in six of a hundred images."""
    fingerprints = []
    for seed in range(100):
        image = dots(30 + seed % 20, seed=seed)
        image[:12] -= 5
        image *= -1 if seed < 6 else 1
        ranks = image.ravel().argsort().argsort().reshape(image.shape)
        fingerprints.append(fingerprint(laplace.ppf((ranks + 0.5) / ranks.size)[None]))
    np.testing.assert_allclose(fingerprints[0][:9], fingerprints[-1][:9])

    _, details = parts(fingerprints)

    np.testing.assert_array_equal(kinds(details), np.arange(100) < 6)


def test_images_are_rare_by_intensities_or_by_details():
    fingerprints = np.random.default_rng(0).normal(size=(60, N_PER_CHANNEL))
    fingerprints[0, :N_OF_INTENSITIES] += 10
    fingerprints[1, N_OF_INTENSITIES:] += 10

    numbers = rarity_of_images(fingerprints)

    assert set(np.argsort(-numbers)[:2]) == {0, 1}
    assert numbers.mean() == pytest.approx(1.0)


def test_parts_are_those_of_all_channels():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(5, 3, 8, 8))
    first = [fingerprint(image[:1]) for image in images]

    intensities, details = parts([fingerprint(image) for image in images])

    assert intensities.shape == (5, 3 * N_OF_INTENSITIES)
    assert details.shape == (5, 3 * (N_PER_CHANNEL - N_OF_INTENSITIES))
    np.testing.assert_array_equal(np.hstack([intensities[:, :20], details[:, :6]]), first)


def test_kinds_are_said_with_the_largest_sizes():
    by_details = np.repeat(np.arange(8), [13, 1, 1, 1, 1, 1, 1, 1])
    by_intensities = np.repeat([0, 1], [15, 5])
    said = kinds_in_words(np.stack([by_intensities, by_details], axis=1), "case")

    assert said == "2 by intensities (15 cases, 5), 8 by details (13 cases, 1, 1, 1, 1, 1, ...)"
    assert kinds_in_words([[0, 0]], "case") == "1 by intensities (1 case), 1 by details (1 case)"


def two_scanners(n_rare, n_common, *, seed=0):
    """Fingerprints of images of two scanners, the rare one first."""
    rng = np.random.default_rng(seed)
    rare = rng.normal(4.0, 1.0, (n_rare, 5))
    common = rng.normal(0.0, 1.0, (n_common, 5))
    return np.concatenate([rare, common])


def test_images_of_a_rare_scanner_are_rare():
    numbers = rarity(two_scanners(6, 120))

    assert numbers.mean() == pytest.approx(1.0)
    assert numbers[:6].mean() > 3 * numbers[6:].mean()


def test_no_image_is_rarer_than_their_number_however_far_it_is():
    fingerprints = two_scanners(1, 50)
    fingerprints[0] = 1e6

    numbers = rarity(fingerprints)

    assert numbers.argmax() == 0
    assert numbers[0] <= 51


def test_the_rarity_is_in_proportion_to_the_inverse_density():
    """All images are copies of three: the width is the distance of the two nearest, of which each
    adds exp(-1/2) to the density of the other."""
    places = np.repeat([0.0, 1.0, 40.0], [300, 100, 1])

    numbers = rarity(places[:, None])

    kernel = np.exp(-0.5)
    densities = np.repeat([300 + 100 * kernel, 100 + 300 * kernel, 1.0], [300, 100, 1])
    np.testing.assert_allclose(numbers / numbers[-1], 1 / densities, rtol=1e-6)


def test_units_and_order_of_the_numbers_do_not_matter():
    fingerprints = two_scanners(6, 60)
    other = (fingerprints * [1, 10, 100, 1e3, 1e-3] + 7)[:, ::-1]

    np.testing.assert_allclose(rarity(other), rarity(fingerprints), rtol=1e-6)


@pytest.mark.parametrize(
    "fingerprints", [np.zeros((5, 3)), np.full((1, 2), 3.0), np.array([[0.0], [1.0]])]
)
def test_what_cannot_be_told_apart_is_equally_rare(fingerprints):
    np.testing.assert_allclose(rarity(fingerprints), 1.0)


def test_copies_of_one_image_do_not_make_the_width_zero():
    fingerprints = np.concatenate([np.zeros((20, 2)), np.array([[1.0, 0.0], [0.0, 2.0]])])

    numbers = rarity(fingerprints)

    assert np.isfinite(numbers).all()
    assert numbers[-1] > numbers[0]


@pytest.mark.parametrize("fingerprints", [np.zeros((0, 3)), [[np.nan, 1.0]], np.zeros(4)])
def test_fingerprints_that_say_nothing_are_refused(fingerprints):
    with pytest.raises(ValueError, match="fingerprints"):
        rarity(fingerprints)
    with pytest.raises(ValueError, match="fingerprints"):
        kinds(fingerprints)


@pytest.mark.parametrize("n_common", [40, 120, 2500])
def test_images_of_a_rare_scanner_are_a_kind(n_common):
    n_rare = max(2, n_common // 20)
    fingerprints = two_scanners(n_rare, n_common)
    fingerprints[:n_rare] += 6.0

    np.testing.assert_array_equal(kinds(fingerprints), [1] * n_rare + [0] * n_common)


@pytest.mark.parametrize("n", [5, 20, 100, 300])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("tails", ["short", "on one side"])
def test_looks_that_differ_by_degrees_are_of_one_kind(n, seed, tails):
    """Twenty numbers that depend on each other, as those of a channel do."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(20, 20))
    if tails == "short":
        fingerprints = rng.normal(size=(n, 20)) @ mixing
    else:
        fingerprints = np.exp(0.15 * rng.normal(size=(n, 20)) @ mixing)

    assert not kinds(fingerprints).any()


@pytest.mark.parametrize("n", [25, 100, 300])
@pytest.mark.parametrize("seed", range(5))
def test_details_that_differ_by_degrees_make_no_kind_of_five(n, seed):
    """Six numbers that depend on each other, with long tails."""
    rng = np.random.default_rng(seed)
    details = rng.standard_t(4, size=(n, 6)) @ rng.normal(size=(6, 6))

    sizes = np.bincount(kinds(details))

    assert (sizes[1:] < 5).all()


@pytest.mark.parametrize("seed", range(5))
def test_of_long_tails_only_single_images_far_away_are_kinds_of_their_own(seed):
    rng = np.random.default_rng(seed)
    fingerprints = rng.standard_t(4, size=(300, 20)) @ rng.normal(size=(20, 20))

    assert np.count_nonzero(kinds(fingerprints)) <= 3


def test_kinds_are_numbered_by_their_sizes_whatever_the_order():
    places = np.repeat([0.0, 50.0, 90.0], [10, 40, 20])
    fingerprints = (places + np.random.default_rng(0).normal(size=70))[:, None]
    order = np.random.default_rng(1).permutation(70)

    numbers = kinds(fingerprints[order])

    np.testing.assert_array_equal(numbers, np.repeat([2, 0, 1], [10, 40, 20])[order])


def test_what_cannot_be_told_apart_is_of_one_kind():
    assert kinds(np.zeros((5, 3))).tolist() == [0] * 5
    assert kinds([[0.0], [1.0]]).tolist() == [0, 0]
