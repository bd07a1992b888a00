"""A rare digit: is the gain one of speed, or does it remain when ERM has converged?

The gain is that of hardness weighted sampling in the toy example of Fidon et al. 2020 and 2022, on
digits of MNIST.
"""

from collections.abc import Hashable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from experiments.datasets.mnist import load_digits
from experiments.digits import plan, results
from experiments.digits.figure import draw_curves
from experiments.digits.plan import BETAS, RARE, SMALL, Run, planned_runs, slow_runs, split_digits
from experiments.digits.training import train
from experiments.record import Experiment, Options, Page, render

#: Minutes of a processor core that an epoch takes for each beta and training image of a digit,
#: about.
MINUTES = 5.7e-5
#: Year of a paper to the points of accuracy on the 3s that it says beta 10 is more than better than
#: ERM by.
CLAIMS = {2020: 10, 2022: 15}


def _runs(options: Options) -> list[Mapping[str, Run]]:
    load_digits()
    betas = [beta for beta in BETAS if results.method_of(beta) in options.methods]
    planned = planned_runs(options.seeds, betas, quick=options.quick)
    runs = {f"share{run.share:g}-seed{run.seed}": run for run in planned}
    if not options.quick and set(results.SLOW_METHODS) & set(options.methods):
        runs |= {f"slow-seed{run.seed}": run for run in slow_runs(options.seeds)}
    return [runs]


def _make(options: Options, name: str, run: Run) -> Mapping[str, Any]:
    return asdict(train(run, split_digits(*load_digits(), run)))


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    rates = results.calmed(results.falls(tables["-all"]))
    epochs = tables["-all"][tables["-all"]["method"].isin(results.METHODS)]
    quarters = results.quarters_table(epochs)
    more = {
        "-gains": quarters,
        "-stability": results.stability_table(results.falls(epochs)),
        "-distance": results.distances(epochs),
    }
    if len(rates):
        more["-rates"] = rates
    return Page(
        page_text(epochs, planned_runs([0], quick=quick)[0], rates),
        results.trainings_table(epochs),
        shown=quarters[quarters["test images"] == "3s"].drop(columns="test images"),
        pictures={"": partial(draw_curves, epochs)},
        more=more,
    )


EXPERIMENT = Experiment(
    name="digits",
    title="A rare digit",
    runs=_runs,
    make=_make,
    minutes=lambda run: MINUTES * run.epochs * len(run.betas) * run.n_train,
    tables=lambda finished, _: {"-all": results.epochs_table(finished.values())},
    ordered=results.in_order,
    page=_page,
    methods={
        **{results.method_of(beta): beta not in SMALL for beta in BETAS},
        **dict.fromkeys(results.SLOW_METHODS, False),
    },
    formats={"-all": "%.5g", "-stability": "%.4g", "-distance": "%.4g", "-rates": "%.4g"},
)


def page_text(epochs: pd.DataFrame, run: Run, rates: pd.DataFrame) -> str:
    """The text of the page above its table.

    Args:
        epochs: `epochs_table`.
        run: Any of the trainings.
        rates: `results.calmed`.
    """
    gains = results.gains(epochs)
    rare = gains[gains["label"] == "3s"]
    overall = gains[(gains["label"] == "all") & (gains["iteration"] == 4)]
    settled = results.plateaus(epochs)

    claimed = []
    for _, rows in rare[rare["method"] == "beta 10"].groupby("stratum", sort=False):
        claimed.append(rows.to_dict("records"))

    n_epochs = epochs.groupby("kept")["epoch"].max()
    kept_images = []
    for kept in n_epochs.index:
        n_rare = replace(run, share=kept / 100).n_rare
        kept_images.append(f"{n_rare} ({kept:g} %)")

    return render(
        "digits/page",
        plan,
        results,
        digit=RARE,
        run=run,
        n_epochs=n_epochs.to_dict(),
        kept_images=" or ".join(kept_images),
        n_seeds=epochs["seed"].nunique(),
        plain=results.ROLES.plain,
        claims=CLAIMS,
        left=_left(rare, settled),
        settled=settled.to_dict("records"),
        claimed=claimed,
        holds=_holds(results.falls(epochs)),
        overall=overall.set_index(["stratum", "method"]).to_dict("index"),
        distances=results.distances(epochs).to_dict("records"),
        rates=rates.to_dict("records"),
        methods=list(epochs["method"].unique()),
    )


def verdict(rows: pd.DataFrame, *, reached: bool) -> str:
    """What is left of a method's gain on the 3s at the end; whether ERM has reached its plateau."""
    last = rows.iloc[-1]
    if np.isnan(last["low"]):
        return "a difference without interval"
    if last["low"] > 0 and reached:
        return "a gain that remains"
    if last["low"] > 0:
        return "a gain, but ERM has not reached its plateau"
    if last["high"] < 0:
        return "a loss"
    if (rows["low"] > 0).any():
        return "a gain of speed only"
    return "no gain"


def _left(
    gains_of_rare: pd.DataFrame, settled: pd.DataFrame
) -> dict[Hashable, dict[str, list[Hashable]]]:
    """For each share: what is left at the end, and of which methods."""
    is_plain = settled["method"] == results.ROLES.plain
    reached = settled[is_plain].set_index("kept")["reached"]
    others = gains_of_rare[gains_of_rare["method"] != results.ROLES.plain]
    left: dict[Hashable, dict[str, list[Hashable]]] = {}
    for kept, gains_of_share in others.groupby("stratum", sort=False):
        share = float(str(kept).removesuffix(" %"))
        methods: dict[str, list[Hashable]] = {}
        for method, rows in gains_of_share.groupby("method", sort=False):
            words = verdict(rows, reached=bool(reached[share]))
            methods.setdefault(words, []).append(method)
        left[kept] = methods
    return left


def _holds(fallen: pd.DataFrame) -> dict[Hashable, dict[str, list[str]]]:
    """For each share, of which methods each part of what the papers say on stability is true."""
    table = results.stability_table(fallen)
    parts = {
        "less_stable": results.fall_differences(fallen).reset_index(drop=True)["low"] > 0,
        "loss_stable": table["loss rises"] < table["falls"] / 2,
        "stale_stable": table["last drawn rises"] < table["falls"] / 2,
        "sd_higher": table["SD there"] > table["SD elsewhere"],
    }
    holds: dict[Hashable, dict[str, list[str]]] = {}
    for kept, rows in table.groupby("3s kept", sort=False):
        holds[kept] = {}
        for part, is_true in parts.items():
            holds[kept][part] = list(rows["method"][is_true[rows.index]])
    return holds
