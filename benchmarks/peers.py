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
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE_MM = 1.0
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

Mask = np.ndarray
Spacing = tuple[float, ...]
Metric = Callable[[Mask, Mask, Spacing], float]


@dataclass(frozen=True)
class Functions:
    """What a tool has for the inputs; None where it has nothing."""

    metrics: dict[str, Metric]
    count_lesions: Callable[[Mask], int] | None = None
    dice_of_files: Callable[[Path, Path], float] | None = None
    fifth_percentile: Callable[[tuple[float, ...]], float] | None = None


@dataclass(frozen=True)
class Peer:
    """A tool: what pip calls it, what to install, and how to reach its functions."""

    package: str
    requirements: tuple[str, ...]
    functions: Callable[[], Functions]
    without_dependencies: bool = False


def nnunet() -> Functions:
    import SimpleITK
    from nnunetv2.evaluation.evaluate_predictions import compute_metrics
    from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

    def dice_of_files(reference: Path, prediction: Path) -> float:
        result = compute_metrics(str(reference), str(prediction), SimpleITKIO(), [1])
        return result["metrics"][1]["Dice"]

    def dice(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("reference.nii.gz", "prediction.nii.gz")]
            for file, mask in zip(files, (reference, prediction), strict=True):
                image = SimpleITK.GetImageFromArray(mask)
                image.SetSpacing(spacing[::-1])
                SimpleITK.WriteImage(image, str(file))
            return dice_of_files(*files)

    return Functions({"dice": dice}, dice_of_files=dice_of_files)


