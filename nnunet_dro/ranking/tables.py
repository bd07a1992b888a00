"""The tables of a ranking, and the ranking in Markdown and in the terminal."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd
from rich.console import RenderableType

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.naming import NO_VALUE, count, name_some, share, written
from nnunet_dro.pages.document import Block, Cell, Column, Heading, Note, Prose, Table
from nnunet_dro.pages.markdown import markdown
from nnunet_dro.pages.svg import shortened
from nnunet_dro.pages.terminal import printed
from nnunet_dro.ranking import words
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.ranks import OVERALL, TITLES
from nnunet_dro.ranking.stability import Part

#: A note may list the cases of a team; the page has all notes.
_MOST_NOTES = 4

#: Below this number of cases a stratum has few.
FEW_CASES = 10

_rank = partial(written, form=".0f")


#: A column with what it has of a team, or of another record.
_ColumnOf = tuple[Column, Callable[[Any], Cell | str]]


def ranking_markdown(ranking: Ranking) -> str:
    """The findings, the ranking, and the ranks by scheme and by stratum.

    Names from files are escaped.
    """
    blocks: list[Block] = [
        Heading(words.say("heading", ranking), 1),
        Prose(words.lede(ranking)),
        Prose(words.findings(ranking), kind="points"),
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
            Heading(f"{words.say('heading', ranking)} ({words.say('size', ranking)})"),
            overall_table(ranking, list(ranking.strata)[:2]),
            Prose((words.say("rule", ranking), *words.findings(ranking))),
            *map(Note, notes),
        ]
    )


def overall_table(ranking: Ranking, attributes: Sequence[str]) -> Table:
    """The ranks of the teams, how sure they are, and their ranks by the worst stratum.

    Worst strata are those of ``attributes``.
    """
    title, scores = words.main_score(ranking)
    ranks = ranking.overall()
    columns: list[_ColumnOf] = [
        (Column("Rank"), lambda team: Cell(_rank(ranks[team]), kind="place")),
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


def _sample_columns(samples: pd.DataFrame) -> "list[_ColumnOf]":
    """What the bootstrap samples say of each team."""
    low = samples["rank_low"].map(_rank)
    high = samples["rank_high"].map(_rank)

    def interval(team: str) -> str:
        # A single rank where both ends are the same.
        return "–".join(dict.fromkeys((low[team], high[team])))

    return [
        (Column("95 % of ranks"), interval),
        (Column("First in"), lambda team: share(samples["share_1"][team])),
    ]


def _rank_in(ranks: "pd.Series[float]") -> Callable[[str], str]:
    return lambda team: _rank(ranks[team])


def _schemes_table(ranking: Ranking) -> Table:
    columns: list[_ColumnOf] = [(Column("Team", "name"), str)]
    columns += [
        (Column(TITLES[scheme]), _rank_in(ranking.overall(scheme))) for scheme in RankingScheme
    ]
    return Table.of("Ranks by each scheme", columns, list(ranking.teams))


def _strata_table(ranking: Ranking, attribute: str) -> Table:
    columns: list[_ColumnOf] = [
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


def taus_table(ranking: Ranking) -> Table:
    """How much the rankings of the bootstrap samples agree with this one, by scheme."""

    def interval(row: Any) -> str:
        if math.isnan(row["mean"]):
            return NO_VALUE
        low = written(row["low"], ".2f")
        high = written(row["high"], ".2f")
        return f"[{low}, {high}]"

    columns: list[_ColumnOf] = [
        (Column("Scheme", "name"), lambda row: TITLES[RankingScheme(row["scheme"])]),
        (Column("Mean"), lambda row: written(row["mean"], ".2f")),
        (Column("95 % of the samples"), interval),
    ]
    notes = ("1: the same ranking; 0: unrelated; −1: reversed.",)
    return Table.of(
        "Kendall’s tau",
        columns,
        ranking.taus.to_dict("records"),
        notes=notes,
    )


def parts_table(ranking: Ranking) -> Table:
    """How sure the ranks are by each metric and label and in each stratum."""
    parts = []
    for _, rows in ranking.parts.groupby(list(Part._fields), sort=False):
        parts.append(rows.set_index("team"))

    def first(rows: pd.DataFrame) -> Cell:
        names = words.first_teams(rows["rank"])
        return Cell(", ".join(names) or NO_VALUE, kind="names")

    def how_often(rows: pd.DataFrame) -> str:
        names = words.first_teams(rows["rank"])
        return share(rows["share_1"][names[0]]) if names else NO_VALUE

    columns: list[_ColumnOf] = [
        (Column("By", "name"), lambda rows: _part_title(rows.iloc[0])),
        (Column("Part", "name"), lambda rows: _part_name(rows.iloc[0], ranking)),
        (Column("Cases"), lambda rows: f"{int(rows['n'].iloc[0]):,}"),
        (Column("First", "text"), first),
        (Column("First in"), how_often),
        (Column("Kendall’s tau"), lambda rows: _tau(rows.iloc[0])),
    ]
    return Table.of(
        "How sure the ranks are by metric, label and stratum",
        columns,
        parts,
        notes=tuple(_notes_on_parts(ranking)),
    )


def _notes_on_parts(ranking: Ranking) -> Iterator[str]:
    yield (
        "First in: the share of the bootstrap samples of these cases in which the team has rank 1."
    )
    small = []
    for attribute, strata in ranking.strata.items():
        small += [stratum_title(attribute, name) for name, n in strata.items() if n < FEW_CASES]
    if small:
        names = name_some(small)
        yield f"Fewer than {FEW_CASES} cases, of which ranks say little: {names}."
    yield "The ranks of every team are in stability.csv."


def invalid_table(ranking: Ranking) -> Table:
    """The predictions that could not be scored, or how many each team has."""
    columns: list[_ColumnOf] = [(Column("Team", "name"), lambda row: row["team"])]
    if "reason" in ranking.invalid:
        columns.append((Column("Case", "name"), lambda row: row["case"]))
        columns.append((Column("Reason", "text"), _reason))
    else:
        columns.append((Column("Invalid predictions"), lambda row: f"{row['n']:,}"))
    return Table.of("Invalid predictions", columns, ranking.invalid.to_dict("records"))


def _reason(row: Any) -> Cell:
    return Cell(row["reason"], kind="reason")


def _part_title(row: Any) -> str:
    if row["kind"] == "stratum":
        return attribute_title(str(row["attribute"]))
    return {"metric": "Metric", "label": "Label", "task": "Metric of a label"}[row["kind"]]


def _part_name(row: Any, ranking: Ranking) -> str:
    if row["kind"] == "stratum":
        return stratum_title(str(row["attribute"]), str(row["stratum"]))
    titles = []
    if row["metric"] != OVERALL:
        titles.append(ranking.metric(str(row["metric"])).title)
    if row["kind"] != "metric":
        titles.append(str(row["label"]))
    return " of ".join(titles)


def _tau(row: Any) -> Cell:
    ends = (written(row[f"kendall_tau_{end}"], ".2f") for end in ("low", "high"))
    return Cell(written(row["kendall_tau"], ".2f"), (f"[{', '.join(ends)}]",))


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

    def first(stratum: str) -> Cell:
        names = words.first_teams(ranks[stratum])
        return Cell(", ".join(names) or NO_VALUE, kind="names")

    def farthest(stratum: str) -> Cell:
        moves = []
        for team in moved(stratum)[:3]:
            before = _rank(full[team])
            after = _rank(ranks[stratum][team])
            moves.append(f"{shortened(team, 32)}: {before} → {after}")
        return Cell("; ".join(moves) or "none", kind="names")

    columns: list[_ColumnOf] = [
        (Column("Left out", "name"), lambda stratum: stratum_title(attribute, stratum)),
        (Column("Cases left"), lambda stratum: f"{int(taus['n'][stratum]):,}"),
        (Column("Kendall’s tau"), lambda stratum: written(taus["kendall_tau"][stratum], ".2f")),
        (Column("First", "text"), first),
        (Column("Teams moved"), lambda stratum: str(len(moved(stratum)))),
        (Column("Farthest", "text"), farthest),
    ]
    title = f"Ranking without one stratum of {attribute_title(attribute)}"
    return Table.of(title, columns, list(ranks))


def tasks_table(ranking: Ranking) -> Table:
    """The rank of each team in each metric and label, with the score."""
    rows = ranking.selected(kind="all")
    records = rows[rows["metric"] != OVERALL].to_dict("records")
    row_of_team: Any = {(row["team"], row["metric"], row["label"]): row for row in records}
    n_teams = len(ranking.teams)
    intervals = _intervals(ranking)

    def cell_of(metric: str, label: str) -> Callable[[str], Cell]:
        def cell(team: str) -> Cell:
            row = row_of_team[team, metric, label]
            rank = float(row["rank"])
            # The last ranks have the darkest of the shades that scores have in reports.
            shade = 0
            if n_teams > 1 and not math.isnan(rank):
                shade = round(6 * (rank - 1) / (n_teams - 1))
            below = [words.score_text(row, ranking)]
            if (team, metric, label) in intervals:
                below.append(intervals[team, metric, label])
            return Cell(
                _rank(rank),
                tuple(below),
                kind=f"shade{shade}",
                strong=True,
            )

        return cell

    columns: list[_ColumnOf] = [(Column("Team", "name"), str)]
    for task in ranking.tasks:
        column = Column(task.label, above=ranking.metric(task.metric).title)
        columns.append((column, cell_of(task.metric, task.label)))

    notes = []
    if intervals:
        notes.append("[ ]: 95 % of the ranks in the bootstrap samples.")
    title = "Ranks by metric and label"
    return Table.of(title, columns, list(ranking.teams), notes=tuple(notes))


def _intervals(ranking: Ranking) -> dict[tuple[str, str, str], str]:
    """Team, metric and label to 95 % of the ranks in the samples; empty without samples."""
    rows = ranking.parts
    # Where there is one metric, or one label, what it is ranked by stands for both.
    kind = "task"
    if rows[rows["kind"] == kind].empty:
        kind = "metric" if len({task.label for task in ranking.tasks}) == 1 else "label"

    intervals = {}
    only = ranking.tasks[0]
    for row in rows[rows["kind"] == kind].to_dict("records"):
        metric = only.metric if kind == "label" else row["metric"]
        label = only.label if kind == "metric" else row["label"]
        ends = dict.fromkeys(_rank(row[name]) for name in ("rank_low", "rank_high"))
        intervals[row["team"], metric, label] = f"[{'–'.join(ends)}]"
    return intervals


def agreement_table(ranking: Ranking) -> Table:
    """How much the rankings by metric and label agree with the overall one."""
    rows = ranking.agreement
    is_part = rows["kind"].isin(["metric", "label", "task"])
    records = rows[is_part & (rows["scheme"] == ranking.scheme.value)].to_dict("records")
    columns: list[_ColumnOf] = [
        (Column("By", "name"), _part_title),
        (Column("Part", "name"), lambda row: _part_name(row, ranking)),
        (Column("Kendall’s tau"), lambda row: written(row["kendall_tau"], ".2f")),
    ]
    return Table.of("Agreement with the overall ranking", columns, records)


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
    columns: list[_ColumnOf] = [
        (Column("Team", "name"), lambda team: f"{places[team]}.\N{NO-BREAK SPACE}{team}"),
    ]

    for team, place in places.items():
        columns.append((Column(place), against(team)))

    title = "Which team is significantly better"
    return Table.of(
        title,
        columns,
        list(ranking.teams),
        kind="strata",
    )
