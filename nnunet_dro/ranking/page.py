"""The files of a ranking.

Tables, a summary, Markdown, and the page, which is one self-contained file.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.figures import StratumCases, about_distribution, distribution
from nnunet_dro.evaluation.report.formatting import (
    attribute_title,
    metric_title,
    scaled,
    shown,
    stratum_title,
)
from nnunet_dro.files.json_file import json_records, json_text
from nnunet_dro.pages.document import Block, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page
from nnunet_dro.ranking import tables, words
from nnunet_dro.ranking.figures import Stop, blob_plot, bump_chart
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.ranks import DEFINITIONS, LEVEL, TITLES

FORMAT = "nnunet-dro ranking 1"  # The name of the format of summary.json; its number changes with the format.
_MOST_DOTS = (
    20_000  # The most dots on a page; with more cases, figures draw only the worst of each team.
)


def ranking_files(ranking: Ranking) -> dict[str, str]:
    """The content of each file by its name; ``cases.csv`` only where the ranking has cases."""
    frames = {
        "ranks": ranking.ranks,
        "agreement": ranking.agreement,
        "bootstrap": ranking.bootstrap,
        "kendall_tau": ranking.taus,
        "tests": ranking.tests,
    }
    if ranking.cases is not None:
        frames["cases"] = ranking.cases
    of_all = ranking.selected(kind="all")
    summary = {
        "format": FORMAT,
        "teams": list(ranking.teams),
        "n_cases": ranking.n_cases,
        "n_patients": ranking.n_units,
        "strata": {attribute: dict(strata) for attribute, strata in ranking.strata.items()},
        "about": ranking.about,
        "notes": list(ranking.notes),
        "ranking": json_records(of_all[["metric", "label", "team", "score", "rank"]]),
        **{name: json_records(frames[name]) for name in ("agreement", "bootstrap", "kendall_tau")},
    }
    return {
        **{f"{name}.csv": _csv(table) for name, table in frames.items()},
        "summary.json": json_text(summary),
        "report.md": tables.ranking_markdown(ranking),
        "report.html": ranking_html(ranking),
    }


def _csv(table: pd.DataFrame) -> str:
    # An attribute of the cases may be called like a rank.
    numbers = table.select_dtypes("number")
    ranks = {
        str(name): numbers[name].astype("Int64") for name in numbers if str(name).startswith("rank")
    }
    return table.assign(**ranks).to_csv(index=False, float_format="%.10g", lineterminator="\n")


def ranking_html(ranking: Ranking) -> str:
    """The page, in which all names are escaped."""
    table = None if ranking.cases is None else _case_table(ranking, ranking.cases)
    blocks = [*_ranks(ranking), *_stability(ranking), *_tests(ranking)]
    for place, attribute in enumerate(ranking.strata):
        blocks += _attribute(ranking, attribute, place)
    if len(ranking.tasks) > 1:
        blocks.append(Heading("Metrics and labels", anchor="tasks", short="Metrics and labels"))
        blocks.append(
            Prose("The rank of each team, and what it was ranked by. The darker, the further back.")
        )
        blocks.append(tables.tasks_table(ranking))
    if table is not None:
        blocks += _scores(ranking, table)
    return page(
        blocks,
        _methods(ranking),
        about={name: ranking.about[name] for name in ("options", "versions")},
        table=table,
        kind="nnunet-dro · ranking",
        title=f"Ranking of {len(ranking.teams)} teams",
        heading=words.heading(ranking),
        lede=f"{words.size(ranking)}. {words.rule(ranking)}",
    )


def _ranks(ranking: Ranking) -> Iterator[Block]:
    yield Heading("Ranking", anchor="ranking", short="Ranking")
    yield Prose(words.findings(ranking), kind="points")
    yield tables.overall_table(ranking, list(ranking.strata))
    yield from (Note(text) for text in ranking.notes)
    yield Heading("Other schemes", anchor="schemes", short="Schemes")
    yield Prose(
        "The same scores, ranked in other ways. A ranking that depends on the scheme says little about the teams that "
        "change places."
    )
    order = [ranking.scheme, *(scheme for scheme in RankingScheme if scheme is not ranking.scheme)]
    stops = [Stop(TITLES[s], "", ranking.overall(s).tolist()) for s in order]
    yield bump_chart(ranking.teams, stops, label="Ranks of the teams by each scheme", spacing=128)


def _stability(ranking: Ranking) -> Iterator[Block]:
    rows = ranking.samples
    if rows.empty:
        return
    yield Heading("Stability", anchor="stability", short="Stability")
    yield Prose(
        "How often each team has each rank when the cases are drawn again, with replacement: the area of a blob is the "
        "share of the samples. The line spans 95 % of them, the cross is the median."
    )
    shares = rows[[f"share_{n + 1}" for n in range(len(ranking.teams))]].to_numpy(dtype=np.float64)
    intervals = list(zip(rows["rank_low"], rows["rank_median"], rows["rank_high"], strict=True))
    yield blob_plot(ranking.teams, shares, intervals, label="How often each team has each rank")
    yield Heading("Kendall’s tau of the samples’ rankings and the full one", 3)
    yield tables.taus_table(ranking)


def _tests(ranking: Ranking) -> Iterator[Block]:
    several = len(ranking.tasks) > 1
    where = "In how many of the metrics and labels" if several else "Ticked where"
    yield Heading("Tests of all pairs", anchor="tests", short="Tests")
    yield Prose(
        f"{where} the team of the row is significantly better than that of the column; rows and columns have the same "
        f"order. One-sided Wilcoxon signed-rank tests, {100 * LEVEL:g} %, Holm’s correction for all pairs"
        f"{' of one metric and label' if several else ''}. All p values are in tests.csv."
    )
    yield tables.wins_table(ranking)


def _attribute(ranking: Ranking, attribute: str, place: int) -> Iterator[Block]:
    stops = [Stop("all cases", f"n = {ranking.n_cases:,}", ranking.overall().tolist())]
    for stratum, n in ranking.strata[attribute].items():
        ranks = ranking.overall(kind="stratum", attribute=attribute, stratum=stratum)
        stops.append(Stop(stratum_title(attribute, stratum), f"n = {n:,}", ranks.tolist()))
    stops.append(
        Stop("worst stratum", "", ranking.overall(kind="worst", attribute=attribute).tolist())
    )
    title = attribute_title(attribute)
    yield Heading(f"By {title}", anchor=f"by-{place}", short=f"By {title}")
    yield Prose(
        "The ranking of all cases, of each stratum alone, and by the stratum in which each team is worst."
    )
    yield bump_chart(ranking.teams, stops, label=f"Ranks of the teams by {title}")
    if len(ranking.strata[attribute]) > 1:
        yield Heading("Without one stratum", 3)
        yield tables.leaving_out_table(ranking, attribute)


def _case_table(ranking: Ranking, cases: pd.DataFrame) -> SortableTable:
    """A row per case and label.

    Strata, and for each metric the best, median and worst value of the teams.
    """
    metrics = list(dict.fromkeys(task.metric for task in ranking.tasks))
    columns = [SortableColumn("Case", "text", cases["case"])]
    columns.append(SortableColumn("Label", "text", cases["label"], filtered=True))
    for attribute in ranking.strata:
        name = f"{attribute} (stratum)" if f"{attribute} (stratum)" in cases.columns else attribute
        columns.append(SortableColumn(attribute, "text", cases[name], filtered=True))
    first = len(columns)
    for name in metrics:
        metric = ranking.metric(name)
        for what in ("median", "best", "worst"):
            values = shown(cases[f"{name}_{what}"], metric)
            columns.append(SortableColumn(f"{metric_title(metric)}, {what}", "number", values))
        if (undefined := cases[f"{name}_undefined"]).any():
            columns.append(
                SortableColumn(f"{metric.title}, teams without value", "count", undefined)
            )
    keys = list(zip(cases["case"], cases["label"], strict=True))
    about = (
        "The best, the median and the worst value of the teams in each case, hardest case first."
    )
    descending = not ranking.metric(metrics[0]).more_is_better
    return SortableTable(tuple(columns), keys, first, descending, about, file="cases.csv")


def _scores(ranking: Ranking, table: SortableTable) -> Iterator[Block]:
    """The scores of every team by the first metric, a figure for each label."""
    if ranking.values is None:
        return
    metric = ranking.metric(ranking.tasks[0].metric)
    labels = [task.label for task in ranking.tasks if task.metric == metric.name]
    row_of = {key: row for row, key in enumerate(table.keys)}
    most = _MOST_DOTS // (len(labels) * len(ranking.teams))
    column = table.column(f"{metric_title(metric)}, median")
    charts = []
    for number, label in enumerate(labels):
        rows = np.array([row_of[case, label] for case in ranking.case_names])
        values = [
            np.array([scaled(float(value), metric) for value in of_team])
            for of_team in ranking.values[number]
        ]
        teams = [
            StratumCases.of(n, name, values[n], rows, metric)
            for n, name in enumerate(ranking.teams)
        ]
        charts.append(
            (label, [distribution(teams, metric, label=label, column=column, at_most=most)])
        )
    yield Heading(f"{metric.title} of every case", anchor="scores", short="Scores")
    yield Prose(about_distribution(metric, most if ranking.n_cases > most else None))
    yield Figure(charts)


def _methods(ranking: Ranking) -> list[Block]:
    terms = {TITLES[scheme].capitalize(): text for scheme, text in DEFINITIONS.items()}
    terms["Ties"] = (
        "Equal teams share the smallest rank, and the next ranks are left out: 1, 2, 2, 4."
    )
    terms["No value"] = (
        "A team without a value where another team has one has the last rank of the case; in means and medians it has "
        "the worst value: 0, or the largest distance of any team for the label. A case in which no team has a value "
        "does not count."
    )
    if len(ranking.tasks) > 1:
        terms["Overall"] = (
            "The mean of the ranks over all metrics and labels, each of the same weight."
        )
    if ranking.strata:
        terms["Worst stratum"] = (
            "In each metric and label a team has the score of the stratum in which it is worst."
        )
    terms["Kendall’s tau"] = (
        "tau-b, which counts ties: the number of pairs of teams in the same order in both rankings less that of pairs "
        "in opposite order, divided by the geometric mean of the numbers of untied pairs."
    )
    sources = (
        "After Wiesenfarth et al. 2021 (Scientific Reports 11:2369) and Maier-Hein et al. 2018 (Nature Communications "
        "9:5217)."
    )
    return [
        Heading("Definitions", anchor="methods", short="Definitions"),
        Table.of_pairs("Definitions", terms.items(), kind="terms"),
        Prose(sources, kind="key"),
    ]
