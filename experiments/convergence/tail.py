"""Phantoms with a tail: a rare pathology that is found but for a few faint ones, ensembles of folds, all percentiles.

The cases, the statistics and the ensembles are those of Table 2 of Fidon et al. 2022. An ensemble takes about ten
minutes of a processor core; finished folds are kept.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.convergence.studies import METHODS, PLAIN
from experiments.convergence.training import EPOCH, Run, make_run
from experiments.curves import ScoredRun, mean_interval, shown_difference
from experiments.datasets.phantoms import LABELS, Phantom, make_phantom, write_drawn
from experiments.factorial.effects import STATISTICS
from experiments.nnunet_runs.study import MINUTES_AROUND, Study
from experiments.record import Experiment, Finished, Options, Page, render
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

#: Training and test cases of each pathology, as in Table 1 of the paper.
CASES = {"control": (139, 107), "other": (10, 41), "rare": (28, 112)}
FOLDS, ITERATIONS, SECONDS = 3, 4000, 0.05
#: Every so many rare cases, one is faint; the others are brighter than the neck by something between these two.
FAINT, BRIGHT = 10, (0.3, 0.5)


def _phantom(drawn: str, *, rng: np.random.Generator) -> Phantom:
    pathology = "rare" if drawn == "faint" else drawn
    contrast = {"displaced": BRIGHT} if drawn == "rare" else {}
    made = make_phantom("common" if drawn == "other" else pathology, rng=rng, **contrast)
    return Phantom(made.image, made.labels, {"pathology": pathology, "faint": drawn == "faint"})


def _write(folder: Path, rng: np.random.Generator, *, share: int) -> None:
    drawn = [("validation", "control")] * 2
    for pathology, (n_train, n_test) in CASES.items():
        for split, n in (("train", n_train), ("test", n_test)):
            # A smoke run has one of so many.
            kinds = ["faint" if pathology == "rare" and i % FAINT == 0 else pathology for i in range(-(-n // share))]
            drawn += [(split, kind) for kind in kinds]
    made = "Phantoms of a head, few of them faint, drawn by experiments/convergence/tail.py."
    write_drawn(folder, drawn, _phantom, by="pathology", labels=LABELS, description=made, rng=rng)


def _without(raw: Path, *, fold: int) -> list[str]:
    """The training cases of a fold: those of the others."""
    table = pd.read_csv(raw / "cases.csv", dtype=str)
    cases = sorted(table["case"][table["split"] == "train"])
    return [case for i, case in enumerate(cases) if i % FOLDS != fold]


def _study(*, quick: bool) -> Study:
    return Study(
        name="convergence-tail",
        dataset="Dataset921_PhantomTail",
        by="pathology",
        rare=("rare",),
        epochs=1,
        iterations=1,
        write=partial(_write, share=20 if quick else 1),
        settings={},
        trainers=METHODS,
        subsets={f"fold{fold}": partial(_without, fold=fold) for fold in range(FOLDS)},
    )


def _runs(options: Options) -> list[Mapping[str, Run]]:
    methods = dict.fromkeys([*(() if options.add else (PLAIN,)), *options.methods])
    iterations = EPOCH if options.quick else ITERATIONS
    trainers = {method: METHODS[method].format(by="pathology") for method in methods}
    return [
        {f"{method}-seed{seed}": Run(trainer, seed, iterations) for method, trainer in trainers.items()}
        for seed in options.seeds
    ]


def _make(options: Options, name: str, run: Run) -> Mapping[str, Any]:
    folds = range(1, FOLDS + 1)
    return make_run(options.work, _study(quick=options.quick), name, run, at=[run.iterations], folds=folds)


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    scored = [ScoredRun.of(name, run, result) for name, (run, result) in finished.items()]
    cases = pd.concat([run.dice.assign(method=run.method, seed=run.seed) for run in scored], ignore_index=True)
    rows = []
    for place, of in cases.groupby(["method", "seed", "stratum", "label"], sort=False)["dice"]:
        found = describe(of.to_numpy(dtype=np.float64))
        statistics = {name: 100 * found[name] for name in STATISTICS} | {"missed": (of == 0).sum()}
        keys = dict(zip(("method", "seed", "stratum", "label"), place, strict=True))
        rows.append({**keys, "n": len(of), **statistics})
    return {"-all": pd.DataFrame(rows), "-cases": cases[["method", "seed", "stratum", "label", "case", "dice"]]}


def _compared(scores: pd.DataFrame) -> pd.DataFrame:
    """Means of the draws, and differences to plain training of the same draw, with intervals over the draws."""
    long = scores.melt(["method", "seed", "stratum", "label"], [*STATISTICS, "missed"], "statistic", "value")
    rows = []
    for place, of in long.groupby(["stratum", "label", "statistic"], sort=False):
        wide = of.pivot(index="seed", columns="method", values="value")
        for method in of["method"].unique():
            low_high = (np.nan,) * 3 if method == PLAIN else mean_interval((wide[method] - wide[PLAIN]).dropna())
            keys = dict(zip(("stratum", "label", "statistic"), place, strict=True))
            numbers = dict(zip(("difference", "low", "high"), low_high, strict=True))
            rows.append({**keys, "method": method, "mean": wide[method].mean(), **numbers})
    return pd.DataFrame(rows)


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-all"]
    table = _compared(scores)
    rows = table[table["label"] == "cerebellum"]
    texts = [
        f"{row.mean:.1f}" if row.method == PLAIN else shown_difference(row.difference, row.low, row.high)
        for row in rows.itertuples()
    ]
    shown = rows.assign(text=texts).pivot(index=["stratum", "method"], columns="statistic", values="text")
    shown = shown[[*STATISTICS, "missed"]].reset_index()
    values = {"cases": CASES, "folds": FOLDS, "faint": FAINT, "n_seeds": scores["seed"].nunique()}
    return Page(render("convergence/tail", iterations=ITERATIONS, **values), table, shown=shown)


EXPERIMENT = Experiment(
    name="convergence-tail",
    title="A tail: phantoms of which few are faint",
    runs=_runs,
    make=_make,
    minutes=lambda run: MINUTES_AROUND + FOLDS * run.iterations * SECONDS / 60,
    tables=_tables,
    page=_page,
    methods=tuple(METHODS),
    default_methods=(PLAIN, "DRO_earned", "paper"),
    cache="convergence",
    folder="tail",
    page_name="convergence",
    is_section=True,
    formats={"-all": "%.4f", "-cases": "%.4f"},
)
