"""The cost of scoring beside nnU-Net, MONAI and other packages on synthetic label maps.

Three claims, each measured in turns in one run, so that a slow moment of the machine affects every
side:

- Dice of a case, in process, reading included: ours over nnU-Net's `compute_metrics`.
- Dice, HD95 and NSD of a case, in process, reading included: ours over those of MONAI, panoptica
  and surface-distance. MONAI has the same definitions, so that all three must be equal.
- A folder, as a command, start-up included: `nnunet-dro evaluate` over `nnUNetv2_evaluate_simple`,
  with as many workers. Peak memory is that of all processes of the command together (proportional
  set size, sampled).

    pip install -e ".[peers]"  # best in an environment of its own: make benchmarks-peers
    python benchmarks/evaluation.py [--beside PACKAGE] [--cases 12 3] [--out FILE] [--data FOLDER]
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
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
#: Those that are measured, by their names in the table.
PEERS = ("nnU-Net", "MONAI", "panoptica", "surface-distance")
PACKAGES = (
    "numpy",
    "scipy",
    "nnunetv2",
    "monai",
    "torch",
    "panoptica",
    "surface-distance",
    "deflate",
)
#: How far the numbers of MONAI, which are of single precision, may be from ours, relatively.
SINGLE_PRECISION = 1e-5


#: Columns of the table.
COLUMNS = (
    "kind",
    "what",
    "beside",
    "n_cases",
    "ours_s",
    "theirs_s",
    "times_faster",
    "lowest",
    "highest",
    "memory_ratio",
)


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
    parser.add_argument(
        "--beside", choices=PEERS, help="The only package to measure; default: all."
    )
    parser.add_argument(
        "--cases",
        type=int,
        nargs=len(KINDS),
        default=[kind.n_cases for kind in KINDS],
        help="Cases of each kind.",
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    peers = [arguments.beside] if arguments.beside else PEERS
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        data = arguments.data or Path(scratch)
        for kind, n_cases in zip(KINDS, arguments.cases, strict=True):
            some = replace(kind, n_cases=n_cases)
            rows += measure(some, data / kind.name, Path(scratch), peers)
    print_rows(rows)
    machine = {
        "python": platform.python_version(),
        "processor": platform.machine(),
        "workers": WORKERS,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine, "versions": versions(), "rows": rows}
    arguments.out.write_text(json.dumps(content, indent=1) + "\n")


def print_rows(rows: Sequence[Mapping[str, object]]) -> None:
    """Print the measurements as a table."""
    table = Table(
        title="Scoring, reading included: median seconds per case (per folder, for commands)"
    )
    for column in COLUMNS:
        side = "left" if column in COLUMNS[:3] else "right"
        table.add_column(column.replace("_", " "), justify=side)
    for row in rows:
        table.add_row(*(shown(row.get(column)) for column in COLUMNS))
    Console(width=140).print(table)


def shown(value: object) -> str:
    """An entry of the table: three digits of a number, and nothing for None."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def versions() -> dict[str, str]:
    """The versions of the packages that are installed."""
    installed = {}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            continue
    return installed


def measure(
    kind: Kind, folder: Path, scratch: Path, peers: Sequence[str]
) -> list[dict[str, object]]:
    if not folder.is_dir():
        make_label_maps(kind, folder, rng=np.random.default_rng(0))
    reference = folder / "reference"
    prediction = folder / "prediction"
    pairs = [(path, prediction / path.name) for path in sorted(reference.iterdir())]
    labels = Labels({str(value): (value,) for value in range(1, kind.n_labels + 1)})
    dice = Scoring(("dice",))
    surfaces = Scoring(("dice", "hd95", "nsd"), nsd_tolerance_mm=TOLERANCE_MM)

    def ours(scoring: Scoring) -> Callable[[Path, Path], dict[str, list[float]]]:
        def score(a: Path, b: Path) -> dict[str, list[float]]:
            rows = score_pair(PairOfFiles(a.name, a, b), labels, scoring).rows
            return {metric: [row[metric] for row in rows] for metric in scoring.metrics}

        return score

    rows = []
    if "nnU-Net" in peers:
        theirs = nnunet_scorer(kind)
        rows.append(in_turns(kind, "Dice", "nnU-Net", pairs, ours(dice), theirs, tolerance=1e-12))
    scorers = {
        "MONAI": monai_scorer,
        "panoptica": panoptica_scorer,
        "surface-distance": surface_scorer,
    }
    for peer, scorer in scorers.items():
        if peer in peers:
            tolerance = SINGLE_PRECISION if peer == "MONAI" else 1e-6
            rows.append(
                in_turns(
                    kind,
                    "Dice + HD95 + NSD",
                    peer,
                    pairs,
                    ours(surfaces),
                    scorer(kind),
                    tolerance=tolerance,
                )
            )
    if "nnU-Net" in peers:
        rows.append(command_row(kind, reference, prediction, scratch))
    return rows


