"""The cost of scoring beside nnU-Net, panoptica and surface-distance on synthetic label maps.

Three claims, each measured in turns in one run, so that a slow moment of the machine affects every
side:

- Dice of a case, in process, reading included: ours over nnU-Net's `compute_metrics`.
- Dice, HD95 and NSD of a case, in process, reading included: ours over panoptica's and
surface-distance's. - A folder, as a command, start-up included: `nnunet-dro evaluate` over
`nnUNetv2_evaluate_simple`, with as many
  workers. Peak memory is that of all processes of the command together (proportional set size,
  sampled).

    pip install -e ".[peers]"  # best in an environment of its own: make benchmarks-peers
    python benchmarks/evaluation.py [--out FILE] [--data FOLDER]
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import psutil
from label_maps import KINDS, Kind, make_label_maps
from rich.console import Console
from rich.table import Table

from nnunet_dro.evaluation.scoring.label_maps import Labels
from nnunet_dro.evaluation.scoring.score_files import PairOfFiles, score_pair
from nnunet_dro.evaluation.scoring.scoring import Scoring

WORKERS = 2
TOLERANCE_MM = 1.0
#: Rounds over the cases of a kind; the slow peers of the large kind take part in one.
ROUNDS = {"tumour": 2, "organs": 2}
COMMAND_ROUNDS = {"tumour": 3, "organs": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("benchmarks/results/evaluation.json"),
        help="File to write.",
    )
    parser.add_argument(
        "--data", type=Path, help="Folder to keep the label maps in; default: a temporary one."
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        data = arguments.data or Path(scratch)
        rows = [row for kind in KINDS for row in measure(kind, data / kind.name, Path(scratch))]
    columns = (
        "kind",
        "what",
        "beside",
        "ours_s",
        "theirs_s",
        "times_faster",
        "lowest",
        "highest",
        "memory_ratio",
    )
    table = Table(
        title="Scoring, reading included: median seconds per case (per folder, for commands)"
    )
    for column in columns:
        side = "left" if column in columns[:3] else "right"
        table.add_column(column.replace("_", " "), justify=side)
    for row in rows:
        cells = (row.get(column) for column in columns)
        table.add_row(
            *("" if c is None else f"{c:.3g}" if isinstance(c, float) else str(c) for c in cells)
        )
    Console(width=140).print(table)
    packages = ("numpy", "scipy", "nnunetv2", "panoptica", "surface-distance", "deflate")
    machine = {
        "python": platform.python_version(),
        "processor": platform.machine(),
        "workers": WORKERS,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "versions": {p: version(p) for p in packages}, "rows": rows}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


def measure(kind: Kind, folder: Path, scratch: Path) -> list[dict[str, object]]:
    if not folder.is_dir():
        make_label_maps(kind, folder, rng=np.random.default_rng(0))
    reference = folder / "reference"
    prediction = folder / "prediction"
    cases = sorted(path.name for path in reference.iterdir())
    pairs = [(reference / name, prediction / name) for name in cases]
    labels = Labels({str(value): (value,) for value in range(1, kind.n_labels + 1)})
    dice = Scoring(("dice",))
    surfaces = Scoring(("dice", "hd95", "nsd"), nsd_tolerance_mm=TOLERANCE_MM)

    def ours(scoring: Scoring) -> Callable[[Path, Path], dict[str, list[float]]]:
        def score(a: Path, b: Path) -> dict[str, list[float]]:
            rows = score_pair(PairOfFiles(a.name, a, b), labels, scoring).rows
            return {metric: [row[metric] for row in rows] for metric in scoring.metrics}

        return score

    rows = [
        in_turns(kind, "Dice", "nnU-Net", pairs, ours(dice), nnunet_scorer(kind), tolerance=1e-12),
        in_turns(
            kind,
            "Dice + HD95 + NSD",
            "panoptica",
            pairs,
            ours(surfaces),
            panoptica_scorer(),
            tolerance=None,
        ),
        in_turns(
            kind,
            "Dice + HD95 + NSD",
            "surface-distance",
            pairs,
            ours(surfaces),
            surface_scorer(kind),
            tolerance=None,
        ),
    ]
    return [*rows, command_row(kind, reference, prediction, scratch)]


def in_turns(kind, what, beside, pairs, ours, theirs, *, tolerance) -> dict[str, object]:
    """Time both sides on every case; the first case warms both up and does not count."""
    assert_equal(ours(*pairs[0]), theirs(*pairs[0]), tolerance)
    times = np.array(
        [
            [timed(side, *pair) for side in ((ours, theirs) if turn % 2 else (theirs, ours))][
                :: 1 if turn % 2 else -1
            ]
            for turn in range(ROUNDS[kind.name])
            for pair in pairs
        ]
    )
    return row_of(kind, what, beside, times[:, 0], times[:, 1])


def row_of(kind, what, beside, ours, theirs) -> dict[str, object]:
    ratios = theirs / ours
    return {
        "kind": kind.name,
        "what": what,
        "beside": beside,
        "ours_s": float(np.median(ours)),
        "theirs_s": float(np.median(theirs)),
        "times_faster": float(np.median(ratios)),
        "lowest": float(ratios.min()),
        "highest": float(ratios.max()),
    }


def timed(function: Callable, *arguments) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def assert_equal(ours, theirs, tolerance) -> None:
    """Check that both sides do the same work.

    They give the same Dice (nnU-Net to the last digit).
    """
    if not np.allclose(ours["dice"], theirs["dice"], rtol=0, atol=tolerance or 1e-6):
        raise SystemExit(f"The two sides differ: {ours['dice']} and {theirs['dice']}.")


def nnunet_scorer(kind: Kind) -> Callable:
    from nnunetv2.evaluation.evaluate_predictions import compute_metrics
    from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

    values = list(range(1, kind.n_labels + 1))

    def score(reference: Path, prediction: Path) -> dict[str, list[float]]:
        metrics = compute_metrics(str(reference), str(prediction), SimpleITKIO(), values)["metrics"]
        return {"dice": [metrics[value]["Dice"] for value in values]}

    return score


def panoptica_scorer() -> Callable:
    import SimpleITK
    from panoptica import InputType, Metric, Panoptica_Evaluator

    wanted = [Metric.DSC, Metric.HD95, Metric.NSD]
    evaluator = Panoptica_Evaluator(
        InputType.MATCHED_INSTANCE, instance_metrics=wanted, global_metrics=[]
    )

    def score(reference: Path, prediction: Path) -> dict[str, list[float]]:
        images = [SimpleITK.ReadImage(str(path)) for path in (prediction, reference)]
        arrays = [SimpleITK.GetArrayFromImage(image) for image in images]
        spacing = images[1].GetSpacing()[::-1]
        result = evaluator.evaluate(*arrays, verbose=False, voxelspacing=spacing)["ungrouped"]
        return (
            {"dice": [float(d) for d in result.get_list_metric(Metric.DSC, mode="ALL")]}
            if result
            else {}
        )

    return score


def surface_scorer(kind: Kind) -> Callable:
    import SimpleITK
    import surface_distance as peer

    # The package uses names that numpy 2 no longer has.
    vars(np).update(Inf=np.inf, NaN=np.nan)

    def score(reference: Path, prediction: Path) -> dict[str, list[float]]:
        images = [SimpleITK.ReadImage(str(path)) for path in (reference, prediction)]
        a, b = (SimpleITK.GetArrayFromImage(image) for image in images)
        spacing = images[0].GetSpacing()[::-1]
        dice = []
        for value in range(1, kind.n_labels + 1):
            in_a = a == value
            in_b = b == value
            distances = peer.compute_surface_distances(in_a, in_b, spacing)
            peer.compute_robust_hausdorff(distances, 95)
            peer.compute_surface_dice_at_tolerance(distances, TOLERANCE_MM)
            dice.append(float(peer.compute_dice_coefficient(in_a, in_b)))
        return {"dice": dice}

    return score


def command_row(kind: Kind, reference: Path, prediction: Path, scratch: Path) -> dict[str, object]:
    bin_folder = Path(sys.executable).parent
    out = scratch / "out"
    values = [str(value) for value in range(1, kind.n_labels + 1)]
    ours = [
        bin_folder / "nnunet-dro",
        "evaluate",
        reference,
        prediction,
        "-o",
        out,
        "--jobs",
        str(WORKERS),
    ]
    theirs = [bin_folder / "nnUNetv2_evaluate_simple", reference, prediction, "-l", *values]
    theirs += ["-np", str(WORKERS), "-o", scratch / "summary.json"]
    measured: dict[str, list[tuple[float, float]]] = {"ours": [], "theirs": []}
    for turn in range(COMMAND_ROUNDS[kind.name]):
        sides = [("ours", ours), ("theirs", theirs)]
        for side, command in sides[:: 1 if turn % 2 else -1]:
            shutil.rmtree(out, ignore_errors=True)
            measured[side].append(run_command([str(word) for word in command]))
    (our_times, our_memory), (their_times, their_memory) = (
        np.array(measured[s]).T for s in ("ours", "theirs")
    )
    row = row_of(kind, "folder, as a command", "nnU-Net", our_times, their_times)
    return row | {
        "memory_ratio": float(our_memory.max() / their_memory.max()),
        "ours_peak_mb": float(our_memory.max() / 1e6),
        "theirs_peak_mb": float(their_memory.max() / 1e6),
    }


def run_command(command: list[str]) -> tuple[float, float]:
    """The seconds that a command takes, and the peak memory of all its processes in bytes."""
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        peak = 0
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, memory_of(watched))
            time.sleep(0.02)
        seconds = time.perf_counter() - start
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed: {process.stderr.read()}")
    return seconds, peak


def memory_of(process: psutil.Process) -> int:
    """The proportional set size, in which memory that processes share counts once."""
    total = 0
    try:
        for each in (process, *process.children(recursive=True)):
            total += each.memory_full_info().pss
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        pass
    return total


if __name__ == "__main__":
    main()
