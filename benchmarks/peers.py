"""How nine tools score the same eight inputs: the table of docs/peers.md.

The tools need versions of numpy that exclude each other, so that each runs in an environment of its
own. Those are made with pip in the folder that --environments names, unless they exist; nnU-Net and
nnunet-dro are taken from the environment that runs this script. MONAI needs torch. Of MIST only its
metrics are installed, without the training framework that it depends on.

    pip install -e .
    python benchmarks/peers.py [--environments FOLDER] [--out FILE] [--page FILE]
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from peer_tools import PEERS, Functions, Mask, Spacing

#: Of these the fifth percentile is asked for.
TWELVE_CASES = (0.05, 0.31, 0.42, 0.55, 0.61, 0.68, 0.70, 0.74, 0.80, 0.83, 0.88, 0.91)
METRICS = {
    "dice": "Dice",
    "hd95": "HD95, mm",
    "mean_distance": "mean surface distance, mm",
    "surface_dice": "surface Dice at 1 mm",
}
START = "<!-- The table is written by benchmarks/peers.py. -->"
END = "<!-- End of the table. -->"


def inputs() -> dict[str, tuple[Mask, Mask, Spacing]]:
    """Pairs of masks with their voxel size, under the names of the table."""
    nothing = np.zeros((20, 20, 20), np.uint8)
    voxel = nothing.copy()
    voxel[9, 9, 9] = 1
    cube = nothing.copy()
    cube[5:12, 5:12, 5:12] = 1
    larger = cube.copy()
    larger[12:14, 5:8, 5:13] = 1
    cubic = (1.0, 1.0, 1.0)
    return {
        "both empty": (nothing, nothing, cubic),
        "reference empty": (nothing, cube, cubic),
        "one voxel, 3 mm off": (voxel, np.roll(voxel, 3, axis=2), cubic),
        "missed label": (cube, nothing, cubic),
        "voxels of 5 x 1 x 1 mm": (cube, larger, (5.0, 1.0, 1.0)),
    }


def touching_corners() -> Mask:
    mask = np.zeros((20, 20), np.uint8)
    mask[2:5, 2:5] = 1
    mask[5:8, 5:8] = 1
    return mask


def write_disagreeing_forms(folder: Path) -> tuple[Path, Path]:
    """A reference whose sform is mirrored and shifted, and what ITK makes of it, in two folders."""
    import nibabel
    import SimpleITK

    sform = np.diag([-1.0, 1.0, 1.0, 1.0])
    sform[0, 3] = 19
    mask = np.zeros((20, 22, 16), np.uint8)
    mask[3:9, 5:12, 4:10] = 1
    header = nibabel.Nifti1Image(mask, np.eye(4)).header
    header.set_qform(np.eye(4), code=1)
    header.set_sform(sform, code=2)

    files = (folder / "reference" / "a.nii.gz", folder / "prediction" / "a.nii.gz")
    for file in files:
        file.parent.mkdir()
    nibabel.save(nibabel.Nifti1Image(mask, None, header), files[0])
    SimpleITK.WriteImage(SimpleITK.ReadImage(str(files[0])), str(files[1]))
    return files


def rows_of(functions: Functions, files: tuple[Path, Path]) -> Iterator[tuple[str, str, str]]:
    """Input, metric and value of one tool, as the table says them."""
    for name, pair in inputs().items():
        for metric, label in METRICS.items():
            if name == "both empty" and metric == "mean_distance":
                continue
            yield name, label, value_of(functions.metrics.get(metric), *pair)

    corners = touching_corners()
    count = functions.count_lesions
    yield "touching corners", "lesions in an image", value_of(count, corners)
    yield "touching corners", "lesions in one slice", value_of(count, corners[None])
    yield "disagreeing forms", "Dice", value_of(functions.dice_of_files, *files)
    percentile = value_of(functions.fifth_percentile, TWELVE_CASES)
    yield "twelve cases", "fifth percentile", percentile


def value_of(function: Callable | None, *arguments: Any) -> str:
    """The value with four digits, the kind of error, or "-" where there is no function."""
    if function is None:
        return "-"
    try:
        value = float(function(*arguments))
    except Exception as error:
        return type(error).__name__
    return f"{value:.4g}"


def run_peer(name: str, files: tuple[Path, Path]) -> dict[str, Any]:
    """The version and the rows of a tool, from its own environment."""
    peer = PEERS[name]
    warnings.simplefilter("ignore")
    # What the tools print would stand among the rows.
    with redirect_stdout(sys.stderr):
        rows = list(rows_of(peer.functions(), files))
    return {"version": version(peer.package), "rows": rows}


def interpreter_of(name: str, environments: Path) -> Path:
    """The Python that has the tool; its environment is made where it lacks."""
    peer = PEERS[name]
    if not peer.requirements:
        return Path(sys.executable)
    python = environments / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environments / name], check=True)
        pip = [python, "-m", "pip", "install", "--quiet"]
        pip += ["--no-deps"] if peer.without_dependencies else []
        subprocess.run([*pip, *peer.requirements], check=True)
    return python


def write_csv(results: dict[str, dict[str, Any]], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("input", "metric", "tool", "version", "value"))
        for tool, result in results.items():
            for row in result["rows"]:
                writer.writerow((row[0], row[1], tool, result["version"], row[2]))


def table_of(results: dict[str, dict[str, Any]]) -> str:
    """The table in Markdown, a column per tool."""
    heads = [f"{tool} {result['version']}" for tool, result in results.items()]
    lines = [
        " | ".join(("| input", "metric", *heads)) + " |",
        "| --- | --- |" + " ---: |" * len(heads),
    ]
    columns = [result["rows"] for result in results.values()]
    for cells in zip(*columns, strict=True):
        values = [value for _, _, value in cells]
        lines.append(" | ".join((f"| {cells[0][0]}", cells[0][1], *values)) + " |")
    return "\n".join(lines)


def write_table(table: str, page: Path) -> None:
    text = page.read_text("utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--environments",
        type=Path,
        default=Path(tempfile.gettempdir()) / "nnunet-dro-peers",
        help="Folder of the tools' environments; what lacks is installed.",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results/peers.csv"), help="File to write."
    )
    parser.add_argument(
        "--page", type=Path, default=Path("docs/peers.md"), help="Page whose table is written."
    )
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--files", type=Path, nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(run_peer(arguments.peer, tuple(arguments.files))))
        return

    results = {}
    with tempfile.TemporaryDirectory() as folder:
        files = write_disagreeing_forms(Path(folder))
        for name in PEERS:
            python = interpreter_of(name, arguments.environments)
            command = [python, __file__, "--peer", name, "--files", *files]
            environment = {**os.environ, "PANOPTICA_CITATION_REMINDER": "false"}
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
            results[name] = json.loads(output.stdout.splitlines()[-1])
    write_csv(results, arguments.out)
    write_table(table_of(results), arguments.page)


if __name__ == "__main__":
    main()
