"""4 against 9: weights learnt from ten trusted images, against remedies for a rare class.

After section 4.1 of Ren et al. 2018: at the settings of their code, which takes an hour of a
processor core, and in shorter trainings with two learning rates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.curves.results import mean_interval
from experiments.datasets.mnist import load_digits
from experiments.imbalanced_pair.training import METHODS, N_TRUSTED, Run, split_pair, train
from experiments.record import Experiment, Options, Page, render

#: Minutes of a processor core that a step takes, about.
MINUTES = 1.4e-4
#: Methods at the published settings, 9s for each 4 there, and steps of L2RW and of the others.
PUBLISHED_METHODS = tuple(method for method in METHODS if method != "random")
PUBLISHED_RATIOS = (199, 10)
PUBLISHED_STEPS = {"L2RW": 4000, "other": 8000}
#: 9s for each 4 in the shorter trainings.
RATIOS = (1, 10, 30, 84)
#: Their learning rates: as long a way as that of Ren et al. (1e-3 and 8,000 steps); and of 0.05,
#: 0.1, 0.2 and 0.4 the one with the lowest test error of plain training on another split (seed
#: 100), over all ratios.
RATES = (8.0 / Run.steps, 0.2)
_COLOURS = dict(
    zip(PUBLISHED_METHODS, ("#000000", "#E69F00", "#009E73", "#CC79A7", "#0072B2"), strict=True)
)
_COLUMNS = ["images", "ratio", "n_rare", "seed", "method", "error", "rare", "common", "minus plain"]
_COLUMNS += ["minus resample", "weight", "effective"]


def short_runs(seeds: Sequence[int], *, quick: bool) -> list[Run]:
    """The shorter trainings, a seed at a time."""
    if quick:
        small = partial(Run, learning_rate=0.2, n_train=85, n_test=20, steps=40)
        return [
            small(method, ratio, seed) for seed, ratio, method in product(seeds, (1, 16), METHODS)
        ]
    return [
        Run(method, ratio, seed, rate)
        for rate, seed, ratio, method in product(RATES, seeds, RATIOS, METHODS)
    ]


def published_runs(seeds: Sequence[int], *, quick: bool) -> list[Run]:
    """All trainings at the settings of the published code, a ratio at a time, the largest first."""
    make: partial[Run] = partial(Run, learning_rate=1e-3, n_train=5000, n_test=40, test_every=100)
    ratios = PUBLISHED_RATIOS
    steps = PUBLISHED_STEPS
    if quick:
        make = partial(Run, learning_rate=0.02, n_train=400, n_test=20, test_every=5)
        ratios = (40, 10)
        steps = dict.fromkeys(PUBLISHED_STEPS, 20)
    runs = []
    for ratio, seed, method in product(ratios, seeds, PUBLISHED_METHODS):
        n_steps = steps.get(method, steps["other"])
        runs.append(make(method, ratio, seed, steps=n_steps, momentum=0.9, made=True))
    return runs


def _named(runs: Sequence[Run]) -> list[Mapping[str, Run]]:
    load_digits()
    by_name = {}
    for run in runs:
        name = f"{run.method}-{run.ratio}to1-rate{run.learning_rate:g}-seed{run.seed}"
        by_name[name.replace(" ", "-")] = run
    return [by_name]


def _make(options: Options, name: str, run: Run) -> Mapping[str, Any]:
    return asdict(train(run, split_pair(*load_digits(), run)))


def _published_page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    rows = tables["-all"].assign(method=pd.Categorical(tables["-all"]["method"], METHODS))
    table = published_table(rows)
    # The larger imbalance, which comes last.
    shown = table[-len(PUBLISHED_METHODS) :]
    return Page(
        published_text(rows, published_runs([0], quick=quick)[0]),
        table,
        shown=shown.drop(columns=["by split", "minus resample", "low", "high"]),
        pictures={"": partial(draw_published, rows)},
    )


def _short_page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    table = tables[""]
    run = short_runs([0], quick=quick)[0]
    last = table["ratio"].iloc[-1]
    findings = []
    for rate, rows in table.groupby("rate"):
        l2rw = rows[rows["method"] == "L2RW"]
        worst = rows[rows["ratio"] == last]
        findings.append(
            {
                "rate": rate,
                "l2rw": l2rw.set_index("ratio")["error"].to_dict(),
                "worst": worst.set_index("method")["error"].to_dict(),
                "n_lost": l2rw["lost"].sum(),
            }
        )
    n_splits = len(str(table["by split"].iloc[0]).split(", "))
    text = render("imbalanced_pair/short", run=run, findings=findings, last=last, n_splits=n_splits)
    return Page(text, table, range(n_splits), shown=table.iloc[:0])


_experiment = partial(
    Experiment, make=_make, minutes=lambda run: MINUTES * run.steps, work="imbalanced-pair"
)
EXPERIMENTS = {
    "imbalanced-pair": _experiment(
        name="imbalanced-pair",
        title="Shorter trainings",
        runs=lambda options: _named(short_runs(options.seeds, quick=options.quick)),
        tables=lambda finished, _: {"": results_table(compared(finished.values()))},
        page=_short_page,
        section_of="imbalanced-pair-published",
    ),
    "imbalanced-pair-published": _experiment(
        name="imbalanced-pair-published",
        title="4 against 9, at the settings of the published code",
        runs=lambda options: _named(published_runs(options.seeds, quick=options.quick)),
        tables=lambda finished, _: {"-all": published_rows(compared(finished.values()))},
        page=_published_page,
        formats={},
    ),
}


def compared(results: Iterable[tuple[Run, Mapping[str, Any]]]) -> pd.DataFrame:
    """A row per run: its ``error`` (per cent), and differences of it on the same split.

    They are ``minus plain`` and ``minus resample``.
    """
    records = [{**asdict(run), **result, "n_rare": run.n_rare} for run, result in results]
    rows = pd.DataFrame(records)
    # The noise of single precision would decide which of two equal errors is lower.
    rows[["rare", "common"]] = rows[["rare", "common"]].round(4)
    rows["error"] = (rows["rare"] + rows["common"]) / 2
    keys = ["learning_rate", "ratio", "seed"]
    for other in ("plain", "resample"):
        errors = rows[rows["method"] == other].set_index(keys)["error"].rename("theirs")
        rows[f"minus {other}"] = rows["error"] - rows.join(errors, on=keys)["theirs"]
    rows["lost"] = rows[["rare", "common"]].max(axis=1) == 100
    rows["method"] = pd.Categorical(rows["method"], METHODS)
    return rows.sort_values([*keys, "method"], ignore_index=True)


def results_table(rows: pd.DataFrame) -> pd.DataFrame:
    """The means over the splits, from the rows of `compared`.

    There is a row per learning rate, ratio and method.
    """
    groups = rows.groupby(["learning_rate", "ratio", "method"], observed=True)
    table = _means(groups).assign(sd=groups["error"].std(), lost=groups["lost"].sum()).reset_index()
    table["rate"] = table["learning_rate"].map("{:g}".format)
    table["ratio"] = table["ratio"].astype(str) + ":1"
    table["4s"] = table["n_rare"].astype(int)
    names = [
        "rate",
        "ratio",
        "4s",
        "method",
        "error",
        "sd",
        "by split",
        "4s wrong",
        "9s wrong",
        "lost",
        "halfway",
        "minus plain",
        "minus resample",
        "weight",
        "effective",
    ]
    return table.astype({"method": str})[names]


def published_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """A row per condition (``images``, as on the page), seed and method, from `compared`."""
    images = rows["ratio"].astype(str) + ":1, " + rows["n_rare"].astype(str) + " 4s"
    rows = rows.assign(images=images)
    return rows[_COLUMNS].sort_values(["images", "seed", "method"], ignore_index=True)


def published_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Means over the splits, and the difference to resampling with its interval.

    There is a row per condition and method.
    """
    rows = rows.rename(columns={"images": "training images"})
    groups = rows.groupby(["training images", "method"], observed=True)
    table = _means(groups).reset_index().astype({"method": str})
    intervals = [mean_interval(splits["minus resample"]) for _, splits in groups]
    table[["minus resample", "low", "high"]] = intervals
    names = [
        "training images",
        "method",
        "error",
        "by split",
        "4s wrong",
        "9s wrong",
        "minus resample",
        "low",
        "high",
        "weight",
        "effective",
    ]
    return table[names]


