"""The metrics: what each is called, measured in, and defined as."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd

from nnunet_dro.naming import name_some


@dataclass(frozen=True)
class Metric:
    """A number per case and label."""

    name: str  # its column in scores.csv and its name at the command line
    title: str  # its name in headings
    definition: str  # its definition in one line
    #: ``fraction`` (shown in per cent), ``mm``, ``ml`` or the plural of what is counted; on pages
    #: ``px`` where no voxel size is known.
    unit: str
    more_is_better: bool  # whether larger values are better; if not, 0 is best
    on_surfaces: bool = False  # whether it needs the distances between the two borders
    #: The failures (``missed``, ``invented``) of a label for which it has no value, unless
    #: ``--empty`` gives it one.
    undefined_if: tuple[str, ...] = ()
    #: Whether it is computed from the lesions of a label, which `Instances` says how to find.
    on_lesions: bool = False
    #: Whether it follows from the volumes of a label in reference and prediction.
    on_volumes: bool = False
    #: Whether it is computed from the centrelines or the Betti numbers of a label.
    on_topology: bool = False
    #: Whether it is an error with a sign: neither more nor less is better, but what is nearer to 0.
    is_signed: bool = False
    #: Whether it counts what lies within the tolerance of `Scoring`, in mm.
    has_tolerance: bool = False
    #: Whether it is read from the tables of other software, whose definition is not ours, and never
    #: computed. It has a name of its own, so that it is not compared with what we compute.
    is_only_read: bool = False

    @property
    def tail(self) -> str:
        """The statistic in strata.csv that reaches furthest into the bad cases.

        It is none that is the value of a single case. Of signed errors, whose bad cases lie on both
        sides, it is the mean.
        """
        if self.is_signed:
            return "mean"
        return "p5" if self.more_is_better else "p75"

    @property
    def is_bounded(self) -> bool:
        """Whether the values lie between 0 and 1."""
        return self.unit == "fraction" and not self.on_volumes

    @property
    def on_shape(self) -> bool:
        """Whether it is computed from the masks of a label, not only from its voxel counts."""
        return self.on_surfaces or self.on_topology

    @property
    def needs_voxel_size(self) -> bool:
        """Whether its values are other ones where lengths and volumes are in pixels."""
        return self.unit in ("mm", "ml") or self.has_tolerance

    @property
    def sign(self) -> float:
        """What a difference is multiplied by to be a gain: 1 where more is better, otherwise -1."""
        return 1.0 if self.more_is_better else -1.0

    @property
    def noun(self) -> str:
        """What a value is called of which less is better."""
        return "error" if self.on_volumes or self.on_topology else "distance"

    def goodness(self, values: Any) -> Any:
        """A value, or an array or a series of values, such that more is better."""
        return values if self.more_is_better else -abs(values)

    def measured(self, *, pixels: bool) -> "Metric":
        """The metric with its unit, which is ``px`` where distances and volumes are in pixels."""
        if pixels and self.unit in ("mm", "ml"):
            return replace(self, unit="px")
        return self


_MISSED = ("missed",)
_INVENTED = ("invented",)

#: Distances have no value where only one of reference and prediction has the label.
_distance = partial(
    Metric,
    unit="mm",
    more_is_better=False,
    on_surfaces=True,
    undefined_if=(*_MISSED, *_INVENTED),
)
_fraction = partial(Metric, unit="fraction", more_is_better=True)
_on_lesions = partial(_fraction, on_lesions=True)
_volume = partial(Metric, unit="ml", more_is_better=False, on_volumes=True)
_per_volume = partial(_volume, unit="fraction", undefined_if=_INVENTED)
_betti_error = partial(Metric, more_is_better=False, on_topology=True)
_read_distance = partial(_distance, is_only_read=True)
_read_fraction = partial(_fraction, on_surfaces=True, is_only_read=True)

_NOT_FOUND = "lesions that are missed or invented count as"

_LACKS = "undefined where the reference lacks the label"

_WITHOUT_SIGN = (
    "without a sign; voxels that share a corner are connected, of the background those that share "
    "a face"
)

_BORDER = "border: voxels of the label with a face neighbour outside it, or at the image's edge"

_METRICS = (
    _fraction("dice", "Dice", "2 TP / (2 TP + FP + FN), over voxels"),
    _fraction("iou", "IoU", "TP / (TP + FP + FN), over voxels"),
    _fraction("sensitivity", "Sensitivity", "TP / (TP + FN), over voxels", undefined_if=_INVENTED),
    _fraction("precision", "Precision", "TP / (TP + FP), over voxels", undefined_if=_MISSED),
    _distance(
        "hd95",
        "HD95",
        "larger of the directed 95th percentiles of the border voxels' distances to the other "
        f"border ({_BORDER})",
    ),
    _distance(
        "hd95_pooled",
        "HD95 pooled",
        "95th percentile of the border voxels' distances to the other border, both directions "
        f"pooled ({_BORDER})",
    ),
    _distance(
        "hd",
        "HD",
        f"largest distance of a border voxel of one label map to the other's border ({_BORDER})",
    ),
    _distance(
        "assd",
        "ASSD",
        "mean of the border voxels' distances to the other border, both directions pooled "
        f"({_BORDER})",
    ),
    _fraction(
        "nsd",
        "NSD",
        "share of the border voxels of both that lie within the tolerance of the other border "
        f"({_BORDER})",
        on_surfaces=True,
        has_tolerance=True,
    ),
    _volume(
        "volume_error",
        "Volume error",
        "volume of the prediction minus that of the reference",
        is_signed=True,
    ),
    _volume(
        "absolute_volume_error",
        "Absolute volume error",
        "difference of both volumes, without a sign",
    ),
    _per_volume(
        "relative_volume_error",
        "Relative volume error",
        f"volume error per volume of the reference; {_LACKS}",
        is_signed=True,
    ),
    _per_volume(
        "absolute_relative_volume_error",
        "Absolute relative volume error",
        f"absolute volume error per volume of the reference; {_LACKS}",
    ),
    _volume(
        "false_positive_volume",
        "False positive volume",
        "volume of the prediction in cases whose reference lacks the label; undefined in the "
        "others",
    ),
    _fraction(
        "cldice",
        "clDice",
        "harmonic mean of the share of the prediction's centreline that lies in the reference and "
        "the share of the reference's centreline that lies in the prediction",
        on_topology=True,
    ),
    _betti_error(
        "betti0_error",
        "Betti error 0",
        f"difference of the numbers of connected components, {_WITHOUT_SIGN}",
        unit="components",
    ),
    _betti_error(
        "betti1_error",
        "Betti error 1",
        f"difference of the numbers of loops, which are holes in 2-D, {_WITHOUT_SIGN}",
        unit="loops",
    ),
    _betti_error(
        "betti2_error",
        "Betti error 2",
        f"difference of the numbers of enclosed cavities, {_WITHOUT_SIGN}",
        unit="cavities",
    ),
    _on_lesions(
        "lesion_recall",
        "Lesion recall",
        "share of the reference's lesions found",
        undefined_if=_INVENTED,
    ),
    _on_lesions(
        "lesion_precision",
        "Lesion precision",
        "share of the predicted lesions that are matched with a lesion of the reference",
        undefined_if=_MISSED,
    ),
    _on_lesions(
        "lesion_f1",
        "Lesion F1",
        "harmonic mean of lesion recall and lesion precision; 0 where no lesion is found",
    ),
    _on_lesions("pq", "Panoptic quality", "segmentation quality times recognition quality"),
    _on_lesions(
        "sq",
        "Segmentation quality",
        "mean IoU of the lesions that are found; 0 where none is found",
    ),
    _on_lesions(
        "rq", "Recognition quality", "found / (found + invented / 2 + missed / 2) of the lesions"
    ),
    _on_lesions("lesion_dice", "Lesion-wise Dice", f"mean of the lesions' Dice; {_NOT_FOUND} 0"),
    _on_lesions(
        "lesion_hd95",
        "Lesion-wise HD95",
        f"mean of the lesions' HD95; {_NOT_FOUND} 374 mm, with --empty diagonal as the image's "
        "diagonal",
        unit="mm",
        more_is_better=False,
    ),
    _on_lesions(
        "lesion_nsd",
        "Lesion-wise NSD",
        f"mean of the lesions' NSD; {_NOT_FOUND} 0",
        has_tolerance=True,
    ),
    # MIST 2.3.0, metrics/segmentation_metrics.py, after DeepMind's surface-distance.
    _read_distance(
        "hd95_surface_mist",
        "HD95 of MIST",
        "larger of the directed 95th percentiles of distances between surface elements, which "
        "weigh as much as their area",
    ),
    _read_distance(
        "assd_surface_mist",
        "ASSD of MIST",
        "mean distance between surface elements, which weigh as much as their area",
    ),
    _read_fraction(
        "nsd_surface_mist",
        "NSD of MIST",
        "share of the area of both surfaces that lies within the tolerance of the other",
    ),
    # panoptica 2.1.7, metrics/_surface_distances.py.
    _read_distance(
        "assd_directed_panoptica",
        "ASSD of panoptica",
        "mean of the two directed mean distances of border voxels",
    ),
    _read_fraction(
        "nsd_directed_panoptica",
        "NSD of panoptica",
        "mean of the two directed shares of border voxels within the tolerance",
    ),
)

#: Name to metric, in the order of columns.
METRICS: dict[str, Metric] = {metric.name: metric for metric in _METRICS}

#: Those that are computed from label maps.
COMPUTED = [name for name, metric in METRICS.items() if not metric.is_only_read]

#: The differences of Betti numbers 0, 1 and 2.
BETTI_ERRORS = ("betti0_error", "betti1_error", "betti2_error")


def is_bounded(name: str) -> bool:
    """Whether the values of a metric lie between 0 and 1.

    False for metrics that are not in `METRICS`, of which it is not known.
    """
    return name in METRICS and METRICS[name].is_bounded


def check_metrics(names: Collection[str]) -> tuple[str, ...]:
    """Check the names of metrics, and leave out repeated ones."""
    choices = name_some(COMPUTED, at_most=len(COMPUTED))
    if not names:
        raise ValueError(
            f"`metrics` must name at least one metric, got none. Choose from: {choices}."
        )
    for name in names:
        if name not in COMPUTED:
            raise ValueError(f"`metrics` must be among {choices}, got {name!r}.")
    return tuple(dict.fromkeys(names))


def in_pixels(scores: pd.DataFrame) -> bool:
    """Whether the distances and volumes of a scores frame are in pixels.

    They are where it knows the voxel size of no case.
    """
    return "reference_ml" in scores and bool(scores["reference_ml"].isna().all())
