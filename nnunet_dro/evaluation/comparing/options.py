"""The options of comparing, once.

For Python, the command line, protocols and summary.json.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from nnunet_dro.bad_input import InputError
from nnunet_dro.choices import MarginBound, choice_of
from nnunet_dro.evaluation.inputs.flags import REQUIREMENTS, Flag
from nnunet_dro.evaluation.inputs.options import LockedEvaluation, Resamples, Seed, normalise


@dataclass(frozen=True, kw_only=True)
class LockedComparison:
    """What decides how methods are compared, and a protocol locks.

    The other fields are as the help says.

    Attributes:
        margin: How much worse the mean may be, in percentage points (mm for distances); the table
            then has a last column ``margin``, see `margin_verdicts`. None for none.
        margin_bound: The bounds that the margin is judged by, of `MARGIN_BOUNDS`; None for those
            that are guaranteed.
        requirements: Requirements on the table, as for `parse_requirement` with `COMPARISON`.
    """

    intersect: Annotated[bool, Flag("Compare only the cases that all evaluations have.")] = False
    margin: Annotated[
        float | None,
        Flag(
            "How much worse the mean may be, in percentage points, to be not worse (distances: in "
            "mm, and only with --margin-bound typical or t)."
        ),
    ] = None
    margin_bound: Annotated[
        str | None,
        Flag(
            "What the margin is judged by: guaranteed (default), typical (of the typical "
            "difference), or t (Student's t)."
        ),
    ] = None
    requirements: Annotated[
        Sequence[str],
        Flag(
            'Requirement on a difference (repeatable): "centre=C typical_difference_low>=0".',
            REQUIREMENTS,
            "require",
        ),
    ] = ()
    n_resamples: Resamples = 2000
    seed: Seed = 0

    def __post_init__(self) -> None:
        normalise(self, "requirements")
        margin = self.margin
        if margin is not None and not (math.isfinite(margin) and margin >= 0):
            raise InputError(
                "margin",
                must="be 0 or more",
                got=repr(margin),
                cure="Give percentage points, or mm for distances.",
            )
        bound = self.margin_bound
        if bound is None:
            return
        choice_of(MarginBound, bound, name="margin_bound")
        if margin is None:
            raise ValueError(
                f"`margin_bound` must come with a margin, got {bound!r} alone. Add --margin 1."
            )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(LockedComparison):
    """How methods are compared: what `LockedComparison` has, and by what.

    Attributes:
        by: Attributes of the first evaluation, or specs over the columns of its case table (see
            `parse_by`). Without any, the first evaluation's attributes.
    """

    by: Annotated[
        Sequence[str], Flag("Columns to report by, as for evaluate; default: as in the baseline.")
    ] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        normalise(self, "by")


#: What a protocol locks: the name of a command to its options.
SECTIONS: dict[str, type] = {"evaluate": LockedEvaluation, "compare": LockedComparison}
