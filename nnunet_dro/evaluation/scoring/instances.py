"""Which labels are compared lesion by lesion, and how their lesions are matched."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.naming import name_some, spelt_like

#: Stands for every label.
EVERY_LABEL = "*"

#: Numbers of lesions of a case, the last columns of its row.
LESION_COUNTS = ("lesions_reference", "lesions_found", "lesions_predicted", "lesions_invented")

#: The metrics on lesions that are computed where none is asked for.
DEFAULT_LESION_METRICS = ("lesion_recall", "lesion_precision", "lesion_f1", "lesion_dice", "pq")

#: The neighbours of a voxel: those that share a face; or an edge, too; or a corner, too.
CONNECTIVITIES = (6, 18, 26)

_DEFAULT_CONNECTIVITY = 26

_EXAMPLE = "Write iou:0.5, overlap or brats:3."

_WITH_LABELS = "Add --instances LABEL, or --instances '*' for every label."


@dataclass(frozen=True)
class MatchRule:
    """When a lesion of the reference counts as found."""

    #: ``iou``: one to one, the pair with the largest IoU first. ``overlap``: by any predicted
    #: lesion that overlaps it. ``brats``: as ``overlap``, after dilation of the reference, as in
    #: BraTS 2023.
    name: str
    threshold: float = 0.5  # for ``iou``, the least IoU of a pair, 0 < threshold <= 1
    n_dilations: int = 3  # for ``brats``, by how many voxels the reference is dilated

    @property
    def definition(self) -> str:
        """The rule in one sentence."""
        if self.name == "iou":
            return (
                "lesions of reference and prediction are matched one to one, the pair with the "
                f"largest IoU first, if the IoU is at least {self.threshold:.15g} (a pair at "
                f"exactly {self.threshold:.15g} counts)"
            )
        if self.name == "overlap":
            return (
                "a lesion is found if any predicted lesion overlaps it, and is compared with all "
                "those together; a predicted lesion may be matched with several"
            )
        return (
            "as in BraTS 2023: lesions of the reference that touch after dilation by "
            f"{self.n_dilations} voxels (18 neighbours) are one; it is found if any predicted "
            "lesion overlaps the dilation, and is compared with all those together, without "
            "dilation; a predicted lesion may be matched with several"
        )


def parse_match(text: str) -> MatchRule:
    """Read a `--match`.

    Args:
        text: ``iou`` or ``iou:0.5`` (the least IoU), ``overlap``, ``brats`` or ``brats:3`` (the
            number of dilations).

    Returns:
        The rule.

    Raises:
        ValueError: If there is no such rule, or its number is not usable.

    Example:
        >>> parse_match("brats:1").n_dilations
        1
    """
    name, colon, number = (part.strip() for part in text.partition(":"))
    if name not in ("iou", "overlap", "brats") or (name == "overlap" and colon):
        raise ValueError(
            f"`match` must be iou:THRESHOLD, overlap or brats:DILATIONS, got {text!r}. {_EXAMPLE}"
        )
    if not colon:
        return MatchRule(name)

    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if name == "iou":
        if not 0 < value <= 1:
            raise ValueError(
                f"`match` must have an IoU above 0 and up to 1, got {text!r}. {_EXAMPLE}"
            )
        return MatchRule(name, threshold=value)

    if not (1 <= value <= 20 and value == int(value)):
        raise ValueError(f"`match` must have 1 to 20 dilations, got {text!r}. {_EXAMPLE}")
    return MatchRule(name, n_dilations=int(value))


@dataclass(frozen=True)
class Instances:
    """How labels are compared lesion by lesion; a lesion is a connected component.

    Attributes:
        labels: Names of the labels; ``*`` stands for every label.
        rule: When a lesion counts as found.
        connectivity: One of `CONNECTIVITIES`. In a plane, 6 means 4 neighbours, and the other two
            mean 8.
        above_mm3: Lesions of the reference up to this volume are not counted, neither as found nor
            as missed, and nor are predicted lesions that are matched with no other one. Where no
            voxel size is known, in voxels.

    Raises:
        ValueError: If a value is not allowed.
    """

    labels: tuple[str, ...]
    rule: MatchRule = MatchRule("iou")
    connectivity: int = _DEFAULT_CONNECTIVITY
    above_mm3: float = 0.0

    def __post_init__(self) -> None:
        if not self.labels or not all(self.labels):
            got = list(self.labels)
            raise ValueError(
                f"`instances` must name labels, got {got!r}. Give a name, or * for all."
            )
        if self.connectivity not in CONNECTIVITIES:
            raise ValueError(
                f"`connectivity` must be 6, 18 or 26, got {self.connectivity!r}. Choose one."
            )
        if not 0 <= self.above_mm3 < math.inf:
            raise InputError(
                "lesions_above_mm3",
                must="be 0 or more",
                got=repr(self.above_mm3),
                cure="Give a volume in mm3.",
            )

    @classmethod
    def of(
        cls,
        labels: Sequence[str],
        *,
        match: str | None,
        connectivity: int | None,
        above_mm3: float | None,
    ) -> "Instances | None":
        """From the options of the command line; None where no label is named."""
        if not labels:
            options = {"match": match, "connectivity": connectivity, "lesions_above_mm3": above_mm3}
            for name, value in options.items():
                if value is not None:
                    raise ValueError(
                        f"`{name}` must come with labels, got {value!r} alone. {_WITH_LABELS}"
                    )
            return None

        if connectivity is None:
            connectivity = _DEFAULT_CONNECTIVITY
        return cls(
            labels=tuple(dict.fromkeys(labels)),
            rule=parse_match("iou" if match is None else match),
            connectivity=connectivity,
            above_mm3=above_mm3 or 0.0,
        )

    def check_labels(self, names: Collection[str]) -> None:
        """Check that all labels are among these names."""
        unknown = [
            label
            for label in spelt_like(dict.fromkeys(self.labels), names)
            if label not in (*names, EVERY_LABEL)
        ]
        if unknown:
            raise InputError(
                "instances",
                must="be labels",
                got=name_some(unknown),
                cure=f"Choose from: {name_some(names, at_most=20)}, or * for all of them.",
            )

    @property
    def definition(self) -> str:
        """What a lesion is and how it is matched, in a sentence."""
        labels = name_some(self.labels, at_most=20)
        if EVERY_LABEL in self.labels:
            labels = "every label"
        not_counted = ""
        if self.above_mm3:
            not_counted = (
                f"; lesions of the reference up to {self.above_mm3:.15g} mm3 are not counted"
            )
        return (
            f"connected components ({self.connectivity} neighbours) of {labels}; "
            f"{self.rule.definition}{not_counted}"
        )

    @property
    def about(self) -> dict[str, object]:
        """The options, for JSON."""
        match = self.rule.name
        if match == "iou":
            match += f":{self.rule.threshold:.15g}"
        elif match == "brats":
            match += f":{self.rule.n_dilations}"
        return {
            "labels": list(self.labels),
            "match": match,
            "connectivity": self.connectivity,
            "lesions_above_mm3": self.above_mm3,
        }


def lesion_metrics(names: Collection[str]) -> list[str]:
    """Those of some metrics that are on lesions.

    Names that are not in `METRICS` are left out.
    """
    return [name for name in names if name in METRICS and METRICS[name].on_lesions]


def labels_with_lesions(scores: pd.DataFrame) -> list[str]:
    """The labels of a scores frame that were compared lesion by lesion."""
    if "lesions_reference" not in scores.columns:
        return []
    with_counts = scores[scores["lesions_reference"].notna()]
    return [str(label) for label in with_counts["label"].unique()]


def with_lesion_metrics(names: Sequence[str], instances: Instances | None) -> tuple[str, ...]:
    """The metrics to compute.

    Where lesions are compared and no metric on them is named, some are added.
    """
    on_lesions = lesion_metrics(names)
    if on_lesions and instances is None:
        raise InputError(
            "metrics",
            must="come with instances to be on lesions",
            got=name_some(on_lesions),
            cure=_WITH_LABELS,
        )
    if instances and not on_lesions:
        return (*names, *DEFAULT_LESION_METRICS)
    return tuple(names)
