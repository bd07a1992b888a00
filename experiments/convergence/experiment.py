"""Speed or solution: does a gain of robust training remain when plain training has converged?

nnU-Net is trained much longer than in the other experiments, and tested on the way, on phantoms, on
slices of them, on lesions, or on real data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd

from experiments.convergence.methods import DOUBLE_BATCH, METHODS, PLAIN
from experiments.convergence.page import methods_by_statistic, page_text, percentiles_table
from experiments.convergence.pictures import CAMERAS, HC18, ISIC, strata_of_pictures
from experiments.convergence.questions import (
    Question,
    fresh,
    hippocampus,
    lesions,
    nuclei,
    phantoms,
    tail,
)
from experiments.convergence.spoilt_nuclei import A_LITTLE, NONE, wrong_nuclei
from experiments.convergence.spoilt_phantoms import hopeless, partly_wrong
from experiments.convergence.training import DoubleBatchRun, Run, make_run, moments
from experiments.curves.figure import draw_curves
from experiments.curves.other_cases import for_other_cases
from experiments.curves.results import ScoredRun, decision, differences, results_table, scores_of
from experiments.nnunet_runs.data import MINUTES_AROUND
from experiments.record import Experiment, Finished, Options, Page, Tables, methods_by_stratum

#: What the page's name ends with to a function of the folder of the data, which phantoms do not
#: need, and `quick`.
QUESTIONS: dict[str, Callable[..., Question]] = {
    "": phantoms,
    "-long": partial(phantoms, times=2),
    "-longest": partial(phantoms, times=6),
    "-tail": tail,
    "-eroded": partly_wrong,
    "-eroded-few": partial(partly_wrong, share=0.05, foretold=True),
    "-eroded-many": partial(partly_wrong, share=0.3, foretold=True),
    "-dilated": partial(partly_wrong, kinds=("dilated",), foretold=True),
    "-dilated-few": partial(partly_wrong, kinds=("dilated",), share=0.05, foretold=True),
    "-dilated-many": partial(partly_wrong, kinds=("dilated",), share=0.3, foretold=True),
    "-eroded-dilated": partial(partly_wrong, kinds=("eroded", "dilated")),
    "-eroded-dilated-few": partial(
        partly_wrong, kinds=("eroded", "dilated"), share=0.05, foretold=True
    ),
    "-eroded-dilated-many": partial(
        partly_wrong, kinds=("eroded", "dilated"), share=0.3, foretold=True
    ),
    "-hopeless": hopeless,
    "-slices": partial(phantoms, slices=True),
    "-slices-wrong": partial(phantoms, slices=True, wrong=True),
    "-lesions": lesions,
    "-lesions-slices": partial(lesions, slices=True),
    "-lesions-wrong": partial(lesions, wrong=True),
    "-lesions-slices-wrong": partial(lesions, slices=True, wrong=True),
    "-hippocampus": hippocampus,
    "-nuclei": nuclei,
    "-nuclei-wrong": wrong_nuclei,
    "-nuclei-eroded": partial(wrong_nuclei, spoiling=A_LITTLE, words="eroded labels"),
    "-nuclei-eroded-few": partial(
        wrong_nuclei, spoiling=replace(A_LITTLE, share=0.05), words="few eroded labels"
    ),
    "-nuclei-eroded-many": partial(
        wrong_nuclei, spoiling=replace(A_LITTLE, share=0.3), words="more eroded labels"
    ),
    "-nuclei-dilated": partial(
        wrong_nuclei, spoiling=replace(A_LITTLE, kinds=("dilated",)), words="dilated labels"
    ),
    "-nuclei-dilated-few": partial(
        wrong_nuclei,
        spoiling=replace(A_LITTLE, share=0.05, kinds=("dilated",)),
        words="few dilated labels",
    ),
    "-nuclei-dilated-many": partial(
        wrong_nuclei,
        spoiling=replace(A_LITTLE, share=0.3, kinds=("dilated",)),
        words="more dilated labels",
    ),
    "-nuclei-eroded-dilated": partial(
        wrong_nuclei,
        spoiling=replace(A_LITTLE, kinds=("eroded", "dilated")),
        words="eroded and dilated labels",
    ),
    "-nuclei-eroded-dilated-few": partial(
        wrong_nuclei,
        spoiling=replace(A_LITTLE, share=0.05, kinds=("eroded", "dilated")),
        words="few eroded and dilated labels",
    ),
    "-nuclei-eroded-dilated-many": partial(
        wrong_nuclei,
        spoiling=replace(A_LITTLE, share=0.3, kinds=("eroded", "dilated")),
        words="more eroded and dilated labels",
    ),
    "-nuclei-right": partial(wrong_nuclei, spoiling=NONE, words="the same images, right labels"),
    "-hc18": partial(strata_of_pictures, HC18),
    "-isic": partial(strata_of_pictures, ISIC),
    "-isic-cameras": partial(strata_of_pictures, CAMERAS),
    "-fresh": partial(fresh, phantoms, is_real=False),
    "-slices-fresh": partial(fresh, partial(phantoms, slices=True), is_real=False),
    "-nuclei-fresh": partial(fresh, nuclei, is_real=True),
    "-isic-fresh": partial(fresh, partial(strata_of_pictures, ISIC), is_real=True, gains=False),
}
#: The seeds that were known when the default was chosen, and fresh ones.
SEEDS = (range(5), range(5, 10))
#: Those with real data.
REAL = {
    "-hippocampus": "The hippocampus data",
    "-nuclei": "The dataset of nuclei",
    "-nuclei-fresh": "The dataset of nuclei",
    "-nuclei-wrong": "The dataset of nuclei",
    "-nuclei-eroded": "The dataset of nuclei",
    "-nuclei-eroded-few": "The dataset of nuclei",
    "-nuclei-eroded-many": "The dataset of nuclei",
    "-nuclei-dilated": "The dataset of nuclei",
    "-nuclei-dilated-few": "The dataset of nuclei",
    "-nuclei-dilated-many": "The dataset of nuclei",
    "-nuclei-eroded-dilated": "The dataset of nuclei",
    "-nuclei-eroded-dilated-few": "The dataset of nuclei",
    "-nuclei-eroded-dilated-many": "The dataset of nuclei",
    "-nuclei-right": "The dataset of nuclei",
    "-hc18": "The ultrasound pictures of HC18",
    "-isic": "The pictures of ISIC 2017",
    "-isic-cameras": "The pictures of ISIC 2017",
    "-isic-fresh": "The pictures of ISIC 2017",
}
#: What is a section of another one's page.
SECTIONS = {
    "-long": "convergence",
    "-longest": "convergence",
    "-eroded-few": "convergence-eroded",
    "-eroded-many": "convergence-eroded",
    "-dilated-few": "convergence-dilated",
    "-dilated-many": "convergence-dilated",
    "-eroded-dilated-few": "convergence-eroded-dilated",
    "-eroded-dilated-many": "convergence-eroded-dilated",
    "-slices-wrong": "convergence-slices",
    "-lesions-slices-wrong": "convergence-lesions-slices",
    "-lesions": "convergence-lesions-slices",
    "-lesions-wrong": "convergence-lesions-slices",
    "-fresh": "convergence",
    "-slices-fresh": "convergence-slices",
    "-nuclei-fresh": "convergence-nuclei",
    "-nuclei-eroded-few": "convergence-nuclei-eroded",
    "-nuclei-eroded-many": "convergence-nuclei-eroded",
    "-nuclei-dilated-few": "convergence-nuclei-dilated",
    "-nuclei-dilated-many": "convergence-nuclei-dilated",
    "-nuclei-eroded-dilated-few": "convergence-nuclei-eroded-dilated",
    "-nuclei-eroded-dilated-many": "convergence-nuclei-eroded-dilated",
    "-nuclei-right": "convergence-nuclei-wrong",
    "-isic-fresh": "convergence-isic",
}


def _runs(kind: str, options: Options) -> list[Mapping[str, Run]]:
    if kind in REAL and not (options.data / "cases.csv").exists():
        raise FileNotFoundError(
            f"{options.data / 'cases.csv'} is missing. Give the raw dataset with --data."
        )
    asked = QUESTIONS[kind](options.data, quick=options.quick)
    # What is added needs no plain training once more.
    plain = () if options.add else (PLAIN,)

    def run(method: str, seed: int) -> Run:
        run_type = DoubleBatchRun if method in DOUBLE_BATCH else Run
        return run_type(METHODS[method].format(by=asked.data.by), seed, asked.iterations)

    return [options.runs_of(run, list(dict.fromkeys((*plain, *options.methods))))]


def _make(kind: str, options: Options, name: str, run: Run) -> Mapping[str, Any]:
    asked = QUESTIONS[kind](options.data, quick=options.quick)
    at = moments(asked.iterations, asked.settling)
    folds: Sequence[int] = (0,)
    if asked.folds:
        at = [asked.iterations]
        folds = range(1, asked.folds + 1)
    return make_run(options.work, asked.data, name, run, at=at, folds=folds)


def _tables(kind: str, finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    asked = QUESTIONS[kind](options.data, quick=options.quick)
    scored = [ScoredRun.of(name, run, result) for name, (run, result) in finished.items()]
    if len(asked.data.labels) > 1:
        scored = [run.with_mean_of_labels(str(asked.roles.label)) for run in scored]

    parts = [run.dice.assign(method=run.method, seed=run.seed) for run in scored]
    dice = pd.concat(parts, ignore_index=True)
    columns = ["method", "seed", "stratum", "label", "case", "dice"]
    tables = {
        "-all": scores_of(scored),
        "-cases": dice.loc[dice["iteration"] == asked.iterations, columns],
    }
    _, column = asked.regrouped
    if column:
        cases = pd.read_csv(options.data / "cases.csv", dtype=str)
        strata = cases.set_index("case")[column]
        tables["-regrouped-all"] = scores_of(run.regrouped(strata) for run in scored)
    return tables


def _page(kind: str, tables: Tables, quick: bool) -> Page:
    scores = tables["-all"]
    asked = QUESTIONS[kind](None, quick=quick)
    if asked.folds:
        percentiles = percentiles_table(tables["-cases"], asked.roles)
        shown = methods_by_statistic(percentiles, asked.roles)
        rule = decision(scores, asked.roles)
        return Page(asked.about, percentiles, shown=shown, more={"-rule": rule})

    rows = differences(scores, asked.roles)
    table = results_table(rows[rows["label"] == asked.roles.label], asked.roles)
    curves = partial(
        draw_curves,
        scores,
        asked.roles,
        asked.n_train,
        batch_size=asked.batch_size,
    )
    regrouped = None
    if any(asked.regrouped):
        regrouped = tables["-regrouped-all"]
    more = {"-rule": decision(scores, asked.roles, wrong_labels=asked.wrong_labels)}
    # Of the oldest trainings only the means over the cases were kept.
    if tables.has_file("-cases"):
        more["-wider"] = for_other_cases(
            scores,
            tables["-cases"],
            asked.roles,
            # Each seed makes phantoms of its own, whose names are the same.
            case_columns=(["seed", "case"], ["case"])[kind in REAL],
        )
    text = page_text(
        scores,
        asked,
        regrouped=regrouped,
        other_cases=more.get("-wider"),
        limits=("Phantoms", "One dataset")[kind in REAL],
        is_section=kind in SECTIONS,
    )
    return Page(
        text,
        table,
        shown=methods_by_stratum(table, PLAIN),
        more=more,
        pictures={"": curves},
    )


def _minutes(kind: str, run: Run) -> float:
    asked = QUESTIONS[kind](None, quick=False)
    return MINUTES_AROUND + max(1, asked.folds) * run.iterations * asked.seconds / 60


def _experiment(kind: str) -> Experiment:
    return Experiment(
        name=f"convergence{kind}",
        title=QUESTIONS[kind](None, quick=False).title,
        runs=partial(_runs, kind),
        make=partial(_make, kind),
        minutes=partial(_minutes, kind),
        tables=partial(_tables, kind),
        page=partial(_page, kind),
        seeds=SEEDS[kind.endswith("-fresh")],
        methods={method: method in (PLAIN, "DRO", "IW") for method in METHODS},
        data=REAL.get(kind, ""),
        work=f"convergence/{kind.removeprefix('-') or 'phantoms'}",
        section_of=SECTIONS.get(kind, ""),
        formats=dict.fromkeys(("-all", "-regrouped-all", "-rule", "-cases"), "%.4f"),
    )


EXPERIMENTS = {f"convergence{kind}": _experiment(kind) for kind in QUESTIONS}
