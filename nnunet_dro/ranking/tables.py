"""The sentences and tables of a ranking, and the ranking in Markdown and in the terminal."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.formatting import attribute_title, quantity, stratum_title
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.naming import NO_VALUE, count, share, written
from nnunet_dro.pages.document import Block, Cell, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.markdown import markdown
from nnunet_dro.pages.svg import shortened
from nnunet_dro.pages.terminal import printed
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.ranks import OVERALL, TITLES
from nnunet_dro.ranking.words import WORDS, first_teams

#: A note may list the cases of a team; the page has all notes.
_MOST_NOTES = 4

rank_text = partial(written, form=".0f")


#: A column with what it has of a team, or of another record.
ColumnOf = tuple[Column, Callable[[Any], Cell | str]]


def say(macro: str, ranking: Ranking, **values: Any) -> str:
    """What a macro of words.jinja says of a ranking."""
    return WORDS.sentence(macro, ranking=ranking, **values)


def ranking_lede(ranking: Ranking) -> str:
    """What is ranked, and how."""
    return f"{say('size', ranking)}. {say('rule', ranking)}"


def ranking_findings(ranking: Ranking) -> list[str]:
    """Sentences on what the ranking rests on."""
    own = first_teams(ranking.overall())
    others = {
        TITLES[scheme]: first_teams(ranking.overall(scheme))
        for scheme in RankingScheme
        if scheme is not ranking.scheme
    }
    differing = {title: first for title, first in others.items() if not set(first) & set(own)}
    always = [team for team in own if all(team in first for first in others.values())]
    return WORDS.sentences("findings", ranking=ranking, differing=differing, always=always)


def ranked_score(row: Any, ranking: Ranking) -> str:
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
    scores = {str(row["team"]): ranked_score(row, ranking) for row in rows.to_dict("records")}
    return title, scores


def ranking_markdown(ranking: Ranking) -> str:
    """The findings, the ranking, and the ranks by scheme and by stratum.

    Names from files are escaped.
    """
    blocks: list[Block] = [
        Heading(say("heading", ranking), 1),
        Prose(ranking_lede(ranking)),
        Prose(ranking_findings(ranking), kind="points"),
        *map(Note, ranking.notes),
        overall_table(ranking, list(ranking.strata)),
        _schemes_table(ranking),
    ]
    blocks += [_strata_table(ranking, attribute) for attribute in ranking.strata]
    return markdown(blocks)


def ranking_table(ranking: Ranking) -> RenderableType:
    """The ranks, their intervals, and the ranks by the worst stratum, for rich's console.

    Worst strata are those of up to two attributes.
    """
    notes = list(ranking.notes[:_MOST_NOTES])
    n_more = len(ranking.notes) - len(notes)
    if n_more:
        notes.append(f"{count(n_more, 'more note')} in the page.")

    return printed(
        [
            Heading(f"{say('heading', ranking)} ({say('size', ranking)})"),
            overall_table(ranking, list(ranking.strata)[:2]),
            Prose((say("rule", ranking), *ranking_findings(ranking))),
            *map(Note, notes),
        ]
    )


def overall_table(ranking: Ranking, attributes: Sequence[str]) -> Table:
    """The ranks of the teams, how sure they are, and their ranks by the worst stratum.

    Worst strata are those of ``attributes``.
    """
    title, scores = main_score(ranking)
    ranks = ranking.overall()
    columns: list[ColumnOf] = [
        (Column("Rank"), lambda team: Cell(rank_text(ranks[team]), kind="place")),
        (Column("Team", "name"), str),
        (Column(title[:1].upper() + title[1:]), lambda team: scores[team]),
    ]
    notes = []
    if len(ranking.samples):
        columns += _sample_columns(ranking.samples)
        notes.append(
            "95 % of ranks: between these two are the ranks of the team in 95 % of the bootstrap "
            "samples."
        )
        notes.append("First in: the share of the samples in which it has rank 1.")
    for attribute in attributes:
        worst = ranking.overall(kind="worst", attribute=attribute)
        column = Column(attribute_title(attribute), above="Rank by worst")
        columns.append((column, _rank_in(worst)))
    notes.append("Equal teams share the smallest rank.")
    return Table.of(
        "Ranking",
        columns,
        list(ranking.teams),
        notes=tuple(notes),
    )


def _sample_columns(samples: pd.DataFrame) -> "list[ColumnOf]":
    """What the bootstrap samples say of each team."""
    low = samples["rank_low"].map(rank_text)
    high = samples["rank_high"].map(rank_text)

    def interval(team: str) -> str:
        # A single rank where both ends are the same.
        return "–".join(dict.fromkeys((low[team], high[team])))

    return [
        (Column("95 % of ranks"), interval),
        (Column("First in"), lambda team: share(samples["share_1"][team])),
    ]


def _rank_in(ranks: "pd.Series[float]") -> Callable[[str], str]:
    return lambda team: rank_text(ranks[team])


def _schemes_table(ranking: Ranking) -> Table:
    columns: list[ColumnOf] = [(Column("Team", "name"), str)]
    columns += [
        (Column(TITLES[scheme]), _rank_in(ranking.overall(scheme))) for scheme in RankingScheme
    ]
    return Table.of("Ranks by each scheme", columns, list(ranking.teams))


def _strata_table(ranking: Ranking, attribute: str) -> Table:
    columns: list[ColumnOf] = [
        (Column("All"), _rank_in(ranking.overall())),
        (Column("Team", "name"), str),
    ]
    for stratum, n in ranking.strata[attribute].items():
        title = f"{stratum_title(attribute, stratum)} (n = {n:,})"
        ranks = ranking.overall(kind="stratum", attribute=attribute, stratum=stratum)
        columns.append((Column(title), _rank_in(ranks)))

    worst = ranking.overall(kind="worst", attribute=attribute)
    columns.append((Column("Worst stratum"), _rank_in(worst)))
    return Table.of(f"Ranks by {attribute_title(attribute)}", columns, list(ranking.teams))


def invalid_predictions(ranking: Ranking) -> Table:
    """The predictions that could not be scored, or how many each team has."""
    columns: list[ColumnOf] = [(Column("Team", "name"), lambda row: row["team"])]
    if "reason" in ranking.invalid:
        columns.append((Column("Case", "name"), lambda row: row["case"]))
        columns.append((Column("Reason", "text"), lambda row: Cell(row["reason"], kind="reason")))
    else:
        columns.append((Column("Invalid predictions"), lambda row: f"{row['n']:,}"))
    return Table.of("Invalid predictions", columns, ranking.invalid.to_dict("records"))


def first_cell(ranks: "pd.Series[float]") -> Cell:
    """The teams of rank 1."""
    return Cell(", ".join(first_teams(ranks)) or NO_VALUE, kind="names")


def leaving_out_table(ranking: Ranking, attribute: str) -> Table:
    """How the ranking changes when one stratum is left out."""
    taus = ranking.without(attribute)
    full = ranking.overall()
    ranks = {
        stratum: ranking.overall(kind="without", attribute=attribute, stratum=stratum)
        for stratum in ranking.strata[attribute]
    }

    def moved(stratum: str) -> list[str]:
        """The teams with another rank, those that move farthest first."""
        changes = (ranks[stratum] - full).dropna().abs()
        farthest_first = changes[changes > 0].sort_values(ascending=False, kind="stable")
        return [str(team) for team in farthest_first.index]

    def farthest(stratum: str) -> Cell:
        moves = []
        for team in moved(stratum)[:3]:
            before = rank_text(full[team])
            after = rank_text(ranks[stratum][team])
            moves.append(f"{shortened(team, 32)}: {before} → {after}")
        return Cell("; ".join(moves) or "none", kind="names")

    columns: list[ColumnOf] = [
        (Column("Left out", "name"), lambda stratum: stratum_title(attribute, stratum)),
        (Column("Cases left"), lambda stratum: f"{int(taus['n'][stratum]):,}"),
        (Column("Kendall’s tau"), lambda stratum: written(taus["kendall_tau"][stratum], ".2f")),
        (Column("First", "text"), lambda stratum: first_cell(ranks[stratum])),
        (Column("Teams moved"), lambda stratum: str(len(moved(stratum)))),
        (Column("Farthest", "text"), farthest),
    ]
    return Table.of(
        f"Ranking without one stratum of {attribute_title(attribute)}",
        columns,
        list(ranks),
    )


def wins_table(ranking: Ranking) -> Table:
    """In how many tasks the team of the row is significantly better than that of the column."""
    significant = ranking.tests[ranking.tests["significant"]]
    n_won = significant.groupby(["better", "worse"], sort=False).size().to_dict()
    n_tasks = len(ranking.tasks)

    def against(other: str) -> Callable[[str], Cell]:
        def cell(team: str) -> Cell:
            n = n_won.get((team, other), 0)
            kind = f"shade{round(6 * n / n_tasks)}"
            if team == other:
                return Cell("", kind=kind)
            if n_tasks == 1:
                return Cell("✓" if n else "", kind=kind)
            return Cell(str(n), kind=kind)

        return cell

    places = {team: str(n) for n, team in enumerate(ranking.teams, start=1)}
    columns: list[ColumnOf] = [
        (Column("Team", "name"), lambda team: f"{places[team]}.\N{NO-BREAK SPACE}{team}"),
        *((Column(place), against(team)) for team, place in places.items()),
    ]
    return Table.of(
        "Which team is significantly better",
        columns,
        list(ranking.teams),
        kind="strata",
    )
