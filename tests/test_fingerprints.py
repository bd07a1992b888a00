"""The fingerprint of an image."""

import numpy as np
import pytest

from nnunet_dro.fingerprints import N_PER_CHANNEL, PERCENTILES, fingerprint


def test_it_has_percentiles_and_the_gradient_of_each_channel():
    ramp = np.tile(np.arange(101.0), (101, 1))
    image = np.stack([ramp, 2 * ramp + 5])[:, None]

    numbers = fingerprint(image).reshape(2, 2, -1)

    np.testing.assert_allclose(numbers[0, 0], [*PERCENTILES, 0.5])
    np.testing.assert_allclose(numbers[1, 0, :-1], 2 * np.array(PERCENTILES) + 5)
    # Standardised, both channels are the same image.
    np.testing.assert_allclose(numbers[0, 1], numbers[1, 1])
    assert numbers[0, 1, -1] == pytest.approx(0.5 / ramp.std())


def test_a_constant_channel_has_no_spread():
    numbers = fingerprint(np.full((1, 4, 5, 6), 7.0)).reshape(2, -1)

    np.testing.assert_array_equal(numbers[0], [*[7.0] * len(PERCENTILES), 0.0])
    np.testing.assert_array_equal(numbers[1], 0.0)


def test_of_a_large_volume_evenly_spaced_slices_are_looked_at():
    volume = np.random.default_rng(0).normal(size=(1, 60, 256, 256)).astype(np.float32)

    numbers = fingerprint(volume)

    assert len(numbers) == N_PER_CHANNEL
    np.testing.assert_allclose(numbers[4], 0, atol=0.01)
    np.testing.assert_allclose(numbers[:9], fingerprint(volume[:, ::2])[:9], atol=0.02)


@pytest.mark.parametrize("shape", [(3, 4), (0, 3, 4), (1, 0, 4)])
def test_what_is_no_image_is_refused(shape):
    with pytest.raises(ValueError, match="image"):
        fingerprint(np.zeros(shape))
