"""Time and memory of statistics and reports where there are many cases, labels and strata.

The scores are drawn, and no image file is read: 20,000 cases, 100 labels, Dice and HD95, and 60
strata in two attributes, beside all cases together. The sizes of the strata range over a factor of
20, and every label is absent from some cases and missed in others, so that hardly two samples are
of one size. The steps are those of `nnunet-dro evaluate` after the label maps have been read, and
those of `nnunet-dro compare` with two such evaluations: each command's one after the other, in a
process of its own.

    python benchmarks/scale.py [--quick] [--out FILE]
"""

import argparse
import io
import json
import multiprocessing
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from nnunet_dro.evaluation.comparing.comparison import compare
from nnunet_dro.evaluation.evaluating.read_results import read_evaluation
from nnunet_dro.evaluation.evaluating.result_files import comparison_files, evaluation_files
from nnunet_dro.evaluation.report import (
    comparison_html,
    comparison_latex,
    comparison_markdown,
    comparison_table,
    evaluation_html,
    evaluation_latex,
    evaluation_markdown,
    evaluation_table,
)
from nnunet_dro.evaluation.statistics import evaluation_result
from nnunet_dro.evaluation.statistics.evaluation_result import Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.files.output_folder import write_files

METRICS = ("dice", "hd95")


@dataclass(frozen=True)
class Size:
    """How much there is to describe; strata per attribute."""

    n_cases: int
    n_labels: int
    n_strata: tuple[int, ...]


FULL = Size(20_000, 100, (20, 40))
QUICK = Size(200, 3, (2, 3))


