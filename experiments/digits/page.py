"""The page of the experiment."""

from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import pandas as pd

from experiments.digits.plan import RARE, SKETCH_SEED, Run
from experiments.digits.results import FITTED, POINT, ROLES, fall_differences, falls, gains, plateaus
from experiments.digits.split import POOL, RIM
from experiments.digits.tables import SMOOTHED, quarters_table, stability_table, trainings_table
from experiments.record import render

#: Year of a paper to the points of accuracy on the 3s that it says beta 10 is more than better than ERM by.
CLAIMS = {2020: 10, 2022: 15}

#: What is left of a gain at the end, from `verdict` to the words of the page.
VERDICTS = {
    "remains": "a gain that remains",
    "open": "a gain, but ERM has not reached its plateau",
    "speed": "a gain of speed only",
    "none": "no gain",
    "loss": "a loss",
    "single": "a difference without interval",
}


def page_text(epochs: pd.DataFrame, run: Run) -> str:
    """The text of the page above its table.

    Args:
        epochs: From `epochs_table`.
        run: Any of the trainings.
    """
    found, settled, fallen = gains(epochs), plateaus(epochs), falls(epochs)
    of_rare, n_epochs = found[found["label"] == "3s"], epochs.groupby("kept")["epoch"].max()
    return render(
        "digits/page",
        digit=RARE,
        run=run,
        rim=RIM,
        pool=POOL,
        sketch_seed=SKETCH_SEED,
        n_epochs=n_epochs.to_dict(),
        kept_images=" or ".join(f"{replace(run, share=kept / 100).n_rare} ({kept:g} %)" for kept in n_epochs.index),
        n_seeds=epochs["seed"].nunique(),
        plain=ROLES.plain,
        point=POINT,
        fitted=FITTED,
        claims=CLAIMS,
        left=_left(of_rare, settled),
        settled=settled.to_dict("records"),
        claimed=_claimed(of_rare),
        levels=_levels(trainings_table(epochs)),
        smoothed=SMOOTHED,
        quarters=quarters_table(epochs),
        stability=stability_table(fallen),
        holds=_holds(fallen),
    )


def verdict(rows: pd.DataFrame, *, reached: bool) -> str:
    """What is left of a method's gain on the 3s at the end.

    Args:
        rows: Of `gains`, those of one method, one share and the 3s: a row per quarter, in order.
        reached: Whether ERM has reached its plateau.

    Returns:
        A key of `VERDICTS`.
    """
    last = rows.iloc[-1]
    if np.isnan(last["low"]):
        return "single"
    if last["low"] > 0:
        return "remains" if reached else "open"
    if last["high"] < 0:
        return "loss"
    return "speed" if (rows["low"] > 0).any() else "none"


def _left(of_rare: pd.DataFrame, settled: pd.DataFrame) -> dict[Hashable, dict[str, list[Hashable]]]:
    """For each share: what is left at the end, and of which methods."""
    reached = settled[settled["method"] == ROLES.plain].set_index("kept")["reached"]
    left: dict[Hashable, dict[str, list[Hashable]]] = {}
    others = of_rare[of_rare["method"] != ROLES.plain]
    for (kept, method), rows in others.groupby(["stratum", "method"], sort=False):
        words = VERDICTS[verdict(rows, reached=bool(reached[float(str(kept).removesuffix(" %"))]))]
        left.setdefault(kept, {}).setdefault(words, []).append(method)
    return left


def _claimed(of_rare: pd.DataFrame) -> list[dict[str, object]]:
    """For each share: the largest difference of beta 10 in any quarter, and that in the last."""
    rows = []
    for kept, of in of_rare[of_rare["method"] == "beta 10"].groupby("stratum", sort=False):
        largest, last = of.loc[of["difference"].idxmax()], of.iloc[-1]
        rows.append({"kept": kept, "quarter": largest["iteration"], "largest": largest["difference"], **last.to_dict()})
    return rows


def _levels(table: pd.DataFrame) -> dict[Hashable, dict[Hashable, list[int | None]]]:
    """For each share and method: when it is level with the end of ERM, by seed; None for never."""
    levels: dict[Hashable, dict[Hashable, list[int | None]]] = {}
    for (kept, method), of in table.groupby(["3s kept", "method"], sort=False)["level by"]:
        levels.setdefault(kept, {})[method] = [None if np.isnan(epoch) else int(epoch) for epoch in of]
    return levels


def _holds(fallen: pd.DataFrame) -> dict[Hashable, dict[str, list[str]]]:
    """For each share, the methods of which each part of what the papers say about stability is true.

    Args:
        fallen: From `falls`.
    """
    differences = fall_differences(fallen).reset_index(drop=True)
    table = stability_table(fallen)
    parts = {
        "less_stable": differences["low"] > 0,
        "loss_stable": table["loss rises"] < table["falls"] / 2,
        "stale_stable": table["last drawn rises"] < table["falls"] / 2,
        "sd_higher": table["SD there"] > table["SD elsewhere"],
    }
    return {
        kept: {part: list(rows["method"][true[rows.index]]) for part, true in parts.items()}
        for kept, rows in table.groupby("3s kept", sort=False)
    }