def monai() -> Functions:
    import torch
    from monai import metrics
    from monai.transforms import Compose, LoadImage, Orientation

    def batch(mask: Mask) -> Any:
        return torch.as_tensor(mask[None, None].astype(np.float32))

    def dice(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        metric = metrics.DiceMetric(include_background=True)
        return metric(batch(prediction), batch(reference)).item()

    def hd95(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        metric = metrics.HausdorffDistanceMetric(include_background=True, percentile=95)
        return metric(batch(prediction), batch(reference), spacing=spacing).item()

    def mean_distance(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        metric = metrics.SurfaceDistanceMetric(include_background=True, symmetric=True)
        return metric(batch(prediction), batch(reference), spacing=spacing).item()

    def surface_dice(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        metric = metrics.SurfaceDiceMetric([TOLERANCE_MM], include_background=True)
        return metric(batch(prediction), batch(reference), spacing=spacing).item()

    def dice_of_files(reference: Path, prediction: Path) -> float:
        read = Compose([LoadImage(ensure_channel_first=True), Orientation("RAS", labels=None)])
        masks = [np.asarray(read(str(file)))[0] for file in (reference, prediction)]
        return dice(*masks, (1.0, 1.0, 1.0))

    by_metric = {
        "dice": dice,
        "hd95": hd95,
        "mean_distance": mean_distance,
        "surface_dice": surface_dice,
    }
    return Functions(by_metric, dice_of_files=dice_of_files)


def panoptica() -> Functions:
    import panoptica as package

    names = {
        "dice": package.Metric.DSC,
        "hd95": package.Metric.HD95,
        "mean_distance": package.Metric.ASSD,
        "surface_dice": package.Metric.NSD,
    }

    def metric_named(name: str) -> Metric:
        metric = names[name]

        def value(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
            # The metrics of the whole mask would ignore the spacing, those of instances do not.
            evaluator = package.Panoptica_Evaluator(
                expected_input=package.InputType.MATCHED_INSTANCE,
                instance_metrics=[metric],
                global_metrics=[],
            )
            results = evaluator.evaluate(prediction, reference, voxelspacing=spacing)
            return getattr(next(iter(results.values())), f"sq_{metric.name.lower()}")

        return value

    def by_components(reference: Any, prediction: Any) -> Any:
        evaluator = package.Panoptica_Evaluator(
            expected_input=package.InputType.SEMANTIC,
            instance_approximator=package.ConnectedComponentsInstanceApproximator(),
            instance_matcher=package.NaiveThresholdMatching(),
        )
        return next(iter(evaluator.evaluate(prediction, reference).values()))

    def count_lesions(mask: Mask) -> int:
        return by_components(mask, mask).n_ref_instances

    def dice_of_files(reference: Path, prediction: Path) -> float:
        return by_components(str(reference), str(prediction)).global_bin_dsc

    by_metric = {name: metric_named(name) for name in names}
    return Functions(by_metric, count_lesions, dice_of_files)


def surface_distance() -> Functions:
    import surface_distance as package

    return Functions(_metrics_of_surface_elements(package))


def _metrics_of_surface_elements(package: Any) -> dict[str, Metric]:
    """The metrics of surface-distance, whose functions MIST has under the same names."""

    def distances(reference: Mask, prediction: Mask, spacing: Spacing) -> Any:
        masks = (reference.astype(bool), prediction.astype(bool))
        return package.compute_surface_distances(*masks, spacing)

    def dice(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        return package.compute_dice_coefficient(reference.astype(bool), prediction.astype(bool))

    def hd95(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        return package.compute_robust_hausdorff(distances(reference, prediction, spacing), 95)

    def mean_distance(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        both = distances(reference, prediction, spacing)
        # surface-distance has a mean for each direction, MIST one for both.
        return np.mean(package.compute_average_surface_distance(both))

    def surface_dice(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        both = distances(reference, prediction, spacing)
        return package.compute_surface_dice_at_tolerance(both, TOLERANCE_MM)

    return {
        "dice": dice,
        "hd95": hd95,
        "mean_distance": mean_distance,
        "surface_dice": surface_dice,
    }


def mist() -> Functions:
    from mist.metrics import lesion_wise_metrics, segmentation_metrics

    def count_lesions(mask: Mask) -> int:
        lesions = lesion_wise_metrics.compute_lesion_wise_metrics(
            mask, mask, (1.0, 1.0, 1.0), ["dice"], min_lesion_volume=0.0, reduction="none"
        )
        return len(lesions)

    return Functions(_metrics_of_surface_elements(segmentation_metrics), count_lesions)


def medpy() -> Functions:
    from medpy.metric import binary

    return Functions(
        {
            "dice": lambda reference, prediction, spacing: binary.dc(prediction, reference),
            "hd95": lambda reference, prediction, spacing: binary.hd95(
                prediction, reference, spacing
            ),
            "mean_distance": lambda reference, prediction, spacing: binary.assd(
                prediction, reference, spacing
            ),
        }
    )


def seg_metrics() -> Functions:
    from seg_metrics.seg_metrics import write_metrics

    def metric_named(name: str) -> Metric:
        def metric(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
            rows = write_metrics(
                labels=[1],
                gdth_img=reference,
                pred_img=prediction,
                spacing=spacing,
                metrics=[name],
            )
            return rows[0][name][0]

        return metric

    def dice_of_files(reference: Path, prediction: Path) -> float:
        rows = write_metrics(
            labels=[1], gdth_path=str(reference), pred_path=str(prediction), metrics=["dice"]
        )
        return np.ravel(rows[0]["dice"] if isinstance(rows, list) else rows["dice"])[0]

    names = {"dice": "dice", "hd95": "hd95", "mean_distance": "msd"}
    by_metric = {name: metric_named(theirs) for name, theirs in names.items()}
    return Functions(by_metric, dice_of_files=dice_of_files)


def simpleitk() -> Functions:
    import SimpleITK

    def dice_of_images(reference: Any, prediction: Any) -> float:
        overlap = SimpleITK.LabelOverlapMeasuresImageFilter()
        overlap.Execute(reference, prediction)
        return overlap.GetDiceCoefficient()

    def image(mask: Mask, spacing: Spacing) -> Any:
        made = SimpleITK.GetImageFromArray(mask)
        made.SetSpacing(spacing[::-1])
        return made

    def dice(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        return dice_of_images(image(reference, spacing), image(prediction, spacing))

    def mean_distance(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
        distance = SimpleITK.HausdorffDistanceImageFilter()
        distance.Execute(image(reference, spacing), image(prediction, spacing))
        return distance.GetAverageHausdorffDistance()

    def count_lesions(mask: Mask) -> int:
        components = SimpleITK.ConnectedComponent(SimpleITK.GetImageFromArray(mask))
        return int(SimpleITK.GetArrayFromImage(components).max())

    def dice_of_files(reference: Path, prediction: Path) -> float:
        return dice_of_images(
            SimpleITK.ReadImage(str(reference)), SimpleITK.ReadImage(str(prediction))
        )

    by_metric = {"dice": dice, "mean_distance": mean_distance}
    return Functions(by_metric, count_lesions, dice_of_files)


def nnunet_dro() -> Functions:
    import pandas as pd

    from nnunet_dro.evaluation import Instances, Labels, Scoring, score_case
    from nnunet_dro.evaluation.statistics.stratum_statistics import describe

    lesion = Labels({"lesion": (1,)})

    def score(reference: Mask, prediction: Mask, scoring: Scoring, spacing: Spacing) -> dict:
        return score_case(reference, prediction, lesion, scoring, spacing=spacing)[0]

    def metric_named(name: str) -> Metric:
        def metric(reference: Mask, prediction: Mask, spacing: Spacing) -> float:
            scoring = Scoring(metrics=(name,), nsd_tolerance_mm=TOLERANCE_MM)
            return score(reference, prediction, scoring, spacing)[name]

        return metric

    def count_lesions(mask: Mask) -> int:
        scoring = Scoring(instances=Instances(labels=("*",)))
        return score(mask, mask, scoring, (1.0,) * mask.ndim)["lesions_reference"]

    def dice_of_files(reference: Path, prediction: Path) -> float:
        with tempfile.TemporaryDirectory() as folder:
            command = Path(sys.executable).with_name("nnunet-dro")
            folders = (reference.parent, prediction.parent)
            options = ("-o", folder, "--overwrite")
            subprocess.run([command, "evaluate", *folders, *options], check=True, stdout=sys.stderr)
            return float(pd.read_csv(Path(folder) / "scores.csv")["dice"][0])

    def fifth_percentile(values: tuple[float, ...]) -> float:
        return describe(np.array(values))["p5"]

    names = {"dice": "dice", "hd95": "hd95", "mean_distance": "assd", "surface_dice": "nsd"}
    by_metric = {name: metric_named(ours) for name, ours in names.items()}
    return Functions(by_metric, count_lesions, dice_of_files, fifth_percentile)


PEERS = {
    "nnU-Net": Peer("nnunetv2", (), nnunet),
    "MONAI": Peer(
        "monai",
        ("monai==1.6.1", "torch==2.13.0", "numpy==2.4.6", "scipy==1.17.1", "nibabel==5.4.2"),
        monai,
    ),
    "panoptica": Peer(
        "panoptica", ("panoptica==2.1.7", "SimpleITK==2.5.7", "nibabel==5.4.2"), panoptica
    ),
    # It does not run with numpy 2 where a mask is empty.
    "surface-distance": Peer(
        "surface-distance",
        ("surface-distance==0.1", "numpy==1.26.4", "scipy==1.15.3"),
        surface_distance,
    ),
    "MIST": Peer(
        "mist-medical",
        ("mist-medical==2.3.0", "numpy==2.4.6", "scipy==1.17.1"),
        mist,
        without_dependencies=True,
    ),
    "MedPy": Peer("medpy", ("MedPy==0.5.2", "numpy==2.4.6", "scipy==1.17.1"), medpy),
    "seg-metrics": Peer("seg-metrics", ("seg-metrics==1.2.8", "numpy==2.4.6"), seg_metrics),
    "SimpleITK": Peer("SimpleITK", ("SimpleITK==2.5.7", "numpy==2.4.6"), simpleitk),
    "nnunet-dro": Peer("nnunet-dro", (), nnunet_dro),
}


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
