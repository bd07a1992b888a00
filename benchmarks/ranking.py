"""The cost of `nnunet-dro rank`, start-up, reading and writing included, without scoring.

The setting: 20 teams, 200 cases of 5 centres, 5 labels and 3 metrics; 1,000 bootstrap samples
ranked by every scheme, tests of all pairs, the ranks of each centre, by the worst one and without
each. Beside it without samples, with 5 teams, and with 1,000 cases of one metric. The scores are
random. The time on the clock depends on what else the machine does, that of the processor hardly.

    python benchmarks/ranking.py [--quick] [--out FILE]
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import scipy
from rich.console import Console
from rich.table import Table

from nnunet_dro.evaluation.evaluating.result_files import evaluation_files
from nnunet_dro.evaluation.statistics.evaluation_result import STATISTICS_DEFINED, Evaluation
from nnunet_dro.evaluation.statistics.stratum_statistics import false_positives, summarise
from nnunet_dro.evaluation.statistics.worst_strata import worst_strata
from nnunet_dro.files.output_folder import write_files

CENTRES = 5


@dataclass(frozen=True)
class Setting:
    """What is ranked."""

    teams: int
    cases: int
    labels: int
    metrics: tuple[str, ...]
    samples: int


SETTINGS = (
    Setting(20, 200, 5, ("dice", "nsd", "hd95"), 1000),
    Setting(20, 200, 5, ("dice", "nsd", "hd95"), 0),
    Setting(5, 200, 5, ("dice", "nsd", "hd95"), 1000),
    Setting(20, 1000, 5, ("dice",), 1000),
)
QUICK = (Setting(4, 20, 2, ("dice", "hd95"), 50),)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="One small setting.")
    parser.add_argument(
        "--out",
        type=Path,
        help="File to write; else it is in results/ or, with --quick, temporary.",
    )
    arguments = parser.parse_args()
    rows = [
        asdict(setting) | measure(setting) for setting in (QUICK if arguments.quick else SETTINGS)
    ]
    table = Table(title="nnunet-dro rank, without scoring")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(_text(cell) for cell in row.values()))
    Console(width=120).print(table)
    machine = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "processor": platform.machine(),
        "cores": os.cpu_count(),
    }
    out = (
        arguments.out
        or Path(tempfile.gettempdir() if arguments.quick else "benchmarks/results") / "ranking.json"
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n", encoding="utf-8"
    )


def _text(cell: object) -> str:
    if isinstance(cell, tuple):
        return ", ".join(cell)
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def measure(setting: Setting) -> dict[str, float]:
    """Seconds of the command, on the clock and of the processors, and MiB of the page."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        rng = np.random.default_rng(0)
        teams = [f"team_{n:02}" for n in range(setting.teams)]
        for place, team in enumerate(teams):
            write_files(
                root / team,
                evaluation_files(made_evaluation(team, 0.85 - 0.003 * place, setting, rng)),
            )
        command = [
            sys.executable,
            "-m",
            "nnunet_dro.cli",
            "rank",
            *(f"{team}={root / team}" for team in teams),
        ]
        command += ["-o", str(root / "out"), "--by", "centre", "--bootstrap", str(setting.samples)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        size = (root / "out" / "report.html").stat().st_size / 2**20
    return {"seconds": seconds, "processor_seconds": processor, "page_MiB": size}


def made_evaluation(
    team: str, quality: float, setting: Setting, rng: np.random.Generator
) -> Evaluation:
    """Random scores of a team; Dice and NSD around ``quality``."""
    cases = [f"case_{n:04}" for n in range(setting.cases)]
    labels = [f"label {n}" for n in range(setting.labels)]
    keys = pd.MultiIndex.from_product([cases, labels], names=["case", "label"])
    fractions = np.clip(quality + rng.normal(0, 0.08, (len(setting.metrics), len(keys))), 0, 1)
    columns = {
        metric: 40 * (1 - values) if metric == "hd95" else values
        for metric, values in zip(setting.metrics, fractions, strict=True)
    }
    counts = {
        "n_reference": 100,
        "n_prediction": 90,
        "n_intersection": 80,
        "reference_ml": 0.1,
        "prediction_ml": 0.1,
    }
    scores = pd.DataFrame(columns | counts, index=keys).reset_index()
    scores["centre"] = [f"centre {n // setting.labels % CENTRES}" for n in range(len(keys))]
    strata = summarise(scores, metrics=setting.metrics, n_resamples=0)
    return Evaluation(
        method=team,
        scores=scores,
        strata=strata,
        stratum_of_case={},
        worst=worst_strata(strata),
        false_positives=false_positives(scores),
        about={
            "versions": {},
            "options": {
                "empty": "undefined",
                "missing": "error",
                "nsd_tolerance_mm": 1.0,
                "n_resamples": 0,
            },
            "definitions": STATISTICS_DEFINED,
            "inputs": {},
            "requirements": [],
        },
    )


if __name__ == "__main__":
    main()
