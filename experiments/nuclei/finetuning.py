"""Rare modalities of cell nuclei: what does a short finetuning of a plain training give?

The plain training of each seed, four minutes of a processor core, is continued for a tenth of its
iterations in several ways, half a minute each.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import pandas as pd
import torch

from experiments.curves.figure import draw_differences
from experiments.curves.results import Roles, at_the_end, differences, results_table
from experiments.datasets.nuclei import read_table
from experiments.nuclei.experiment import (
    DATA,
    ITERATIONS,
    QUICK_ITERATIONS,
    divided_images,
    minutes,
    scores_of_runs,
)
from experiments.nuclei.methods import METHODS, PLAIN, ROLES, TOLD
from experiments.nuclei.training import LEARNING_RATE, OptimisedRun, Run, new_network, train
from experiments.record import Experiment, Options, Page, methods_by_stratum, render
from nnunet_dro.files.output_folder import replacing

#: The method that is trained anew, too.
DRO = "share0.5"
#: Method to the method whose way of drawing it takes, and its learning rate, each from the plain
#: network of its seed; those that name a learning rate were added after the results of the others
#: were known.
FINETUNED = {f"{name}, from plain": (name, LEARNING_RATE) for name in (PLAIN, DRO, TOLD)}
SLOWER = {f"{name}, lr {rate}": (name, rate) for name in (PLAIN, DRO) for rate in (0.003, 0.001)}
METHODS_IN_ORDER = (PLAIN, *FINETUNED, *SLOWER, DRO)
#: The roles of the methods at their ends.
FINETUNING_ROLES = Roles(PLAIN, f"{TOLD}, from plain", common=ROLES.common, rare=ROLES.rare)


@dataclass(frozen=True)
class StartingRun(Run):
    """A plain training whose network is kept for those that start from it."""

    kept: bool = True


def _runs(options: Options) -> list[Mapping[str, Run]]:
    read_table(options.data)
    iterations = QUICK_ITERATIONS if options.quick else ITERATIONS
    finetuned = FINETUNED | SLOWER

    def anew(method: str, seed: int) -> Run:
        kind = StartingRun if method == PLAIN else Run
        return kind(METHODS[method], seed, iterations)

    def continued(method: str, seed: int) -> Run:
        drawing, rate = finetuned[method]
        return OptimisedRun(METHODS[drawing], seed, max(1, iterations // 10), rate)

    return [options.runs_of(anew, (PLAIN, DRO)), options.runs_of(continued, list(finetuned))]


def _make(options: Options, name: str, run: Run) -> Mapping[str, Any]:
    weights = options.work / f"plain-seed{run.seed}.pt"
    network = new_network(run.seed)
    continued = isinstance(run, OptimisedRun)
    if continued:
        network.load_state_dict(torch.load(weights, weights_only=True))
    images = divided_images(options.data, run.seed, options.quick)
    trained = train(run, *images, network=network, fill=continued)
    if isinstance(run, StartingRun):
        weights.parent.mkdir(parents=True, exist_ok=True)
        with replacing(weights) as partial_file:
            torch.save(network.state_dict(), partial_file)
    return asdict(trained)


def _in_order(scores: pd.DataFrame) -> pd.DataFrame:
    """The rows by method, stratum and seed, plain training first."""
    order = [*METHODS_IN_ORDER, *FINETUNING_ROLES.strata]
    return scores.sort_values(
        ["method", "stratum", "seed"],
        key=lambda column: column.map(order.index) if column.dtype != int else column,
    )


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-all"]
    # Trainings of different lengths are compared at their ends.
    changes = differences(scores.assign(iteration=0), FINETUNING_ROLES)
    table = results_table(changes, FINETUNING_ROLES).drop(columns="iteration")
    lengths = scores.drop_duplicates("method").set_index("method")["iteration"]
    rare = changes[changes["stratum"].isin(ROLES.rare)]
    gains = rare.groupby("method", sort=False)["difference"].mean()
    shown = methods_by_stratum(table, PLAIN)
    shown.insert(1, "length", shown["method"].map(lengths))
    shown["rare, mean"] = shown["method"].map(gains.map("{:+.1f}".format))
    shown.loc[shown["method"] == PLAIN, "rare, mean"] = ""
    text = render(
        "nuclei/finetuning",
        trainers={method: METHODS[drawing] for method, (drawing, _) in FINETUNED.items()},
        lengths=lengths.to_dict(),
        plain=PLAIN,
        dro=DRO,
        rate=LEARNING_RATE,
        n_seeds=scores["seed"].nunique(),
    )
    return Page(
        text,
        table,
        shown=shown,
        pictures={"": partial(draw_differences, changes, scores, FINETUNING_ROLES)},
    )


EXPERIMENT = Experiment(
    name="nuclei-finetuning",
    title="Finetuning a plain training",
    runs=_runs,
    make=_make,
    minutes=minutes,
    tables=lambda finished, _: {"-all": _in_order(at_the_end(scores_of_runs(finished)))},
    ordered=_in_order,
    page=_page,
    data=DATA,
)
