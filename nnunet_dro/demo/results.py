"""The demo's results, from the functions behind the commands evaluate, compare and report."""

import math
from collections.abc import Collection, Mapping
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.demo.steps import StepProgress
from nnunet_dro.evaluation import Comparison, compare, evaluate
from nnunet_dro.evaluation.comparing.comparison import NOTABLE
from nnunet_dro.evaluation.report import comparison_reports, evaluation_reports, pictures_of
from nnunet_dro.evaluation.result_files import comparison_files, evaluation_files
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.files.case_table import CASE_TABLE_FILE
from nnunet_dro.files.output_folder import write_files
from nnunet_dro.naming import NO_VALUE
from nnunet_dro.pages.document import Cell, Column, Table
from nnunet_dro.pages.terminal import printed

BY, METRIC = "centre", "dice"  # What both methods are compared by: pictures store no voxel size, which distances need.


def commands(out: Path, dataset: Path, methods: Collection[str]) -> list[tuple[str, ...]]:
    """The commands that do what `compare_methods` does."""
    lines: list[tuple[str, ...]] = []
    for method in methods:
        folder = str(out / "evaluation" / method)
        files = (str(dataset / "labelsTs"), str(out / "predictions" / method), "-o", folder)
        options = ("--by", BY, "--metrics", METRIC, "--method", method)
        lines.append(("nnunet-dro", "evaluate", *files, *options))
        lines.append(("nnunet-dro", "report", folder, "--images", str(dataset / "imagesTs")))
    folders = (f"{method}={out / 'evaluation' / method}" for method in methods)
    return [*lines, ("nnunet-dro", "compare", *folders, "-o", str(out / "comparison"))]


def compare_methods(
    out: Path, dataset: Path, methods: Collection[str], *, jobs: int, progress: StepProgress
) -> Comparison:
    """Evaluate the predictions of the methods, the baseline first, compare them, and write the results."""
    evaluations = {}
    for n_done, method in enumerate(methods):
        progress.update(n_done, len(methods) + 1)
        evaluation = evaluate(
            dataset / "labelsTs",
            out / "predictions" / method,
            cases=dataset / CASE_TABLE_FILE,
            by=[BY],
            metrics=[METRIC],
            jobs=jobs,
            method=method,
        )
        gallery = pictures_of(evaluation, dataset / "imagesTs")
        files = {**evaluation_files(evaluation), **evaluation_reports(evaluation, gallery)}
        write_files(out / "evaluation" / method, files)
        evaluations[method] = evaluation
    progress.update(len(methods), len(methods) + 1)
    comparison = compare(evaluations)
    write_files(out / "comparison", {**comparison_files(comparison), **comparison_reports(comparison)})
    return comparison


SHOWN = ("mean", "median", "iqr", "p25", "p10", "p5")  # The statistics that the table shows.


def render_table(table: pd.DataFrame, n_training: Mapping[str, int]) -> RenderableType:
    """Show the statistics of the Dice in per cent, bold where at least five points better than all others."""
    columns: list[Any] = [
        (Column("label", "name"), itemgetter("label")),
        (Column(table["attribute"].iloc[0], "name"), itemgetter("stratum")),
        (Column("training"), lambda row: str(n_training.get(row["stratum"], 0))),
        (Column("method", "text"), itemgetter("method")),
    ]
    columns += [(Column(STATISTICS[name].title), partial(_cell, name)) for name in SHOWN]
    of_stratum = table.groupby(["label", "stratum"], sort=False, observed=True)
    records = [row | {"methods": rows} for _, rows in of_stratum for row in rows.to_dict("records")]
    return printed([Table.of("Dice on held-out cases, per cent", columns, records)])


def _cell(name: str, row: Mapping[str, Any]) -> Cell:
    """A number of a method, which is the best if it is better than each other one by what is notable."""
    if math.isnan(row[name]):
        return Cell(NO_VALUE)
    others = row["methods"].set_index("method")[name].drop(row["method"])
    sign = 1 if STATISTICS[name].more_is_better(METRICS["dice"]) else -1
    is_best = len(others) > 0 and (sign * (row[name] - others) >= NOTABLE).all()
    return Cell(f"{100 * row[name]:.1f}", kind="best" if is_best else "")
