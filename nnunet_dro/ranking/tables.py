"""The tables of a ranking, and the ranking in Markdown and in the terminal."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.naming import NO_VALUE, count, share, written
from nnunet_dro.pages.document import Block, Cell, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.markdown import markdown
from nnunet_dro.pages.svg import shortened
from nnunet_dro.pages.terminal import printed
from nnunet_dro.ranking import words
from nnunet_dro.ranking.ranking import OVERALL, Ranking
from nnunet_dro.ranking.ranks import TITLES

_rank = partial(written, form=".0f")
_MOST_NOTES = 4  # A note may list the cases of a team; the page has all notes.


def ranking_markdown(ranking: Ranking) -> str:
    """The findings, the ranking, and the ranks by scheme and by stratum.

    Names from files are escaped.
    """
    blocks: list[Block] = [
        Heading(words.heading(ranking), 1),
        Prose(f"{words.size(ranking)}. {words.rule(ranking)}"),
    ]
    blocks += [Prose(words.findings(ranking), kind="points"), *map(Note, ranking.notes)]
    blocks += [overall_table(ranking, list(ranking.strata)), _schemes_table(ranking)]
    return markdown([*blocks, *(_strata_table(ranking, attribute) for attribute in ranking.strata)])


def ranking_table(ranking: Ranking) -> RenderableType:
    """The ranks, their intervals, and the ranks by the worst stratum of up to two attributes, for rich's console."""
    table = overall_table(ranking, list(ranking.strata)[:2])
    notes = list(ranking.notes[:_MOST_NOTES])
    if n_more := len(ranking.notes) - len(notes):
        notes.append(f"{count(n_more, 'more note')} in the page.")
    first = Heading(f"{words.heading(ranking)} ({words.size(ranking)})")
    return printed(
        [first, table, Prose((words.rule(ranking), *words.findings(ranking))), *map(Note, notes)]
    )


def overall_table(ranking: Ranking, attributes: Sequence[str]) -> Table:
    """The ranks of the teams, how sure they are, and the ranks by the worst stratum of some attributes."""
    title, scores = words.main_score(ranking)
    samples = ranking.samples
    ranks = ranking.overall()
    columns: list[Any] = [
        (Column("Rank"), lambda team: Cell(_rank(ranks[team]), kind="place")),
        (Column("Team", "name"), str),
        (Column(title[:1].upper() + title[1:]), scores.get),
    ]
    notes = []
    if len(samples):
        low, high = (samples[column].map(_rank) for column in ("rank_low", "rank_high"))
        columns.append(
            (Column("95 % of ranks"), lambda team: "–".join(dict.fromkeys((low[team], high[team]))))
        )
        columns.append((Column("First in"), lambda team: share(samples["share_1"][team])))
        notes.append(
            "95 % of ranks: between these two are the ranks of the team in 95 % of the bootstrap samples."
        )
        notes.append("First in: the share of the samples in which it has rank 1.")
    for attribute in attributes:
        worst = ranking.overall(kind="worst", attribute=attribute)
        columns.append((Column(f"Worst {attribute_title(attribute)}"), _rank_in(worst)))
    notes += ["Worst: the rank by the stratum in which the team is worst."] if attributes else []
    notes.append("Equal teams share the smallest rank.")
    return Table.of("Ranking", columns, list(ranking.teams), notes=tuple(notes))


def _rank_in(ranks: "pd.Series[float]") -> Callable[[str], str]:
    return lambda team: _rank(ranks[team])


def _schemes_table(ranking: Ranking) -> Table:
    columns: list[Any] = [(Column("Team", "name"), str)]
    columns += [
        (Column(TITLES[scheme]), _rank_in(ranking.overall(scheme))) for scheme in RankingScheme
    ]
    return Table.of("Ranks by each scheme", columns, list(ranking.teams))


def _strata_table(ranking: Ranking, attribute: str) -> Table:
    columns: list[Any] = [
        (Column("All"), _rank_in(ranking.overall())),
        (Column("Team", "name"), str),
    ]
    for stratum, n in ranking.strata[attribute].items():
        title = f"{stratum_title(attribute, stratum)} (n = {n:,})"
        ranks = ranking.overall(kind="stratum", attribute=attribute, stratum=stratum)
        columns.append((Column(title), _rank_in(ranks)))
    columns.append(
        (Column("Worst stratum"), _rank_in(ranking.overall(kind="worst", attribute=attribute)))
    )
    return Table.of(f"Ranks by {attribute_title(attribute)}", columns, list(ranking.teams))