def in_turns(kind, what, beside, pairs, ours, theirs, *, tolerance) -> dict[str, object]:
    """Time both sides on every case; the metrics that the other side gives must be equal.

    A case that warms both up does not count. Large label maps need none after the small ones.
    """
    if kind.name == KINDS[0].name:
        ours(*pairs[0])
        theirs(*pairs[0])

    times = []
    for turn in range(1 if beside == "MONAI" else ROUNDS[kind.name]):
        for pair in pairs:
            sides = {"ours": ours, "theirs": theirs}
            order = list(sides)[:: 1 if turn % 2 else -1]
            seconds = {}
            values = {}
            for side in order:
                seconds[side], values[side] = timed(sides[side], *pair)
            assert_equal(values["ours"], values["theirs"], tolerance)
            times.append([seconds["ours"], seconds["theirs"]])
    our_times, their_times = np.array(times).T
    return row_of(kind, what, beside, our_times, their_times)


def row_of(kind, what, beside, ours, theirs) -> dict[str, object]:
    ratios = theirs / ours
    return {
        "kind": kind.name,
        "what": what,
        "beside": beside,
        "n_cases": kind.n_cases,
        "ours_s": float(np.median(ours)),
        "theirs_s": float(np.median(theirs)),
        "times_faster": float(np.median(ratios)),
        "lowest": float(ratios.min()),
        "highest": float(ratios.max()),
    }


def timed(function: Callable, *arguments) -> tuple[float, dict[str, list[float]]]:
    """The seconds that a function takes, and what it returns."""
    start = time.perf_counter()
    values = function(*arguments)
    return time.perf_counter() - start, values


def assert_equal(ours, theirs, tolerance) -> None:
    """Check that both sides do the same work: they give the same values of each label."""
    for metric, values in theirs.items():
        if not np.allclose(ours[metric], values, rtol=tolerance, atol=tolerance):
            raise SystemExit(f"The two sides differ in {metric}: {ours[metric]} and {values}.")


def nnunet_scorer(kind: Kind) -> Callable:
    from nnunetv2.evaluation.evaluate_predictions import compute_metrics
    from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

    values = list(range(1, kind.n_labels + 1))

    def score(reference: Path, prediction: Path) -> dict[str, list[float]]:
        metrics = compute_metrics(str(reference), str(prediction), SimpleITKIO(), values)["metrics"]
        return {"dice": [metrics[value]["Dice"] for value in values]}

    return score


def monai_scorer(kind: Kind) -> Callable:
    import SimpleITK
    import torch
    from monai import metrics

    torch.set_num_threads(1)
    options = {"include_background": True}
    dice = metrics.DiceMetric(**options)
    hd95 = metrics.HausdorffDistanceMetric(percentile=95, **options)
    nsd = metrics.SurfaceDiceMetric([TOLERANCE_MM], **options)

    def score(reference: Path, prediction: Path) -> dict[str, list[float]]:
        images = [SimpleITK.ReadImage(str(path)) for path in (prediction, reference)]
        maps = [torch.from_numpy(SimpleITK.GetArrayFromImage(image)) for image in images]
        spacing = images[1].GetSpacing()[::-1]
        values: dict[str, list[float]] = {"dice": [], "hd95": [], "nsd": []}
        # Label by label: as a channel each, twenty labels have eighteen gigabytes.
        for value in range(1, kind.n_labels + 1):
            masks = [(label_map == value)[None, None] for label_map in maps]
            values["dice"].append(dice(*masks).item())
            values["hd95"].append(hd95(*masks, spacing=spacing).item())
            values["nsd"].append(nsd(*masks, spacing=spacing).item())
        return values

    return score


def panoptica_scorer(kind: Kind) -> Callable:
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
