import numpy as np
import pytest

from experiments.reweighting_limits.weighting import GROUP_STEP, GroupWeights


def test_first_weights_are_those_of_the_examples_and_of_the_groups():
    weights = GroupWeights(np.array([0, 0, 0, 1]))
    np.testing.assert_allclose(weights.values, [[3 / 4, 1 / 4], [1 / 2, 1 / 2], [1 / 2, 1 / 2]])
    of_examples = weights.of_examples(np.ones((3, 4)))
    np.testing.assert_allclose(of_examples[0], 1 / 4)
    np.testing.assert_allclose(of_examples[1:], [[1 / 6, 1 / 6, 1 / 6, 1 / 2]] * 2)


def test_only_group_dro_moves_and_towards_the_larger_loss():
    weights = GroupWeights(np.array([0, 0, 0, 1]))
    losses = np.tile([1.0, 2, 3, 7], (3, 1))
    before = losses.copy()
    of_examples = weights.of_examples(losses)
    np.testing.assert_allclose(weights.values[:2], [[3 / 4, 1 / 4], [1 / 2, 1 / 2]])
    assert weights.values[2, 1] / weights.values[2, 0] == pytest.approx(np.exp(GROUP_STEP * (7 - 2)))
    np.testing.assert_allclose(of_examples.sum(axis=1), 1)
    np.testing.assert_array_equal(losses, before)
