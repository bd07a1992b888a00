"""Speed or solution: does a gain of robust training remain when plain training has converged?

nnU-Net is trained much longer than in the other studies, and tested on the way, on phantoms, on
slices of them, on lesions, or on real data.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd

from experiments.convergence.methods import METHODS, PLAIN
from experiments.convergence.page import methods_by_statistic, page_text, percentiles_table
from experiments.convergence.questions import QUESTIONS, REAL
from experiments.convergence.training import Run, make_run, moments
from experiments.curves.figure import draw_curves
from experiments.curves.results import ScoredRun, decision, differences, results_table, scores_of
from experiments.nnunet_runs.study import MINUTES_AROUND
from experiments.record import Experiment, Finished, Options, Page, methods_by_stratum

#: What is a section of another one's page.
SECTIONS = {
    "-long": "convergence",
    "-longest": "convergence",
    "-tail": "convergence",
    "-eroded-dilated": "convergence-eroded",
    "-slices-wrong": "convergence-slices",
    "-lesions-slices-wrong": "convergence-lesions-slices",
    "-lesions": "convergence-lesions-slices",
    "-lesions-wrong": "convergence-lesions-slices",
}


def _runs(kind: str, options: Options) -> list[Mapping[str, Run]]:
    if kind in REAL and not (options.data / "cases.csv").exists():
        raise FileNotFoundError(
            f"{options.data / 'cases.csv'} is missing. Give the raw dataset with --data."
        )
    asked = QUESTIONS[kind](options.data, quick=options.quick)
    methods = dict.fromkeys((PLAIN, *options.methods))
    if options.add:
        # What is added needs no plain training once more.
        methods = dict.fromkeys(options.methods)

    stages: list[Mapping[str, Run]] = []
    for seed in options.seeds:
        stage = {}
        for method in methods:
            trainer = METHODS[method].format(by=asked.study.by)
            stage[f"{method}-seed{seed}"] = Run(trainer, seed, asked.iterations)
        stages.append(stage)
    return stages


def _make(kind: str, options: Options, name: str, run: Run) -> Mapping[str, Any]:
    asked = QUESTIONS[kind](options.data, quick=options.quick)
    if asked.folds:
        folds = range(1, asked.folds + 1)
        return make_run(options.work, asked.study, name, run, at=[asked.iterations], folds=folds)
    at = moments(asked.iterations, asked.settling)
    return make_run(options.work, asked.study, name, run, at=at)


def _tables(kind: str, finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    asked = QUESTIONS[kind](options.data, quick=options.quick)
    scored = [ScoredRun.of(name, run, result) for name, (run, result) in finished.items()]
    if len(asked.study.labels) > 1:
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


def _page(kind: str, tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    scores = tables["-all"]
    asked = QUESTIONS[kind](None, quick=quick)
    if asked.folds:
        percentiles = percentiles_table(tables["-cases"], asked.roles)
        shown = methods_by_statistic(percentiles, asked.roles)
        rule = decision(scores, asked.roles)
        return Page(asked.study.about, percentiles, shown=shown, more={"-rule": rule})

    rows = differences(scores, asked.roles)
    table = results_table(rows[rows["label"] == asked.roles.label], asked.roles)
    curves = partial(
        draw_curves,
        scores,
        asked.roles,
        asked.n_train,
        batch_size=asked.study.network.batch_size,
    )
    text = page_text(
        scores,
        asked,
        regrouped=tables.get("-regrouped-all"),
        is_section=kind in SECTIONS,
    )
    return Page(
        text,
        table,
        shown=methods_by_stratum(table, PLAIN),
        more={"-rule": decision(scores, asked.roles, wrong_labels=asked.wrong_labels)},
        pictures={"": curves},
    )


def _minutes(kind: str, run: Run) -> float:
    asked = QUESTIONS[kind](None, quick=False)
    return MINUTES_AROUND + max(1, asked.folds) * run.iterations * asked.seconds / 60


def _experiment(kind: str) -> Experiment:
    asked = QUESTIONS[kind](None, quick=False)
    _, column = asked.regrouped
    ends = ["-all"]
    if column:
        ends.append("-regrouped-all")
    if asked.folds:
        ends.append("-cases")
    return Experiment(
        name=asked.study.name,
        title=asked.study.title,
        runs=partial(_runs, kind),
        make=partial(_make, kind),
        minutes=partial(_minutes, kind),
        tables=partial(_tables, kind),
        page=partial(_page, kind),
        inputs={end: {} for end in ends},
        methods=tuple(METHODS),
        default_methods=(PLAIN, "DRO", "IW"),
        data=REAL.get(kind, ""),
        cache="convergence",
        folder=kind.removeprefix("-") or "phantoms",
        page_name=SECTIONS.get(kind, ""),
        is_section=kind in SECTIONS,
        formats=dict.fromkeys((*ends, "-rule", "-cases"), "%.4f"),
    )


EXPERIMENTS = {f"convergence{kind}": _experiment(kind) for kind in QUESTIONS}
