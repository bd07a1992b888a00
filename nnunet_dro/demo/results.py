"""The demo's results, from the functions behind the commands evaluate, compare and report."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.demo.steps import StepProgress
from nnunet_dro.evaluation import Comparison, compare, evaluate
from nnunet_dro.evaluation.evaluating.result_files import comparison_files, evaluation_files
from nnunet_dro.evaluation.report import comparison_reports, evaluation_reports, pictures_of
from nnunet_dro.evaluation.report.strata_tables import strata_tables
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
    results = []
    for method in methods:
        folder = str(out / "evaluation" / method)
        results.append(f"{method}={folder}")
        evaluation = (
            "nnunet-dro",
            "evaluate",
            str(dataset / "labelsTs"),
            str(out / "predictions" / method),
            "-o",
            folder,
            "--by",
            BY,
            "--metrics",
            METRIC,
            "--method",
            method,
        )
        report = ("nnunet-dro", "report", folder, "--images", str(dataset / "imagesTs"))
        lines += [evaluation, report]
    return [*lines, ("nnunet-dro", "compare", *results, "-o", str(out / "comparison"))]


def compare_methods(
    out: Path, dataset: Path, methods: Collection[str], *, jobs: int, progress: StepProgress
) -> Comparison:
    """Evaluate the predictions of the methods and compare them, and write the results.

    The first method is the baseline.
    """
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
    files = {**comparison_files(comparison), **comparison_reports(comparison)}
    write_files(out / "comparison", files)
    return comparison


def results_table(strata: pd.DataFrame, n_training: Mapping[str, int]) -> RenderableType:
    """The strata of both methods side by side, for rich's console.

    A sentence below says how many training cases each stratum has.
    """
    tables = strata_tables(strata, names=("stratum", "label", "method"))
    names = strata["stratum"].unique()
    numbers = [f"{n_training.get(str(name), 0)} of {name}" for name in names]
    training = Prose(f"Cases to train on: {', '.join(numbers)}.", kind="first")
    return printed([*(table for _, table in tables), training])
