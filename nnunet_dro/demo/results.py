"""The demo's results, from the functions behind the commands evaluate, compare and report."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.demo.steps import StepProgress
from nnunet_dro.evaluation import Comparison, compare, evaluate
from nnunet_dro.evaluation.report import comparison_reports, evaluation_reports, pictures_of
from nnunet_dro.evaluation.report.strata_tables import strata_tables
from nnunet_dro.evaluation.result_files import comparison_files, evaluation_files
from nnunet_dro.files.case_table import CASE_TABLE_FILE
from nnunet_dro.files.output_folder import write_files
from nnunet_dro.pages.document import Prose
from nnunet_dro.pages.terminal import printed

# What both methods are compared by: pictures store no voxel size, which distances need.
BY = "centre"
METRIC = "dice"


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
    write_files(
        out / "comparison", {**comparison_files(comparison), **comparison_reports(comparison)}
    )
    return comparison


def results_table(strata: pd.DataFrame, n_training: Mapping[str, int]) -> RenderableType:
    """The strata of both methods side by side, and how many training cases each stratum has, for rich's console."""
    tables = [table for _, table in strata_tables(strata, names=("stratum", "label", "method"))]
    training = ", ".join(
        f"{n_training.get(str(name), 0)} of {name}" for name in strata["stratum"].unique()
    )
    return printed([*tables, Prose(f"Cases to train on: {training}.", kind="first")])
