"""The nine tools that `peers.py` compares: what to install, and how to reach what they measure."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE_MM = 1.0

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
