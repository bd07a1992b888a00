"""The demo's results, from the functions behind the commands evaluate, compare and report."""

from collections.abc import Collection, Sequence
from pathlib import Path

from nnunet_dro.demo.progress import StepProgress
from nnunet_dro.evaluation import Comparison, compare, evaluate
from nnunet_dro.evaluation.report import comparison_reports, evaluation_reports, pictures_of
from nnunet_dro.evaluation.result_files import comparison_files, evaluation_files
from nnunet_dro.files.output_folder import write_files


def metrics_for(ending: str) -> tuple[str, ...]:
    """The metrics for label maps with this file ending; pictures store no voxel size, which distances need."""
    return ("dice",) if ending in (".png", ".bmp") else ("dice", "hd95")


def commands(
    out: Path, dataset: Path, methods: Collection[str], *, by: str, metrics: Sequence[str]
) -> list[tuple[str, ...]]:
    """The commands that do what `compare_methods` does."""
    lines: list[tuple[str, ...]] = []
    for method in methods:
        folder = str(out / "evaluation" / method)
        files = (str(out / "test" / "labels"), str(out / "predictions" / method), "-o", folder)
        table = ("--dataset-json", str(dataset / "dataset.json"), "--cases", str(dataset / "cases.csv"), "--by", by)
        options = ("--metrics", ",".join(metrics), "--method", method)
        lines.append(("nnunet-dro", "evaluate", *files, *table, *options))
        lines.append(("nnunet-dro", "report", folder, "--images", str(out / "test" / "images")))
    folders = (f"{method}={out / 'evaluation' / method}" for method in methods)
    return [*lines, ("nnunet-dro", "compare", *folders, "-o", str(out / "comparison"))]


def compare_methods(
    out: Path,
    dataset: Path,
    methods: Collection[str],
    *,
    by: str,
    metrics: Sequence[str],
    jobs: int,
    progress: StepProgress,
) -> Comparison:
    """Evaluate the predictions of the methods, the baseline first, compare them, and write the results."""
    evaluations = {}
    for n_done, method in enumerate(methods):
        progress.update(n_done, len(methods) + 1)
        evaluation = evaluate(
            out / "test" / "labels",
            out / "predictions" / method,
            dataset_json=dataset / "dataset.json",
            cases=dataset / "cases.csv",
            by=[by],
            overall=True,
            metrics=metrics,
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
