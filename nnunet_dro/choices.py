"""The choices of `nnunet-dro evaluate`, `compare` and `rank`.

They are kept apart so that --help shows them without importing the rest.
"""

from enum import Enum
from typing import TypeVar


class EmptyRule(str, Enum):
    """What a label scores that is empty in the reference, in the prediction, or in both."""

    UNDEFINED = "undefined"
    ONE = "one"
    BRATS = "brats"
    DIAGONAL = "diagonal"


class MissingRule(str, Enum):
    """What to do with a reference that has no prediction."""

    ERROR = "error"
    WORST = "worst"


class PatientScore(str, Enum):
    """What a patient with several cases scores: their mean, or the worst of them."""

    MEAN = "mean"
    WORST = "worst"


class InvalidRule(str, Enum):
    """What to do with a prediction that cannot be scored."""

    ERROR = "error"
    WORST = "worst"


class MarginBound(str, Enum):
    """By which bounds a margin of `nnunet-dro compare` is judged."""

    GUARANTEED = "guaranteed"
    TYPICAL = "typical"
    T = "t"


class RankingScheme(str, Enum):
    """How `nnunet-dro rank` ranks teams."""

    MEAN = "mean"
    MEDIAN = "median"
    RANK_MEAN = "rank-mean"
    RANK_MEDIAN = "rank-median"
    TEST = "test"


_Choice = TypeVar("_Choice", bound=Enum)


def choice_of(choices: type[_Choice], value: str, *, name: str) -> _Choice:
    """The choice with a value; the message of an error names all choices."""
    try:
        return choices(value)
    except ValueError:
        values = ", ".join(str(choice.value) for choice in choices)
        raise ValueError(f"`{name}` must be one of {values}, got {value!r}. Choose one.") from None