@dataclass
class Clock:
    """The steps so far: seconds, most memory up to the end, and size of the result."""

    rows: list[dict[str, Any]] = field(default_factory=list)

    def time(self, step: str, function: Callable[[], Any]) -> Any:
        """Run a step."""
        seconds = time.perf_counter()
        processor_seconds = time.process_time()
        result = function()
        row = {"step": step, "seconds": time.perf_counter() - seconds}
        row |= {"processor_seconds": time.process_time() - processor_seconds}
        row |= {"peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9}
        self.rows.append(
            row | {"mb": len(result.encode()) / 1e6 if isinstance(result, str) else None}
        )
        return result

    def with_sum(self) -> list[dict[str, Any]]:
        """The rows, and one of their sums."""
        sums = {
            name: sum(row[name] for row in self.rows) for name in ("seconds", "processor_seconds")
        }
        return [
            *self.rows,
            {"step": "together", **sums, "peak_gb": self.rows[-1]["peak_gb"], "mb": None},
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="A small size, to see that the script runs."
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="File to write; else it is in results/ or, with --quick, temporary.",
    )
    arguments = parser.parse_args()
    size = QUICK if arguments.quick else FULL
    rows = {}
    for command, measure in (("evaluate", measure_evaluate), ("compare", measure_compare)):
        rows[command] = apart(measure, size)
        show(command, size, rows[command])
    machine = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pandas": pd.__version__,
    }
    machine |= {"processor": platform.machine()}
    out = (
        arguments.out
        or Path(tempfile.gettempdir() if arguments.quick else "benchmarks/results") / "scale.json"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "size": asdict(size), "rows": rows}
    out.write_text(json.dumps(content, indent=1) + "\n")


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives in a new process, whose peak memory is its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def show(command: str, size: Size, rows: list[dict[str, Any]]) -> None:
    strata = f"{sum(size.n_strata)} strata, {len(METRICS)} metrics"
    table = Table(title=f"{command}: {size.n_cases:,} cases, {size.n_labels} labels, {strata}")
    for column in ("step", "seconds", "of the processor", "peak memory (GB)", "size (MB)"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for row in rows:
        written = "" if row["mb"] is None else f"{row['mb']:.1f}"
        numbers = (
            f"{row['seconds']:.1f}",
            f"{row['processor_seconds']:.1f}",
            f"{row['peak_gb']:.2f}",
        )
        table.add_row(row["step"], *numbers, written)
    Console().print(table)


def measure_evaluate(size: Size) -> list[dict[str, Any]]:
    """A row per step of `nnunet-dro evaluate` after the label maps are read, and their sum."""
    scores, strata = drawn_scores(size, rng=np.random.default_rng(0))
    clock = Clock()
    statistics = clock.time("statistics", lambda: summarise(scores, strata, metrics=METRICS))
    evaluation = clock.time("worst strata", lambda: described(scores, strata, statistics))
    tables: dict[str, str] = clock.time(
        "scores.csv, strata.csv, summary.json", lambda: evaluation_files(evaluation)
    )
    reports = {
        "report.html": evaluation_html,
        "report.md": evaluation_markdown,
        "report.tex": evaluation_latex,
    }
    made = {
        name: clock.time(name, lambda make=make: make(evaluation)) for name, make in reports.items()
    }
    with tempfile.TemporaryDirectory() as scratch:
        clock.time("writing", lambda: write_files(Path(scratch) / "out", tables | made))
    clock.time("terminal", lambda: printed(evaluation_table(evaluation)))
    return clock.with_sum()


def measure_compare(size: Size) -> list[dict[str, Any]]:
    """A row per step of `nnunet-dro compare` of two evaluations, and their sum."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as scratch:
        folders = {name: Path(scratch) / name for name in ("baseline", "method")}
        for seed, folder in enumerate(folders.values()):
            apart(write_evaluation, size, seed, folder)
        read = clock.time(
            "reading", lambda: {name: read_evaluation(folder) for name, folder in folders.items()}
        )
        comparison = clock.time("differences", lambda: compare(read))
        tables: dict[str, str] = clock.time("tables", lambda: comparison_files(comparison))
        reports = {
            "report.html": comparison_html,
            "report.md": comparison_markdown,
            "report.tex": comparison_latex,
        }
        made = {
            name: clock.time(name, lambda make=make: make(comparison))
            for name, make in reports.items()
        }
        clock.time("writing", lambda: write_files(Path(scratch) / "out", tables | made))
    clock.time("terminal", lambda: printed(comparison_table(comparison)))
    return clock.with_sum()


def write_evaluation(size: Size, seed: int, folder: Path) -> None:
    """The tables of an evaluation whose cases, labels and strata do not depend on the seed."""
    scores, strata = drawn_scores(size, rng=np.random.default_rng(0))
    rng = np.random.default_rng(seed)
    for metric in METRICS:
        changed = scores[metric] * rng.uniform(0.9, 1, len(scores))
        scores[metric] = changed if seed else scores[metric]
    write_files(
        folder,
        evaluation_files(described(scores, strata, summarise(scores, strata, metrics=METRICS))),
    )


def drawn_scores(
    size: Size, *, rng: np.random.Generator
) -> "tuple[pd.DataFrame, dict[str, pd.Series[str]]]":
    """Scores as an evaluation has them, and the strata of the cases."""
    cases = [f"case_{n:05}" for n in range(size.n_cases)]
    labels = [f"label_{n}" for n in range(size.n_labels)]
    scores = pd.MultiIndex.from_product([cases, labels], names=["case", "label"]).to_frame(
        index=False
    )
    n = len(scores)
    absent = rng.random(n) < 0.05
    missed = rng.random(n) < 0.01
    reference = np.where(absent, 0, rng.integers(100, 100_000, n))
    prediction = np.where(absent | missed, 0, rng.integers(100, 100_000, n))
    scores["dice"] = np.where(absent, np.nan, np.where(missed, 0, rng.beta(8, 2, n)))
    scores["hd95"] = np.where(absent | missed, np.nan, rng.gamma(2, 2, n))
    scores["n_reference"] = reference
    scores["n_prediction"] = prediction
    scores["n_intersection"] = np.minimum(reference, prediction)
    scores["reference_ml"] = reference * 1e-3
    scores["prediction_ml"] = prediction * 1e-3
    strata = {ALL: pd.Series(pd.Categorical([ALL] * len(cases), ordered=True), index=cases)}
    for place, n_strata in enumerate(size.n_strata):
        shares = np.geomspace(1, 20, n_strata)
        codes = rng.choice(n_strata, size.n_cases, p=shares / shares.sum())
        names = [f"stratum_{k}" for k in range(n_strata)]
        stratum_of_case = pd.Series(
            pd.Categorical.from_codes(codes, names, ordered=True), index=cases
        )
        strata[f"attribute_{place}"] = stratum_of_case
        scores[f"attribute_{place}"] = np.repeat(
            stratum_of_case.astype(object).to_numpy(), size.n_labels
        )
    return scores, strata


def described(
    scores: pd.DataFrame, strata: "dict[str, pd.Series[str]]", statistics: pd.DataFrame
) -> Evaluation:
    files = {
        case: [f"/data/{which}/{case}.nii.gz" for which in ("reference", "prediction")]
        for case in strata[ALL].index
    }
    digests = {case: ["0" * 64, "1" * 64] for case in files}
    about = {
        "versions": {},
        "options": {},
        # Else it is taken for that of an earlier version, and described anew. Earlier versions,
        # which `footprint.py` measures, have no such name.
        "definitions": dict(getattr(evaluation_result, "STATISTICS_DEFINED", {})),
        "inputs": {"files": files, "files_sha256": digests},
    }
    about |= {"requirements": []}
    return Evaluation(
        "drawn",
        scores,
        statistics,
        strata,
        worst_strata(statistics),
        false_positives(scores),
        about,
    )


def printed(table: Table) -> str:
    """What the terminal shows."""
    screen = io.StringIO()
    Console(file=screen, width=120).print(table)
    return screen.getvalue()


if __name__ == "__main__":
    main()
