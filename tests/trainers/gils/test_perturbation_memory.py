"""Memory against that of nnU-Net's training step, counted on tensors without data at 2 x 128^3
voxels."""

import pytest

from benchmarks.counted_memory import count


@pytest.fixture(scope="module")
def peaks():
    return count()


def test_the_ascent_needs_at_most_a_fifth_more_than_a_training_step(peaks):
    assert peaks["plain"] > 4 * 2**30
    assert peaks["GILS, ascent"] < 1.2 * peaks["plain"]


@pytest.mark.parametrize("name", ["DRO", "DRO_hardPresent"])
def test_the_weighted_loss_needs_no_more_than_a_fiftieth_more(peaks, name):
    assert peaks[name] < 1.02 * peaks["plain"]
