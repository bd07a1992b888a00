"""What readers are told of a ranking, on the page, in markdown and in the terminal alike."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.formatting import attribute_title, quantity
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.naming import count, name_some, share, written
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.ranks import OVERALL, TITLES

_MOST_NAMES = 3  # Teams that a sentence names.


def heading(ranking: Ranking) -> str:
    """Who is first, and how sure that is."""
    first = first_teams(ranking.overall())
    if len(first) == 1:
        return f"{first[0]} is first"
    return f"{count(len(first), 'team')} share the first rank"


def size(ranking: Ranking) -> str:
    """How many teams, cases and tasks, in words."""
    cases = count(ranking.n_cases, "case")
    if ranking.n_units < ranking.n_cases:
        cases += f" of {count(ranking.n_units, 'patient')}"
    return f"{count(len(ranking.teams), 'team')}, {cases}, {tasks(ranking)}"


def tasks(ranking: Ranking) -> str:
    """What is ranked, in words: ``Dice of liver``, or ``3 metrics of 5 labels``."""
    titles = [METRICS[task.metric].title for task in ranking.tasks]
    metrics = list(dict.fromkeys(titles))
    labels = list(dict.fromkeys(task.label for task in ranking.tasks))
    ranked = metrics[0] if len(metrics) == 1 else count(len(metrics), "metric")
    structures = labels[0] if len(labels) == 1 else count(len(labels), "label")
    return f"{ranked} of {structures}"


def rule(ranking: Ranking) -> str:
    """How the ranking was made, in one sentence."""
    scheme = f"Scheme: {TITLES[ranking.scheme]}"
    if len(ranking.tasks) == 1:
        return f"{scheme}."
    mean = "mean" if len(set(ranking.weights)) == 1 else "weighted mean"
    return f"{scheme}, for each metric and label; the ranking is that of the {mean} of these ranks."


def weights(ranking: Ranking) -> str:
    """How much each metric and label counts, in one sentence."""
    options = ranking.options
    entries = [*options.metric_weights, *options.label_weights]
    if not entries:
        return "Each metric and label has the same weight."
    return (
        f"Weights: {', '.join(entries)}; others have the weight 1, and what has the weight 0 is "
        "not ranked. A metric of a label has the product of both weights."
    )


def findings(ranking: Ranking) -> list[str]:
    """Sentences on what the ranking rests on."""
    on_strata = [_on_strata(ranking, attribute) for attribute in ranking.strata]
    return [*_on_samples(ranking), *_on_schemes(ranking), *on_strata]


def _on_samples(ranking: Ranking) -> list[str]:
    if ranking.bootstrap.empty:
        return []

    tau = ranking.taus.set_index("scheme").loc[ranking.scheme.value]
    shares = ranking.samples["share_1"]
    teams = first_teams(ranking.overall())[:_MOST_NAMES]
    listed = ", ".join(f"{team} in {share(shares[team])}" for team in teams)
    n = ranking.options.n_resamples
    sentence = f"Of {n:,} bootstrap samples, rank 1 goes to {listed}."
    if not math.isnan(tau["mean"]):
        agreement = f"{tau['mean']:.2f} on average [{tau['low']:.2f}, {tau['high']:.2f}]"
        sentence += f" Kendall's tau of the samples' rankings and this one is {agreement}."
    return [sentence]


def _on_schemes(ranking: Ranking) -> list[str]:
    own = first_teams(ranking.overall())
    always = own

    differing = []
    for scheme in RankingScheme:
        if scheme is ranking.scheme:
            continue
        first = first_teams(ranking.overall(scheme))
        always = [team for team in always if team in first]
        if not set(first) & set(own):
            differing.append(f"{TITLES[scheme]} ({_some(first)})")

    if differing:
        return [f"Another team is first by: {'; '.join(differing)}."]
    if always:
        return [f"First by every scheme, alone or with others: {_some(always)}."]
    return []


def _on_strata(ranking: Ranking, attribute: str) -> str:
    title = attribute_title(attribute)
    leaders = _leaders(ranking.overall(kind="worst", attribute=attribute))
    by_worst = f"By the worst stratum of {title} of each team, {leaders}."

    taus = ranking.without(attribute)["kendall_tau"].dropna()
    if taus.empty:
        return by_worst

    least = str(taus.idxmin())
    if taus[least] == 1:
        return f"{by_worst} Without any one of these strata, the ranking stays the same."

    leaders = _leaders(ranking.overall(kind="without", attribute=attribute, stratum=least))
    change = f"Kendall's tau {taus[least]:.2f}, {leaders}"
    return f"{by_worst} The ranking changes most without {least}: {change}."


def first_teams(ranks: "pd.Series[float]") -> list[str]:
    """The teams of rank 1."""
    return [str(team) for team, rank in ranks.items() if rank == 1]


def _some(teams: Sequence[str]) -> str:
    return name_some(teams, at_most=_MOST_NAMES)


def _leaders(ranks: "pd.Series[float]") -> str:
    first = first_teams(ranks)
    if not first:
        return "no team has a rank"
    verb = "is" if len(first) == 1 else "are"
    return f"{_some(first)} {verb} first"


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
