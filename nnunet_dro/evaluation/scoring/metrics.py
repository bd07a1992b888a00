"""The metrics: what each is called, measured in, and defined as."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nnunet_dro.naming import name_some

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Metric:
    """A number per case and label.

    Attributes:
        name: Its column in scores.csv and its name at the command line.
        title: Its name in headings.
        unit: ``fraction`` (shown in per cent), ``mm`` or ``ml``; on pages ``px`` where no voxel size is known.
        more_is_better: Whether larger values are better; if not, 0 is best.
        definition: Its definition in one line.
        on_surfaces: Whether it needs the distances between the two borders.
        undefined_if: The failures (``missed``, ``invented``) of a label for which it has no value, unless ``--empty``
            gives it one.
        on_lesions: Whether it is computed from the lesions of a label, which `Instances` says how to find.
        of_volumes: Whether it follows from the volumes of a label in reference and prediction.
        is_signed: Whether it is an error with a sign: neither more nor less is better, but what is nearer to 0.
    """

    name: str
    title: str
    unit: str
    more_is_better: bool
    definition: str
    on_surfaces: bool = False
    undefined_if: tuple[str, ...] = ()
    on_lesions: bool = False
    of_volumes: bool = False
    is_signed: bool = False

    @property
    def tail(self) -> str:
        """The statistic in strata.csv that reaches furthest into the bad cases without being a single case.

        Of signed errors, whose bad cases lie on both sides, it is the mean.
        """
        return "mean" if self.is_signed else "p5" if self.more_is_better else "p75"

    @property
    def is_bounded(self) -> bool:
        """Whether the values lie between 0 and 1."""
        return self.unit == "fraction" and not self.of_volumes

    def goodness(self, values: Any) -> Any:
        """Values, or an array or a series of them, such that more is better."""
        return values if self.more_is_better else -abs(values)

    def measured(self, *, pixels: bool) -> "Metric":
        """The metric with the unit of its distances and volumes: ``px`` where no voxel size is known."""
        return replace(self, unit="px") if pixels and self.unit in ("mm", "ml") else self


_MISSED, _INVENTED = ("missed",), ("invented",)

#: Distances have no value where only one of reference and prediction has the label.
_EITHER = (*_MISSED, *_INVENTED)

_NOT_FOUND = "lesions that are missed or invented count as"

_LACKS = "undefined where the reference lacks the label"

_BORDER = "border: voxels of the label with a face neighbour outside it, or at the image's edge"

#: Name to metric, in the order of columns.
METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("dice", "Dice", "fraction", True, "2 TP / (2 TP + FP + FN), over voxels"),
        Metric("iou", "IoU", "fraction", True, "TP / (TP + FP + FN), over voxels"),
        Metric("sensitivity", "Sensitivity", "fraction", True, "TP / (TP + FN), over voxels", undefined_if=_INVENTED),
        Metric("precision", "Precision", "fraction", True, "TP / (TP + FP), over voxels", undefined_if=_MISSED),
        Metric(
            "hd95",
            "HD95",
            "mm",
            False,
            f"larger of the directed 95th percentiles of the border voxels' distances to the other border ({_BORDER})",
            on_surfaces=True,
            undefined_if=_EITHER,
        ),
        Metric(
            "hd95_pooled",
            "HD95 pooled",
            "mm",
            False,
            f"95th percentile of the border voxels' distances to the other border, both directions pooled ({_BORDER})",
            on_surfaces=True,
            undefined_if=_EITHER,
        ),
        Metric(
            "hd",
            "HD",
            "mm",
            False,
            f"largest distance of a border voxel of one label map to the other's border ({_BORDER})",
            on_surfaces=True,
            undefined_if=_EITHER,
        ),
        Metric(
            "assd",
            "ASSD",
            "mm",
            False,
            f"mean of the border voxels' distances to the other border, both directions pooled ({_BORDER})",
            on_surfaces=True,
            undefined_if=_EITHER,
        ),
        Metric(
            "nsd",
            "NSD",
            "fraction",
            True,
            f"share of the border voxels of both that lie within the tolerance of the other border ({_BORDER})",
            on_surfaces=True,
        ),
        Metric(
            "volume_error",
            "Volume error",
            "ml",
            False,
            "volume of the prediction minus that of the reference",
            of_volumes=True,
            is_signed=True,
        ),
        Metric(
            "absolute_volume_error",
            "Absolute volume error",
            "ml",
            False,
            "difference of the volumes of prediction and reference, without a sign",
            of_volumes=True,
        ),
        Metric(
            "relative_volume_error",
            "Relative volume error",
            "fraction",
            False,
            f"volume error per volume of the reference; {_LACKS}",
            undefined_if=_INVENTED,
            of_volumes=True,
            is_signed=True,
        ),
        Metric(
            "absolute_relative_volume_error",
            "Absolute relative volume error",
            "fraction",
            False,
            f"absolute volume error per volume of the reference; {_LACKS}",
            undefined_if=_INVENTED,
            of_volumes=True,
        ),
        Metric(
            "false_positive_volume",
            "False positive volume",
            "ml",
            False,
            "volume of the prediction in cases whose reference lacks the label; undefined in the others",
            of_volumes=True,
        ),
        Metric(
            "lesion_recall",
            "Lesion recall",
            "fraction",
            True,
            "share of the reference's lesions that are found",
            undefined_if=_INVENTED,
            on_lesions=True,
        ),
        Metric(
            "lesion_precision",
            "Lesion precision",
            "fraction",
            True,
            "share of the predicted lesions that are matched with a lesion of the reference",
            undefined_if=_MISSED,
            on_lesions=True,
        ),
        Metric(
            "lesion_f1",
            "Lesion F1",
            "fraction",
            True,
            "harmonic mean of lesion recall and lesion precision; 0 where no lesion is found",
            on_lesions=True,
        ),
        Metric(
            "pq",
            "Panoptic quality",
            "fraction",
            True,
            "segmentation quality times recognition quality",
            on_lesions=True,
        ),
        Metric(
            "sq",
            "Segmentation quality",
            "fraction",
            True,
            "mean IoU of the lesions that are found; 0 where none is found",
            on_lesions=True,
        ),
        Metric(
            "rq",
            "Recognition quality",
            "fraction",
            True,
            "TP / (TP + FP / 2 + FN / 2) over lesions: found (TP), invented (FP) and missed (FN)",
            on_lesions=True,
        ),
        Metric(
            "lesion_dice",
            "Lesion-wise Dice",
            "fraction",
            True,
            f"mean of the lesions' Dice; {_NOT_FOUND} 0",
            on_lesions=True,
        ),
        Metric(
            "lesion_hd95",
            "Lesion-wise HD95",
            "mm",
            False,
            f"mean of the lesions' HD95; {_NOT_FOUND} 374 mm, with --empty diagonal as the image's diagonal",
            on_lesions=True,
        ),
        Metric(
            "lesion_nsd",
            "Lesion-wise NSD",
            "fraction",
            True,
            f"mean of the lesions' NSD; {_NOT_FOUND} 0",
            on_lesions=True,
        ),
    )
}


def is_bounded(name: str) -> bool:
    """Whether the values of a metric lie between 0 and 1; not known of metrics that are not in `METRICS`."""
    return name in METRICS and METRICS[name].is_bounded


def check_metrics(names: Collection[str]) -> tuple[str, ...]:
    """Check the names of metrics."""
    known = name_some(METRICS, at_most=len(METRICS))
    if not names:
        raise ValueError(f"`metrics` must name at least one metric, got none. Choose from: {known}.")
    for name in names:
        if name not in METRICS:
            raise ValueError(f"`metrics` must be among {known}, got {name!r}.")
    return tuple(dict.fromkeys(names))


def in_pixels(scores: "pd.DataFrame") -> bool:
    """Whether the distances and volumes of a scores frame are in pixels, because it knows the voxel size of no case."""
    return "reference_ml" in scores and bool(scores["reference_ml"].isna().all())
