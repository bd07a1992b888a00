"""The demo, once per seed of data and weights.

How often is the centre found that plain training misses, and what do the other centres pay?
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.figure import draw_differences
from experiments.curves.results import Roles, results_table, shown_difference
from experiments.nnunet_runs.data import Data, Network
from experiments.nnunet_runs.results import (
    ALL_LABELS,
    BASELINE,
    TrainingRun,
    Trainings,
    dice_differences,
    rows_by_seed,
)
from experiments.record import Experiment, Finished, Options, Page, methods_by_stratum, render
from nnunet_dro.demo.dataset import DATASET_NAME, N_CASES, build_dataset

#: The default, the same with another bound for the draws of rare kinds, and the default of version
#: 0.2, which draws hard cases more often whether they are learnt or not.
TRAINERS = {
    BASELINE: "nnUNetTrainerHWS_beta0",
    "DRO": "nnUNetTrainerDRO",
    "DRO_rare6": "nnUNetTrainerDRO_rare6",
    "DRO_share0.5": "nnUNetTrainerDRO_share0.5",
}
ROLES = Roles(BASELINE, "", common=("A", "B"), rare=("C",))
#: The label that the picture shows, of which plain training often finds nothing in C.
SHOWN = "white_matter"
#: Mean Dice of that label from which on it counts as found.
FOUND = 0.5


def trainings(*, quick: bool) -> Trainings:
    """The trainings of the demo: its data, its network and its length."""
    iterations = 2 if quick else 140
    data = Data(
        dataset=DATASET_NAME,
        by="centre",
        rare=ROLES.rare,
        common=ROLES.common,
        labels=("grey_matter", "white_matter"),
        write=_write,
        settings=N_CASES,
        network=Network(parent="2d", n_convolutions=2),
    )
    return Trainings(name="demo", data=data, trainers=TRAINERS, epochs=10, iterations=iterations)


def _write(folder: Path, rng: np.random.Generator) -> None:
    build_dataset(folder.parent, rng=rng)
    cases = pd.read_csv(folder / "cases.csv", dtype=str)
    cases[cases["split"] == "test"].to_csv(folder / "test_cases.csv", index=False)


def _make(options: Options, name: str, run: TrainingRun) -> Mapping[str, Any]:
    return trainings(quick=options.quick).make(options, name, run)


def _tables(finished: Finished, options: Options) -> dict[str, pd.DataFrame]:
    cases = []
    for run, result in finished.values():
        cases.append(pd.DataFrame(result["dice"]).assign(method=run.method, seed=run.seed))
    return {"-seeds": rows_by_seed(finished, add=options.add), "-cases": pd.concat(cases)}


def _verdicts(scores: pd.DataFrame, differences: pd.DataFrame) -> list[dict[str, Any]]:
    """What each method gives centre C and costs the others, as texts."""
    is_rare = differences["stratum"].isin(ROLES.rare)
    is_mean = differences["label"] == ALL_LABELS
    gains = differences[is_rare & is_mean].set_index("method")
    others = differences[~is_rare & ~is_mean].groupby("method")["difference"].min()

    in_rare = scores[scores["stratum"].isin(ROLES.rare) & (scores["label"] == SHOWN)]
    n_found = (in_rare["mean"] >= FOUND).groupby(in_rare["method"]).sum()
    rows = []
    for method, gain in gains.iterrows():
        row = {
            "method": method,
            "found": f"{n_found[method]} of {gain['seeds']}",
            "gain of C": shown_difference(gain["difference"], gain["low"], gain["high"]),
            "worst of A and B": shown_difference(others[method], np.nan, np.nan),
        }
        rows.append(row)
    return rows


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-seeds"]
    differences = dice_differences(scores, ROLES)
    shown = scores[scores["label"] == SHOWN]
    table = results_table(differences, ROLES)
    text = render(
        "demo/demo",
        trainings=trainings(quick=quick),
        n_cases=N_CASES,
        n_seeds=scores["seed"].nunique(),
        verdicts=_verdicts(scores, differences),
    )
    return Page(
        text,
        table,
        shown=methods_by_stratum(table[table["label"] == SHOWN], BASELINE),
        pictures={"": partial(draw_differences, dice_differences(shown, ROLES), shown, ROLES)},
    )


EXPERIMENT = Experiment(
    name="demo",
    title="The demo, with several seeds",
    runs=lambda options: trainings(quick=options.quick).runs(options),
    make=_make,
    minutes=lambda run: 6.0,
    tables=_tables,
    page=_page,
    methods=dict.fromkeys(TRAINERS, True),
    formats={"-seeds": "%.4f", "-cases": "%.4f"},
)
