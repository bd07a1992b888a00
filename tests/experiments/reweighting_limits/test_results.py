import numpy as np
import pytest

from experiments.reweighting_limits.descent import Setting, Trajectory
from experiments.reweighting_limits.losses import squared_loss
from experiments.reweighting_limits.networks import Network, TrainedNetwork
from experiments.reweighting_limits.results import of_networks, results_table


@pytest.fixture
def trajectory():
    """Weights (3, 4) of ERM, with the others 1 and 2 away from them, after 5 and 10 steps."""
    weights = np.array([[3.0, 4], [3, 5], [5, 4]])
    group_weights = np.array([[0.8, 0.2], [0.5, 0.5], [0.4, 0.6]])
    return Trajectory(
        np.array([5, 10]), np.stack([weights / 2, weights]), np.ones((2, 3, 6)), np.tile(group_weights, (2, 1, 1))
    )


def test_rows_are_the_powers_of_ten_with_distances_to_erm(trajectory):
    (row,) = results_table([Setting("one", squared_loss, 10)], [trajectory], (0.2, 0.3), []).to_dict("records")
    assert (row["setting"], row["step"], row["norm, ERM"]) == ("one", 10, 5)
    assert (row["weights, weighting"], row["weights, Group DRO"]) == (1, 2)
    assert row["weight of the 1"] == 0.6
    assert np.isnan(row["limit, weighting"])
    assert np.isnan(row["functions, weighting"])


def test_limits_are_those_of_polynomial_tails(trajectory):
    tail = Setting("tail", squared_loss, 10, polynomial=True)
    row = results_table([tail], [trajectory], (0.2, 0.3), []).iloc[0]
    assert (row["limit, weighting"], row["limit, Group DRO"]) == (0.2, 0.3)


def test_networks_are_found_again_by_their_names(trajectory):
    outputs = np.array([[0.0, 1], [0.5, 1], [0, -1]])
    trained = [TrainedNetwork(Network(units, 7, 10), trajectory, outputs) for units in (64, 4096)]
    table = results_table([Setting("one", squared_loss, 10)], [trajectory], (0.2, 0.3), trained)
    found = of_networks(table)
    assert found["units"].tolist() == [64, 4096]
    assert found["seed"].tolist() == [7, 7]
    assert found["functions, weighting"].tolist() == [0.5, 0.5]
    assert found["functions, Group DRO"].tolist() == [2, 2]
    assert table["setting"].drop(found.index).tolist() == ["one"]
