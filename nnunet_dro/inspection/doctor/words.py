"""What `doctor` says, in words."""

import math
from pathlib import Path

from nnunet_dro.inspection.doctor import comparisons, rules
from nnunet_dro.inspection.doctor.answer import CLEARLY_MORE
from nnunet_dro.inspection.doctor.comparisons import GroupComparison
from nnunet_dro.inspection.doctor.explanation import EXPLAINED, FEWEST_EXPLAINED
from nnunet_dro.naming import written
from nnunet_dro.pages.words import Words
from nnunet_dro.trainers.options import trainer_told_by


def points(fraction: float) -> str:
    """A Dice, or a share, in per cent, without the sign."""
    return written(100 * fraction, ".0f")


def probability(comparison: GroupComparison) -> str:
    """The probability of a comparison, as a number or as a limit."""
    p = comparison.probability
    return f"{p:.2g}" if p >= 1e-4 else "below 0.0001"


def duration(seconds: float) -> str:
    """A time in words: ``40 s``, ``12 min``, ``3.5 h``.

    Example:
        >>> duration(40), duration(720), duration(12600)
        ('40 s', '12 min', '3.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


WORDS = Words(
    Path(__file__).with_suffix(".jinja"),
    {
        "BEHIND": comparisons.BEHIND,
        "CLEARLY_MORE": CLEARLY_MORE,
        "EXPLAINED": EXPLAINED,
        "FEWEST_EXPLAINED": FEWEST_EXPLAINED,
        "LEVEL": comparisons.LEVEL,
        "LOWER": comparisons.LOWER,
        "SUSPICION": comparisons.SUSPICION,
        "Finding": rules.Finding,
        "State": comparisons.State,
        "duration": duration,
        "is_known": math.isfinite,
        "points": points,
        "probability": probability,
        "rules": rules,
        "trainer_told_by": trainer_told_by,
    },
)
