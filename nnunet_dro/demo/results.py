"""The demo's results, from the functions behind the commands evaluate, compare and report."""

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from rich import box
from rich.markup import escape
from rich.table import Table

from nnunet_dro.demo.steps import StepProgress
from nnunet_dro.evaluation import Comparison, compare, evaluate
from nnunet_dro.evaluation.comparing.comparison import NOTABLE
from nnunet_dro.evaluation.report import comparison_reports, evaluation_reports, pictures_of
from nnunet_dro.evaluation.result_files import comparison_files, evaluation_files
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.files.case_table import CASE_TABLE_FILE
from nnunet_dro.files.output_folder import write_files
from nnunet_dro.nnunet.folders import DATASET_JSON
from nnunet_dro.nnunet.raw_dataset import RawDataset


def _metrics(dataset: RawDataset) -> tuple[str, ...]:
    """The metrics to compute; pictures store no voxel size, which distances need."""
    return ("dice",) if dataset.file_ending in (".png", ".bmp") else ("dice", "hd95")


def commands(out: Path, dataset: RawDataset, methods: Collection[str], *, by: str) -> list[tuple[str, ...]]:
    """The commands that do what `compare_methods` does."""
    lines: list[tuple[str, ...]] = []
    for method in methods:
        folder = str(out / "evaluation" / method)
        files = (str(out / "test" / "labels"), str(out / "predictions" / method), "-o", folder)
        table = ("--dataset-json", str(dataset.folder / DATASET_JSON), "--cases", str(dataset.folder / CASE_TABLE_FILE))
        options = ("--by", by, "--metrics", ",".join(_metrics(dataset)), "--method", method)
        lines.append(("nnunet-dro", "evaluate", *files, *table, *options))
        lines.append(("nnunet-dro", "report", folder, "--images", str(out / "test" / "images")))
    folders = (f"{method}={out / 'evaluation' / method}" for method in methods)
    return [*lines, ("nnunet-dro", "compare", *folders, "-o", str(out / "comparison"))]


def compare_methods(
    out: Path, dataset: RawDataset, methods: Collection[str], *, by: str, jobs: int, progress: StepProgress
) -> Comparison:
    """Evaluate the predictions of the methods, the baseline first, compare them, and write the results."""
    evaluations = {}
    for n_done, method in enumerate(methods):
        progress.update(n_done, len(methods) + 1)
        evaluation = evaluate(
            out / "test" / "labels",
            out / "predictions" / method,
            dataset_json=dataset.folder / DATASET_JSON,
            cases=dataset.folder / CASE_TABLE_FILE,
            by=[by],
            overall=True,
            metrics=_metrics(dataset),
            jobs=jobs,
            method=method,
        )
        gallery = pictures_of(evaluation, out / "test" / "images")
        files = {**evaluation_files(evaluation), **evaluation_reports(evaluation, gallery)}
        write_files(out / "evaluation" / method, files)
        evaluations[method] = evaluation
    progress.update(len(methods), len(methods) + 1)
    comparison = compare(evaluations)
    write_files(out / "comparison", {**comparison_files(comparison), **comparison_reports(comparison)})
    return comparison


#: The statistics that the table shows.
SHOWN = ("mean", "median", "iqr", "p25", "p10", "p5")


def render_table(table: pd.DataFrame, n_training: Mapping[str, int]) -> Table:
    """Show the statistics of the Dice of all methods, in per cent, with the number of training cases of each stratum.

    Numbers that are better than those of every other method by at least five points are bold.
    """
    by = table["attribute"].iloc[0]
    rendered = Table(
        title="Dice on held-out cases, per cent", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )
    for heading in ("label", by, "training", "method"):
        rendered.add_column(heading, justify="right" if heading == "training" else "left", overflow="fold")
    shown = [STATISTICS[name] for name in SHOWN]
    for statistic in shown:
        rendered.add_column(statistic.title, justify="right", no_wrap=True)
    for label in table["label"].unique():
        for stratum in table["stratum"].unique():
            rows = table[(table["label"] == label) & (table["stratum"] == stratum)]
            columns = [_cells(rows[one.name], more_is_better=one.more_is_better(METRICS["dice"])) for one in shown]
            names = (label, stratum, str(n_training.get(stratum, 0)))
            for method, *cells in zip(rows["method"], *columns, strict=True):
                # Names come from files; rich would take brackets in them for markup.
                rendered.add_row(*map(escape, (*names, method)), *cells)
                names = ("", "", "")
        rendered.add_section()
    return rendered


def _cells(column: "pd.Series[float]", *, more_is_better: bool) -> list[str]:
    """The numbers of the methods, that one bold which is better than each other one by what is notable."""
    values = column.to_numpy(dtype=np.float64) * (1 if more_is_better else -1)
    cells = []
    for place, value in enumerate(values):
        text = "-" if np.isnan(value) else f"{100 * abs(value):.1f}"
        others = np.delete(values, place)
        cells.append(f"[bold]{text}[/]" if len(others) and (value - others >= NOTABLE).all() else text)
    return cells