def _means(groups: Any) -> pd.DataFrame:
    """The means of each group, and the errors of its splits."""
    means = groups.mean(numeric_only=True)
    means = means.rename(columns={"rare": "4s wrong", "common": "9s wrong"})
    by_split = groups["error"].agg(lambda errors: ", ".join(map("{:.1f}".format, errors)))
    return means.assign(**{"by split": by_split})


def draw_published(rows: pd.DataFrame) -> Figure:
    """Test error: a panel per condition, a point per split, and a bar at the mean."""
    names = sorted(rows["images"].unique())
    figure = Figure(figsize=(1.5 + 3.6 * len(names), 3.8), layout="constrained")
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        condition = rows[rows["images"] == name]
        for place, method in enumerate(PUBLISHED_METHODS):
            errors = condition.loc[condition["method"] == method, "error"]
            beside = place + np.linspace(-0.15, 0.15, len(errors))
            colour = _COLOURS[method]
            axes.plot(beside, errors, "o", ms=4, color=colour, alpha=0.7)
            axes.hlines(errors.mean(), place - 0.3, place + 0.3, color=colour, linewidth=2)
        axes.set_title(name, fontsize=10)
        axes.set_xticks(range(len(PUBLISHED_METHODS)), PUBLISHED_METHODS, rotation=25, fontsize=9)
    figure.axes[0].set_ylabel("test error (%)")
    figure.axes[0].set_ylim(bottom=0)
    return figure


def published_text(rows: pd.DataFrame, run: Run) -> str:
    """The text of the page above its table, from `published_rows` and any of the trainings."""
    findings = []
    for name, splits in rows[rows["method"] == "L2RW"].groupby("images"):
        minus = {
            "plain": mean_interval(splits["minus plain"]),
            "resample": mean_interval(splits["minus resample"]),
        }
        findings.append({"name": name, "minus": minus})
    least = rows["ratio"].min()
    worst = rows["ratio"].max()
    means = rows.groupby(["method", "ratio"], observed=True)["error"].mean().unstack()
    return render(
        "imbalanced_pair/published",
        run=run,
        steps=PUBLISHED_STEPS,
        n_trusted=N_TRUSTED,
        n_splits=rows["seed"].nunique(),
        least=least,
        worst=worst,
        rises=(means[worst] - means[least]).to_dict(),
        findings=findings,
    )
