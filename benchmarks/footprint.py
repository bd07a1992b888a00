"""Processor time and peak memory of the commands beside those of another build.

Both builds run in turns, each command in a process of its own, so that a slow moment of the machine
affects either. Numbers are user and system time and the largest resident set; ratios are those of a
pair, and their median.

- ``compare`` of two evaluations of many cases, as `scale.py` draws them;
- ``evaluate`` of the same scores after the label maps have been read;
- ``evaluate`` of 61 small volumes, start-up included;
- HD95 and NSD of a case of 512 x 512 x 400 voxels and 20 labels, which a worker scores.

    git worktree add --detach /tmp/before COMMIT
    python benchmarks/footprint.py /tmp/before [--cases N] [--labels N] [--pairs N] [--commands]
        [--out FILE]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import scale
from label_maps import KINDS, Kind, make_label_maps
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parents[1]
SMALL = Kind("small", (48, 44, 40), (1.0, 1.0, 1.0), 2, 61)
LARGE = replace(KINDS[1], n_cases=1)
N_STRATA = (20, 40)

#: `evaluate` after reading, of as many cases and labels, by the build's own `scale.py`.
AFTER_READING = """
import scale
scale.measure_evaluate(scale.Size({n_cases}, {n_labels}, {n_strata}))
"""

#: The evaluations that the build's own `compare` reads: other builds may have other files.
EVALUATIONS = """
from pathlib import Path
import scale
size = scale.Size({n_cases}, {n_labels}, {n_strata})
for seed, name in enumerate(("baseline", "method")):
    scale.write_evaluation(size, seed, Path({folder!r}) / name)
"""

#: Stands for the build in a command: a folder of its own.
BUILD = "BUILD"

#: Scoring a case.
OF_A_CASE = """
from pathlib import Path
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles, score_pair
from nnunet_dro.evaluation.scoring.scoring import Scoring
files = (Path({folder!r}) / which / "case_000.nii.gz" for which in ("reference", "prediction"))
score_pair(PairOfFiles("case_000", *files), None, Scoring(metrics=("hd95", "nsd")))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="The other build: a folder with nnunet_dro.")
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=3, help="How often either build runs.")
    parser.add_argument(
        "--commands",
        action="store_true",
        help="Leave out the case, which builds before 27 November 2026 score by other names.",
    )
    parser.add_argument("--out", type=Path, default=HERE / "benchmarks/results/footprint.json")
    arguments = parser.parse_args()

    builds = {"before": arguments.before.absolute(), "now": HERE}
    with tempfile.TemporaryDirectory() as scratch:
        size = scale.Size(arguments.cases, arguments.labels, N_STRATA)
        commands = many_cases(Path(scratch), size, builds) | small_volumes(Path(scratch))
        if not arguments.commands:
            commands |= large_volume(Path(scratch))
        rows = [
            compared(name, command, builds, arguments.pairs) for name, command in commands.items()
        ]

    show(rows)
    content = {"cases": arguments.cases, "labels": arguments.labels, "rows": rows}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


def many_cases(scratch: Path, size: scale.Size, builds: Mapping[str, Path]) -> dict[str, list[str]]:
    """The commands on made-up scores, by name, once the folders that they read are there."""
    sizes = {"n_cases": size.n_cases, "n_labels": size.n_labels, "n_strata": size.n_strata}
    for which, build in builds.items():
        measured(["-c", EVALUATIONS.format(folder=str(scratch / which), **sizes)], build)

    both = [f"a={scratch / BUILD / 'baseline'}", f"b={scratch / BUILD / 'method'}"]
    out = ["--overwrite", "-o", str(scratch / "out")]
    return {
        "evaluate, after reading": ["-c", AFTER_READING.format(**sizes)],
        "compare": ["-m", "nnunet_dro.cli", "compare", *both, *out],
    }


def small_volumes(scratch: Path) -> dict[str, list[str]]:
    """A command on label maps; as `many_cases`."""
    folder = made(SMALL, scratch)
    maps = [str(folder / which) for which in ("reference", "prediction")]
    command = ["-m", "nnunet_dro.cli", "evaluate", *maps, "--overwrite", "-o", str(scratch / "out")]
    return {"evaluate, 61 small volumes": command}


def large_volume(scratch: Path) -> dict[str, list[str]]:
    """Scoring a case; as `many_cases`."""
    return {"HD95 and NSD of a case": ["-c", OF_A_CASE.format(folder=str(made(LARGE, scratch)))]}


def made(kind: Kind, scratch: Path) -> Path:
    """The folder of new label maps of a kind."""
    # The peak memory of a command is no less than that of this process when it starts it.
    make = partial(make_label_maps, rng=np.random.default_rng(0))
    scale.apart(make, kind, scratch / kind.name)
    return scratch / kind.name


def compared(
    name: str, command: Sequence[str], builds: Mapping[str, Path], n_pairs: int
) -> dict[str, object]:
    """The medians of both builds, and of the ratios of the pairs."""
    pairs = []
    for turn in range(n_pairs):
        numbers = {}
        for which in list(builds)[:: 1 if turn % 2 else -1]:
            own_command = [word.replace(BUILD, which) for word in command]
            numbers[which] = measured(own_command, builds[which])
        pairs.append([numbers["before"], numbers["now"]])

    before_numbers, now_numbers = np.array(pairs).swapaxes(0, 1)
    ratios = np.median(now_numbers / before_numbers, axis=0)
    row: dict[str, object] = {"what": name, "pairs": n_pairs}
    for place, unit in enumerate(("processor_seconds", "peak_gb")):
        row[f"{unit}_before"] = float(np.median(before_numbers[:, place]))
        row[f"{unit}_now"] = float(np.median(now_numbers[:, place]))
        row[f"{unit}_ratio"] = float(ratios[place])
    return row


def measured(command: Sequence[str], build: Path) -> tuple[float, float]:
    """Processor seconds and peak memory (GB) of a command by a build."""
    paths = os.pathsep.join(map(str, (build, build / "benchmarks")))
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": paths}
    # In another folder, since Python looks for modules in the working directory first.
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, *command],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{build} failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9


def show(rows: Sequence[Mapping[str, object]]) -> None:
    """Print the measurements."""
    table = Table(title="Processor seconds and peak memory (GB), and how many times that before")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        texts = [
            f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()
        ]
        table.add_row(*texts)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
