"""The table of the results."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from experiments.reweighting_limits.descent import Setting, Trajectory, distances
from experiments.reweighting_limits.networks import TrainedNetwork
from experiments.reweighting_limits.weighting import METHODS


def results_table(
    chosen: Sequence[Setting],
    trajectories: Sequence[Trajectory],
    limits: tuple[float, float],
    trained: Sequence[TrainedNetwork],
) -> pd.DataFrame:
    """A row per setting and power of ten from 10 on, and per network at its end.

    Args:
        chosen: The settings of the linear model.
        trajectories: Their trainings.
        limits: From `limits.tail_distances`, of the settings with a polynomial tail.
        trained: The networks.

    Returns:
        Distances to ERM, the norm of ERM's weights, the weight of the second group in Group DRO, and the mean losses.
        Columns that say nothing of a row are missing there.
    """
    rows = []
    for setting, trajectory in zip(chosen, trajectories, strict=True):
        ends = limits if setting.polynomial else (np.nan, np.nan)
        rows += _rows(setting.name, trajectory, _pair("limit", ends) | _pair("functions", (np.nan, np.nan)))
    for one in trained:
        furthest = np.abs(one.outputs[1:] - one.outputs[0]).max(axis=1)
        extra = _pair("limit", (np.nan, np.nan)) | _pair("functions", furthest)
        rows += _rows(network_name(one.network.units, one.network.seed), one.trajectory, extra)
    return pd.DataFrame(rows)


def network_name(units: int, seed: int) -> str:
    """Name of a network in the table."""
    return f"network, {units} units, seed {seed}"


def of_networks(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the networks, with columns ``units`` and ``seed``, read from their names."""
    found = table["setting"].str.extract(r"^network, (?P<units>\d+) units, seed (?P<seed>\d+)$").dropna().astype(int)
    return table.loc[found.index].assign(units=found["units"], seed=found["seed"])


def _rows(name: str, trajectory: Trajectory, extra: dict[str, float]) -> list[dict[str, object]]:
    apart, turned = (distances(trajectory, directions=directions) for directions in (False, True))
    rows: list[dict[str, object]] = []
    for k in np.flatnonzero(np.isin(trajectory.steps, 10 ** np.arange(1, 10))):
        losses = trajectory.losses[k].mean(axis=-1)
        rows.append(
            {
                "setting": name,
                "step": int(trajectory.steps[k]),
                "norm, ERM": float(np.linalg.norm(trajectory.weights[k, 0])),
                **_pair("weights", apart[k, 1:]),
                **_pair("directions", turned[k, 1:]),
                **extra,
                "weight of the 1": float(trajectory.group_weights[k, 2, 1]),
                **{f"loss, {method}": losses[m] for m, method in enumerate(METHODS)},
            }
        )
    return rows


def _pair(what: str, values: Iterable[float]) -> dict[str, float]:
    """Numbers of importance weighting and Group DRO, named."""
    return {f"{what}, {method}": float(value) for method, value in zip(METHODS[1:], values, strict=True)}
