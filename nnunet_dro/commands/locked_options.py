"""The options of `evaluate` and `compare` that a protocol locks."""

from dataclasses import dataclass, field
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from nnunet_dro.choices import EmptyRule, MissingRule
from nnunet_dro.commands.completion import complete_column
from nnunet_dro.commands.shared import Bootstrap, Seed, names_in

# The panels of the help, beside the one with what everybody uses.
STRATA, SCORES, LESIONS, REQUIREMENTS, RUNNING = "Strata", "Scores", "Lesions", "Requirements", "Running"


@dataclass(frozen=True, kw_only=True)
class LockedEvaluation:
    """The options of `evaluate` that a protocol locks."""

    by: Annotated[
        list[str],
        typer.Option(
            help="Column of the case table to report by (repeatable); centre,pathology for both at once; age:0,18,65 "
            "or volume:q3 to cut numbers; auto:size, auto:components, auto:spacing, auto:volume, auto:contrast or "
            "auto:noise to compute it.",
            autocompletion=complete_column,
        ),
    ] = field(default_factory=list)
    metrics: Annotated[
        str,
        typer.Option(
            help="Any of dice, iou, sensitivity, precision, hd95, hd95_pooled, hd, assd and nsd; with --instances also "
            "lesion_recall, lesion_precision, lesion_f1, pq, sq, rq, lesion_dice, lesion_hd95 and lesion_nsd."
        ),
    ] = "dice"
    overall: Annotated[
        bool,
        typer.Option(
            "--overall/--no-overall",
            help="Report all cases together, too, where --by divides them.",
            rich_help_panel=STRATA,
        ),
    ] = True
    reference_stratum: Annotated[
        str | None,
        typer.Option(
            help="Stratum that the worst one is compared with, in place of the best one.", rich_help_panel=STRATA
        ),
    ] = None
    patient: Annotated[
        str | None,
        typer.Option(
            help="Column of the case table that names the patient, where some have several cases.",
            autocompletion=complete_column,
            rich_help_panel=STRATA,
        ),
    ] = None
    nsd_tolerance_mm: Annotated[
        float, typer.Option(help="Tolerance of the normalised surface distance, in mm.", rich_help_panel=SCORES)
    ] = 1.0
    empty: Annotated[
        EmptyRule,
        typer.Option(help="Score of a label that reference, prediction or both lack.", rich_help_panel=SCORES),
    ] = EmptyRule.UNDEFINED
    missing: Annotated[
        MissingRule,
        typer.Option(help="Stop at missing predictions, or score them as failed.", rich_help_panel=SCORES),
    ] = MissingRule.ERROR
    failure: Annotated[
        str | None,
        typer.Option(
            help="When a case has failed: a condition on one metric. Default: dice<0.5.", rich_help_panel=SCORES
        ),
    ] = None
    instances: Annotated[
        list[str],
        typer.Option(
            help="Label to compare lesion by lesion, by components (repeatable); * for every label.",
            rich_help_panel=LESIONS,
        ),
    ] = field(default_factory=list)
    match: Annotated[
        str | None,
        typer.Option(
            help="How lesions are matched: iou:0.5 (one to one), overlap or brats:3. Default: iou:0.5.",
            rich_help_panel=LESIONS,
        ),
    ] = None
    connectivity: Annotated[
        int | None,
        typer.Option(
            help="Neighbours of a voxel that belong to its lesion: 6, 18 or 26. Default: 26.", rich_help_panel=LESIONS
        ),
    ] = None
    lesions_above_mm3: Annotated[
        float | None,
        typer.Option(
            help="Count only lesions of the reference above this volume. Default: all.", rich_help_panel=LESIONS
        ),
    ] = None
    require: Annotated[
        list[str],
        typer.Option(
            help='Quality requirement (repeatable): "pathology=spina_bifida label=cerebellum p5>=0.70".',
            rich_help_panel=REQUIREMENTS,
        ),
    ] = field(default_factory=list)
    bootstrap: Bootstrap = 2000
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class LockedComparison:
    """The options of `compare` that a protocol locks."""

    intersect: Annotated[
        bool, typer.Option("--intersect", help="Compare only the cases that all evaluations have.")
    ] = False
    margin: Annotated[
        float | None,
        typer.Option(help="How much worse the mean may be, in percentage points (distances: mm), to be not worse."),
    ] = None
    require: Annotated[
        list[str],
        typer.Option(
            help='Requirement on a difference (repeatable): "pathology=rare mean_difference_low>=0".',
            rich_help_panel=REQUIREMENTS,
        ),
    ] = field(default_factory=list)
    bootstrap: Bootstrap = 2000
    seed: Seed = 0


def as_locked(name: str, value: Any) -> Any:
    """A value from the command line as a protocol has it."""
    if name == "metrics":
        return names_in(value)
    value = getattr(value, "value", value)
    return list(value) if isinstance(value, tuple | list) else value


def kinds_in(section: type) -> dict[str, tuple[type | None, ...]]:
    """Option to the types that it may have in a protocol; None for an option that may be absent.

    Args:
        section: `LockedEvaluation` or `LockedComparison`.
    """
    return {name: _kinds(hint) for name, hint in get_type_hints(section).items()} | (
        {"metrics": (list,)} if section is LockedEvaluation else {}
    )


def _kinds(hint: Any) -> tuple[type | None, ...]:
    if isinstance(hint, UnionType):
        return tuple(None if one is NoneType else one for one in get_args(hint))
    return (get_origin(hint) or (str if issubclass(hint, Enum) else hint),)
