"""What the page of a ranking says of how far one can rely on the ranks, in figures and tables.

They are by samples of the cases, by metric, by label and by stratum.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import NO_VALUE, name_some, share, written
from nnunet_dro.pages.document import Block, Cell, Column, Heading, Prose, Table
from nnunet_dro.ranking.figures import blob_plot, team_legend
from nnunet_dro.ranking.podium import MOST_CASES, MOST_TEAMS, podium_plot
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.ranks import OVERALL, TITLES
from nnunet_dro.ranking.stability import RankedPart, consensus_shares
from nnunet_dro.ranking.tables import ColumnOf, first_cell, rank_text, ranked_score, say
from nnunet_dro.ranking.words import FEW_CASES, first_teams


def stability_section(ranking: Ranking) -> Iterator[Block]:
    """How the ranks change when the cases are drawn again; nothing without samples."""
    samples = ranking.samples
    if samples.empty:
        return

    yield Heading("Stability", anchor="stability", short="Stability")
    yield Prose(
        f"How often each team has each rank when the {say('units', ranking)} are drawn again, with "
        "replacement: the area of a blob is the share of the samples. The line spans 95 % of them, "
        "the cross is the median."
    )
    columns = [f"share_{place + 1}" for place in range(len(ranking.teams))]
    ends = (samples["rank_low"], samples["rank_median"], samples["rank_high"])
    yield blob_plot(
        ranking.teams,
        samples[columns].to_numpy(dtype=np.float64),
        list(zip(*ends, strict=True)),
        label="How often each team has each rank",
    )
    yield Heading("Kendall’s tau of the samples’ rankings and the full one", 3)
    yield taus_table(ranking)
    if not ranking.parts.empty:
        yield Heading("By metric, label and stratum", 3)
        yield parts_table(ranking)


def consensus_section(ranking: Ranking) -> Iterator[Block]:
    """What the rankings by metric and label have in common."""
    yield Heading("Metrics and labels", anchor="tasks", short="Metrics and labels")
    yield Prose(say("consensus", ranking))
    ranks = ranking.task_ranks
    shares = consensus_shares(ranks, np.array(ranking.weights))
    ranked = ranks[~np.isnan(ranks).any(axis=1)]
    ends = np.quantile(ranked, (0, 0.5, 1), axis=0, method="inverted_cdf").T.tolist()
    yield blob_plot(
        ranking.teams,
        shares,
        [tuple(three) for three in ends],
        label="How often each team has each rank over the metrics and labels",
        draws="rankings",
    )
    yield Heading("Agreement with the consensus", 3)
    yield _agreement_table(ranking)
    yield Heading("Ranks by metric and label", 3)
    yield Prose("The rank of each team, and what it was ranked by. The darker, the further back.")
    yield tasks_table(ranking)


def podiums(ranking: Ranking) -> Iterator[Block]:
    """The podiums of the first metric, one for each label."""
    teams = ranking.teams[:MOST_TEAMS]
    metric = ranking.metrics[0]
    yield Heading(f"Podiums by {metric.title}", anchor="podiums", short="Podiums")
    yield Prose(say("podiums", ranking, n_teams=len(teams), most_cases=MOST_CASES))
    for place, task in enumerate(ranking.tasks):
        if task.metric != metric.name:
            continue
        rows = ranking.podium
        rows = rows[(rows["metric"] == task.metric) & (rows["label"] == task.label)]
        values = None
        if ranking.values is not None:
            values = ranking.values[place, : len(teams)]
        yield Heading(task.label, 3)
        yield podium_plot(
            teams,
            rows.filter(like="share_").to_numpy(dtype=np.float64),
            values,
            metric,
            label=f"Podiums of {task.label}",
        )
    yield team_legend(teams)


def taus_table(ranking: Ranking) -> Table:
    """How much the rankings of the bootstrap samples agree with this one, by scheme."""

    def interval(row: Any) -> str:
        return NO_VALUE if math.isnan(row["mean"]) else _interval(row["low"], row["high"])

    columns: list[ColumnOf] = [
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
    groups = ranking.parts.groupby(list(RankedPart._fields), sort=False)
    parts = [rows.set_index("team") for _, rows in groups]

    def how_often(rows: pd.DataFrame) -> str:
        names = first_teams(rows["rank"])
        return share(rows["share_1"][names[0]]) if names else NO_VALUE

    def tau(rows: pd.DataFrame) -> Cell:
        row = rows.iloc[0]
        interval = _interval(row["kendall_tau_low"], row["kendall_tau_high"])
        return Cell(written(row["kendall_tau"], ".2f"), (interval,))

    columns: list[ColumnOf] = [
        (Column("By", "name"), lambda rows: _part_title(rows.iloc[0])),
        (Column("Part", "name"), lambda rows: _part_name(rows.iloc[0], ranking)),
        (Column(say("with_a_value", ranking)), lambda rows: f"{int(rows['n_valued'].iloc[0]):,}"),
        (Column("First", "text"), lambda rows: first_cell(rows["rank"])),
        (Column("First in"), how_often),
        (Column("Kendall’s tau"), tau),
    ]
    return Table.of(
        "How sure the ranks are by metric, label and stratum",
        columns,
        parts,
        notes=tuple(_notes_on_parts(ranking)),
    )


def _notes_on_parts(ranking: Ranking) -> Iterator[str]:
    yield (
        f"First in: the share of the bootstrap samples of these {say('units', ranking)} in which "
        "the team has rank 1."
    )
    small = [
        stratum_title(attribute, name)
        for (attribute, name), n in ranking.n_valued.items()
        if attribute != ALL and n < FEW_CASES
    ]
    if small:
        yield say("few", ranking, strata=name_some(small))
    yield "The ranks of every team are in stability.csv."


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


def _interval(low: float, high: float) -> str:
    return f"[{written(low, '.2f')}, {written(high, '.2f')}]"


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
            below = [ranked_score(row, ranking)]
            if (team, metric, label) in intervals:
                below.append(intervals[team, metric, label])
            return Cell(
                rank_text(rank),
                tuple(below),
                kind=f"shade{shade}",
                strong=True,
            )

        return cell

    columns: list[ColumnOf] = [(Column("Team", "name"), str)]
    for task in ranking.tasks:
        column = Column(task.label, above=ranking.metric(task.metric).title)
        columns.append((column, cell_of(task.metric, task.label)))

    notes = []
    if intervals:
        notes.append("[ ]: 95 % of the ranks in the bootstrap samples.")
    return Table.of(
        "Ranks by metric and label",
        columns,
        list(ranking.teams),
        notes=tuple(notes),
    )


def _intervals(ranking: Ranking) -> dict[tuple[str, str, str], str]:
    """Team, metric and label to 95 % of the ranks in the samples; empty without samples."""
    rows = ranking.parts
    # Where there is one metric, or one label, what it is ranked by stands for both.
    kind = "task"
    if rows[rows["kind"] == kind].empty:
        kind = "metric" if len(ranking.labels) == 1 else "label"

    intervals = {}
    only = ranking.tasks[0]
    for row in rows[rows["kind"] == kind].to_dict("records"):
        metric = only.metric if kind == "label" else row["metric"]
        label = only.label if kind == "metric" else row["label"]
        ends = dict.fromkeys(rank_text(row[name]) for name in ("rank_low", "rank_high"))
        intervals[row["team"], metric, label] = f"[{'–'.join(ends)}]"
    return intervals


def _agreement_table(ranking: Ranking) -> Table:
    """How much the rankings by metric and label agree with the overall one."""
    rows = ranking.agreement
    is_part = rows["kind"].isin(["metric", "label", "task"])
    records = rows[is_part & (rows["scheme"] == ranking.scheme.value)].to_dict("records")
    columns: list[ColumnOf] = [
        (Column("By", "name"), _part_title),
        (Column("Part", "name"), lambda row: _part_name(row, ranking)),
        (Column("Kendall’s tau"), lambda row: written(row["kendall_tau"], ".2f")),
    ]
    return Table.of("Agreement with the overall ranking", columns, records)
