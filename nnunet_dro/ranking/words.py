"""What readers are told of a ranking, on the page, in Markdown and in the terminal alike."""

from functools import partial
from pathlib import Path

import pandas as pd

from nnunet_dro.evaluation.report.formatting import attribute_title
from nnunet_dro.naming import name_some
from nnunet_dro.pages.words import Words
from nnunet_dro.ranking.ranks import TITLES

#: Teams that a sentence names.
_MOST_NAMES = 3

#: Below this number of cases (or patients) there are few.
FEW_CASES = 10


def first_teams(ranks: "pd.Series[float]") -> list[str]:
    """The teams of rank 1."""
    return [str(team) for team in ranks.index[ranks == 1]]


#: Says values: the name of a macro, and what it is about.
WORDS = Words(
    Path(__file__).parent / "assets" / "words.jinja",
    {
        "FEW_CASES": FEW_CASES,
        "MOST_NAMES": _MOST_NAMES,
        "TITLES": TITLES,
        "attribute_title": attribute_title,
        "first_teams": first_teams,
        "some": partial(name_some, at_most=_MOST_NAMES),
    },
)