def taus_table(ranking: Ranking) -> Table:
    """How much the rankings of the bootstrap samples agree with this one, by scheme."""
    columns = [
        (Column("Scheme", "name"), lambda row: TITLES[RankingScheme(row["scheme"])]),
        (Column("Mean"), lambda row: written(row["mean"], ".2f")),
        (
            Column("95 % of the samples"),
            lambda row: f"[{written(row['low'], '.2f')}, {written(row['high'], '.2f')}]",
        ),
    ]
    notes = ("1: the same ranking; 0: unrelated; −1: reversed.",)
    return Table.of("Kendall’s tau", columns, ranking.taus.to_dict("records"), notes=notes)


def leaving_out_table(ranking: Ranking, attribute: str) -> Table:
    """How the ranking changes when one stratum is left out."""
    taus = ranking.without(attribute)
    full = ranking.overall()
    ranks = {
        s: ranking.overall(kind="without", attribute=attribute, stratum=s)
        for s in ranking.strata[attribute]
    }

    def moved(stratum: str) -> "pd.Series[float]":
        changes = (ranks[stratum] - full)[ranks[stratum] != full].dropna()
        return changes.reindex(changes.abs().sort_values(ascending=False, kind="stable").index)

    def first(stratum: str) -> Cell:
        names = [str(team) for team, rank in ranks[stratum].items() if rank == 1]
        return Cell(", ".join(names) or NO_VALUE, kind="names")

    def farthest(stratum: str) -> Cell:
        teams = moved(stratum).index[:3]
        moves = [
            f"{shortened(t, 32)}: {_rank(full[t])} → {_rank(ranks[stratum][t])}"
            for t in map(str, teams)
        ]
        return Cell("; ".join(moves) or "none", kind="names")

    columns: list[Any] = [
        (Column("Left out", "name"), lambda stratum: stratum_title(attribute, stratum)),
        (Column("Cases left"), lambda stratum: f"{int(taus['n'][stratum]):,}"),
        (Column("Kendall’s tau"), lambda stratum: written(taus["kendall_tau"][stratum], ".2f")),
        (Column("First", "text"), first),
        (Column("Teams moved"), lambda stratum: str(len(moved(stratum)))),
        (Column("Farthest", "text"), farthest),
    ]
    return Table.of(
        f"Ranking without one stratum of {attribute_title(attribute)}", columns, list(ranks)
    )


def tasks_table(ranking: Ranking) -> Table:
    """The rank of each team in each metric and label, with the score."""
    rows = ranking.selected(kind="all")
    rows = rows[rows["metric"] != OVERALL]
    of_task: Any = {
        (row["team"], row["metric"], row["label"]): row for row in rows.to_dict("records")
    }
    n_teams = len(ranking.teams)

    def cell_of(metric: str, label: str) -> Callable[[str], Cell]:
        def cell(team: str) -> Cell:
            row = of_task[team, metric, label]
            rank = float(row["rank"])
            # The last ranks have the darkest of the shades that scores have in reports.
            shade = 0 if rank != rank or n_teams < 2 else round(6 * (rank - 1) / (n_teams - 1))
            return Cell(
                _rank(rank), (words.score_text(row, ranking),), kind=f"shade{shade}", strong=True
            )

        return cell

    columns: list[Any] = [(Column("Team", "name"), str)]
    for task in ranking.tasks:
        column = Column(task.label, above=ranking.metric(task.metric).title)
        columns.append((column, cell_of(task.metric, task.label)))
    return Table.of("Ranks by metric and label", columns, list(ranking.teams))


def wins_table(ranking: Ranking) -> Table:
    """In how many tasks the team of the row is significantly better than that of the column."""
    won = (
        ranking.tests[ranking.tests["significant"]]
        .groupby(["better", "worse"], sort=False)
        .size()
        .to_dict()
    )
    n_tasks = len(ranking.tasks)

    def against(other: str) -> Callable[[str], Cell]:
        def cell(team: str) -> Cell:
            n = won.get((team, other), 0)
            text = str(n) if n_tasks > 1 else "✓" * n
            return Cell("" if team == other else text, kind=f"shade{round(6 * n / n_tasks)}")

        return cell

    places = {team: str(n) for n, team in enumerate(ranking.teams, start=1)}
    columns: list[Any] = [(Column("Team", "name"), lambda team: f"{places[team]}. {team}")]
    columns += [(Column(place), against(team)) for team, place in places.items()]
    return Table.of(
        "Which team is significantly better", columns, list(ranking.teams), kind="strata"
    )
