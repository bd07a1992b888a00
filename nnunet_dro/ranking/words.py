"""What readers are told of a ranking, on the page, in Markdown and in the terminal alike."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.formatting import attribute_title, quantity
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.naming import count, name_some, share, written
from nnunet_dro.pages.words import Words
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.ranks import OVERALL, TITLES

#: Teams that a sentence names.
_MOST_NAMES = 3


def first_teams(ranks: "pd.Series[float]") -> list[str]:
    """The teams of rank 1."""
    return [str(team) for team in ranks.index[ranks == 1]]


#: Says values: the name of a macro, and what it is about.
WORDS = Words(
    Path(__file__).parent / "assets" / "words.jinja",
    {
        "MOST_NAMES": _MOST_NAMES,
        "TITLES": TITLES,
        "attribute_title": attribute_title,
        "count": count,
        "first_teams": first_teams,
        "share": share,
        "some": partial(name_some, at_most=_MOST_NAMES),
    },
)


def say(macro: str, ranking: Ranking, **values: Any) -> str:
    """What a macro of words.jinja says of a ranking."""
    return WORDS.sentence(macro, ranking=ranking, **values)


def lede(ranking: Ranking) -> str:
    """What is ranked, and how."""
    return f"{say('size', ranking)}. {say('rule', ranking)}"


def findings(ranking: Ranking) -> list[str]:
    """Sentences on what the ranking rests on."""
    own = first_teams(ranking.overall())
    others = {}
    for scheme in RankingScheme:
        if scheme is not ranking.scheme:
            others[TITLES[scheme]] = first_teams(ranking.overall(scheme))

    differing = {title: first for title, first in others.items() if not set(first) & set(own)}
    always = [team for team in own if all(team in first for first in others.values())]
    return WORDS.sentences("findings", ranking=ranking, differing=differing, always=always)


def score_text(row: Any, ranking: Ranking) -> str:
    """The score of a row of `Ranking.ranks`, in its unit."""
    value = float(row["score"])
    scheme = RankingScheme(row["scheme"])
    is_rank = scheme in (RankingScheme.RANK_MEAN, RankingScheme.RANK_MEDIAN)
    if row["metric"] == OVERALL or is_rank:
        return written(value, ".2f")
    if scheme is RankingScheme.TEST:
        return written(value, ".0f")
    return quantity(value, ranking.metric(str(row["metric"])))


def main_score(ranking: Ranking) -> tuple[str, dict[str, str]]:
    """The heading and the values of what the teams are ranked by.

    The mean rank, or the score of the only task.
    """
    if len(ranking.tasks) > 1:
        title = "mean rank"
        rows = ranking.selected(kind="all", metric=OVERALL)
    else:
        task = ranking.tasks[0]
        metric = METRICS[task.metric].title
        titles = {
            RankingScheme.MEAN: f"mean {metric}",
            RankingScheme.MEDIAN: f"median {metric}",
            RankingScheme.RANK_MEAN: "mean rank of cases",
            RankingScheme.RANK_MEDIAN: "median rank of cases",
            RankingScheme.TEST: "wins",
        }
        title = titles[ranking.scheme]
        rows = ranking.selected(kind="all", metric=task.metric, label=task.label)
    scores = {str(row["team"]): score_text(row, ranking) for row in rows.to_dict("records")}
    return title, scores
