"""The page of the experiment."""

import numpy as np
import pandas as pd

from experiments.record import render
from experiments.reweighting_limits.descent import LEARNING_RATE
from experiments.reweighting_limits.losses import FloatArray
from experiments.reweighting_limits.networks import N_HELD_OUT, NETWORK_RATE
from experiments.reweighting_limits.results import of_networks
from experiments.reweighting_limits.weighting import GROUP_STEP, METHODS

#: Names of the methods that are compared with ERM, in the template and in the table.
_COMPARED = dict(zip(("weighting", "dro"), METHODS[1:], strict=True))


def shown_table(table: pd.DataFrame) -> pd.DataFrame:
    """The last step of the linear settings; the networks have a table in the text."""
    linear = table.drop(of_networks(table).index).groupby("setting", sort=False, as_index=False).tail(1)
    return linear[
        ["setting", "step", *(name for name in table if str(name).startswith(("directions", "limit", "loss")))]
    ]


def page_text(images: FloatArray, table: pd.DataFrame) -> str:
    """The text of the page above its table.

    Args:
        images: The six images, shape (6, d).
        table: From `results_table`.
    """
    curvatures = np.linalg.eigvalsh(images @ images.T / len(images))
    networks = of_networks(table)
    linear = table.drop(networks.index)
    last = {str(name): rows.iloc[-1] for name, rows in linear.groupby("setting", sort=False)}
    logistic = linear[linear["setting"] == "logistic loss"]
    published = [last[f"polynomial tail, eq. 19, beta {beta}"] for beta in (0, 1)]

    def kept(mu: float) -> dict[str, float]:
        lowest, highest = (100 * curvature / (curvature + mu) for curvature in curvatures[[0, -1]])
        return {"lowest": lowest, "highest": highest}

    return render(
        "reweighting_limits/page",
        rate=LEARNING_RATE,
        step=GROUP_STEP,
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
        network=_networks(networks),
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


def _networks(networks: pd.DataFrame) -> dict[str, object]:
    """What the template says of the networks: their settings, a row per width, and how much the distances fall."""
    relative = networks.assign(
        **{f"weights, {name}": 100 * networks[f"weights, {name}"] / networks["norm, ERM"] for name in METHODS[1:]}
    )
    rows = [
        {"units": units} | {what: _spreads(of_width, what) for what in ("functions", "weights")}
        for units, of_width in relative.groupby("units")
    ]
    means = relative.groupby("units").mean(numeric_only=True)
    return {
        "steps": networks["step"].iloc[0],
        "rate": NETWORK_RATE,
        "loss": networks[[f"loss, {method}" for method in METHODS]].to_numpy().max(),
        "held_out": 2 * N_HELD_OUT,
        "seeds": sorted(networks["seed"].unique()),
        "rows": rows,
        "falls": {
            what: means[f"{what}, weighting"].iloc[0] / means[f"{what}, weighting"].iloc[-1]
            for what in ("functions", "weights")
        },
    }


def _spreads(of_width: pd.DataFrame, what: str) -> dict[str, dict[str, float]]:
    columns = {key: of_width[f"{what}, {method}"] for key, method in _COMPARED.items()}
    return {key: {"mean": one.mean(), "lowest": one.min(), "highest": one.max()} for key, one in columns.items()}
