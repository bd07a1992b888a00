"""The ranking in markdown."""

from collections.abc import Sequence

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.pages.markdown import escape
from nnunet_dro.pages.wording import share
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.ranks import TITLES
from nnunet_dro.ranking.words import (
    findings,
    heading,
    main_score,
    overall,
    rank_range,
    rank_text,
    rule,
    size,
    stratum_about,
)


def ranking_markdown(ranking: Ranking) -> str:
    """The findings, the ranking, and the ranks by scheme and by stratum.

    Args:
        ranking: The ranking.

    Returns:
        Markdown that ends with a line break; names from files are escaped.
    """
    lines = [f"# {escape(heading(ranking))}", "", f"{escape(size(ranking))}. {escape(rule(ranking))}", ""]
    lines += [f"- {escape(sentence)}" for sentence in findings(ranking)]
    lines += ["", *(f"> {escape(note)}  " for note in ranking.notes), ""] if ranking.notes else [""]
    title, scores = main_score(ranking)
    heads = ["Rank", "Team", title]
    samples = ranking.bootstrap[ranking.bootstrap["scheme"] == ranking.scheme.value].set_index("team")
    heads += ["95 % of ranks", "First in"] if len(samples) else []
    heads += [TITLES[scheme] for scheme in RankingScheme]
    ranks = overall(ranking)
    schemes = [overall(ranking, scheme) for scheme in RankingScheme]
    rows = []
    for team in ranking.teams:
        row = [rank_text(ranks[team]), escape(team), scores[team]]
        if len(samples):
            of_team = samples.loc[team]
            row += [rank_range(of_team["rank_low"], of_team["rank_high"]), share(of_team["share_1"])]
        rows.append([*row, *(rank_text(of_scheme[team]) for of_scheme in schemes)])
    lines += [*_table(heads, rows), ""]
    for attribute in ranking.strata:
        lines += _attribute(ranking, attribute)
    return "\n".join(lines).strip() + "\n"


def _attribute(ranking: Ranking, attribute: str) -> list[str]:
    strata = list(ranking.strata[attribute])
    columns = [overall(ranking, kind="stratum", attribute=attribute, stratum=stratum) for stratum in strata]
    columns.append(overall(ranking, kind="worst", attribute=attribute))
    titles = [f"{stratum_title(attribute, s)} ({stratum_about(ranking, attribute, s)})" for s in strata]
    ranks = overall(ranking)
    rows = [
        [rank_text(ranks[team]), escape(team), *(rank_text(column[team]) for column in columns)]
        for team in ranking.teams
    ]
    table = _table(["All", "Team", *map(escape, titles), "Worst stratum"], rows)
    return [f"## Ranks by {escape(attribute_title(attribute))}", "", *table, ""]


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule_line = "|" + "".join(" --- |" if head == "Team" else " ---: |" for head in heads)
    return [f"| {' | '.join(heads)} |", rule_line, *(f"| {' | '.join(row)} |" for row in rows)]
