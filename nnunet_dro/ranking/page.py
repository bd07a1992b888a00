"""The files of a ranking: tables, a summary, Markdown, and the page.

The page is one self-contained file.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from nnunet_dro.arrays import FloatArray, IndexArray
from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.figures import StratumCases, about_distribution, distribution
from nnunet_dro.evaluation.report.formatting import (
    attribute_title,
    column_kind,
    metric_title,
    scaled,
    shown,
    stratum_title,
)
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.files.json_file import json_records, json_text
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Block, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, page
from nnunet_dro.ranking import tables
from nnunet_dro.ranking.figures import Stop, bump_chart
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.ranks import DEFINITIONS, LEVEL, TITLES
from nnunet_dro.ranking.stability_blocks import consensus_section, podiums, stability_section
from nnunet_dro.ranking.words import WORDS

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro ranking 1"

#: The most dots on a page; with more cases, figures draw only the worst of each team.
_MOST_DOTS = 20_000


def ranking_files(ranking: Ranking) -> dict[str, str]:
    """The content of each file by its name; ``cases.csv`` only where the ranking has cases."""
    frames = {
        "ranks": ranking.ranks,
        "agreement": ranking.agreement,
        "bootstrap": ranking.bootstrap,
        "kendall_tau": ranking.taus,
        "tests": ranking.tests,
        "stability": ranking.parts,
        "podium": ranking.podium,
    }
    if ranking.cases is not None:
        frames["cases"] = ranking.cases
    if not ranking.invalid.empty:
        frames["invalid"] = ranking.invalid
    whole = ranking.selected(kind="all")
    summary = {
        "format": FORMAT,
        "teams": list(ranking.teams),
        "n_cases": ranking.n_cases,
        "n_patients": ranking.n_units,
        "strata": {attribute: dict(strata) for attribute, strata in ranking.strata.items()},
        "about": ranking.about,
        "notes": list(ranking.notes),
        "ranking": json_records(whole[["metric", "label", "team", "score", "rank"]]),
        "agreement": json_records(ranking.agreement),
        "bootstrap": json_records(ranking.bootstrap),
        "kendall_tau": json_records(ranking.taus),
        "stability": json_records(ranking.parts),
        "invalid": json_records(ranking.invalid),
    }
    files = {f"{name}.csv": _csv(table) for name, table in frames.items()}
    files["summary.json"] = json_text(summary)
    files["report.md"] = tables.ranking_markdown(ranking)
    files["report.html"] = ranking_html(ranking)
    return files


def _csv(table: pd.DataFrame) -> str:
    """The text of a table, with ranks as whole numbers."""
    # An attribute of the cases may be called like a rank.
    texts = {}
    for name, numbers in table.select_dtypes("float").items():
        form = ".0f" if str(name).startswith("rank") else ".10g"
        # Pandas takes much longer to write numbers than texts.
        texts[name] = numbers.map(f"{{:{form}}}".format, na_action="ignore").astype(object)
    return table.assign(**texts).to_csv(index=False, lineterminator="\n")


def ranking_html(ranking: Ranking) -> str:
    """The page, in which all names are escaped."""
    table = None
    if ranking.cases is not None:
        table = _case_table(ranking, ranking.cases)

    blocks = [*_ranks(ranking), *stability_section(ranking)]
    if len(ranking.tasks) > 1:
        blocks += consensus_section(ranking)
    blocks += [*podiums(ranking), *_tests(ranking)]
    for place, attribute in enumerate(ranking.strata):
        blocks += _attribute(ranking, attribute, place)

    if table is not None:
        blocks += _scores(ranking, table)

    return page(
        blocks,
        _methods(ranking),
        about={name: ranking.about[name] for name in ("options", "versions")},
        table=table,
        kind="nnunet-dro · ranking",
        title=f"Ranking of {len(ranking.teams)} teams",
        heading=tables.say("heading", ranking),
        lede=tables.ranking_lede(ranking),
    )


def _ranks(ranking: Ranking) -> Iterator[Block]:
    yield Heading("Ranking", anchor="ranking", short="Ranking")
    yield Prose(tables.ranking_findings(ranking), kind="points")
    yield tables.overall_table(ranking, list(ranking.strata))
    yield from (Note(text) for text in ranking.notes)
    if not ranking.invalid.empty:
        yield Heading("Invalid predictions", anchor="invalid", short="Invalid")
        yield Prose("These predictions could not be scored and count as failed.")
        yield tables.invalid_predictions(ranking)
    yield Heading("Other schemes", anchor="schemes", short="Schemes")
    yield Prose(
        "The same scores, ranked in other ways. A ranking that depends on the scheme says little "
        "about the teams that change places."
    )
    # The ranking's own scheme comes first.
    schemes = dict.fromkeys((ranking.scheme, *RankingScheme))
    stops = [Stop(TITLES[scheme], "", ranking.overall(scheme).tolist()) for scheme in schemes]
    yield bump_chart(
        ranking.teams,
        stops,
        label="Ranks of the teams by each scheme",
        spacing=128,
    )


def _tests(ranking: Ranking) -> Iterator[Block]:
    yield Heading("Tests of all pairs", anchor="tests", short="Tests")
    yield Prose(tables.say("tests", ranking, level=LEVEL))
    yield tables.wins_table(ranking)


def _attribute(ranking: Ranking, attribute: str, place: int) -> Iterator[Block]:
    stops = [Stop("all cases", count(ranking.n_cases, "case"), ranking.overall().tolist())]
    for stratum, n in ranking.strata[attribute].items():
        ranks = ranking.overall(kind="stratum", attribute=attribute, stratum=stratum)
        stops.append(Stop(stratum_title(attribute, stratum), count(n, "case"), ranks.tolist()))

    worst = ranking.overall(kind="worst", attribute=attribute)
    stops.append(Stop("worst stratum", "", worst.tolist()))

    title = attribute_title(attribute)
    yield Heading(f"By {title}", anchor=f"by-{place}", short=f"By {title}")
    yield Prose(
        "The ranking of all cases, of each stratum alone, and by the stratum in which each team is "
        "worst."
    )
    yield bump_chart(ranking.teams, stops, label=f"Ranks of the teams by {title}")
    if len(ranking.strata[attribute]) > 1:
        yield Heading("Without one stratum", 3)
        yield tables.leaving_out_table(ranking, attribute)


def _case_table(ranking: Ranking, cases: pd.DataFrame) -> SortableTable:
    """A row per case and label: strata, and for each metric three values of the teams."""
    columns = [
        SortableColumn("Case", "text", cases["case"]),
        SortableColumn(
            "Label",
            "text",
            cases["label"],
            filtered=True,
        ),
    ]
    for attribute in ranking.strata:
        name = f"{attribute} (stratum)"
        if name not in cases.columns:
            name = attribute
        columns.append(
            SortableColumn(
                attribute,
                "text",
                cases[name],
                filtered=True,
            )
        )

    first = len(columns)
    for metric in ranking.metrics:
        for what in ("median", "best", "worst"):
            values = shown(cases[f"{metric.name}_{what}"], metric)
            columns.append(
                SortableColumn(f"{metric_title(metric)}, {what}", column_kind(metric), values)
            )
        n_undefined = cases[f"{metric.name}_undefined"]
        if n_undefined.any():
            title = f"{metric.title}, teams without value"
            columns.append(SortableColumn(title, "count", n_undefined))

    return SortableTable(
        tuple(columns),
        list(zip(cases["case"], cases["label"], strict=True)),
        first,
        not ranking.metrics[0].more_is_better,
        "The best, the median and the worst value of the teams in each case, hardest case first.",
        file="cases.csv",
    )


def _scores(ranking: Ranking, table: SortableTable) -> Iterator[Block]:
    """The scores of every team by the first metric, a figure for each label."""
    if ranking.values is None:
        return

    metric = ranking.metrics[0]
    labels = [task.label for task in ranking.tasks if task.metric == metric.name]
    most = _MOST_DOTS // (len(labels) * len(ranking.teams))
    row_of_key = {key: row for row, key in enumerate(table.keys)}

    charts = []
    # The tasks of the first metric are the first tasks.
    for label, values in zip(labels, ranking.values, strict=False):
        rows = np.array([row_of_key[case, label] for case in ranking.case_names])
        chart = distribution(
            _teams(
                ranking,
                values,
                rows,
                metric,
            ),
            metric,
            label=label,
            column=table.column(f"{metric_title(metric)}, median"),
            at_most=most,
        )
        charts.append((label, [chart]))

    n_drawn = most if ranking.n_cases > most else None
    yield Heading(f"{metric.title} of every case", anchor="scores", short="Scores")
    yield Prose(about_distribution(metric, n_drawn))
    yield Figure(charts)


def _teams(
    ranking: Ranking, values: FloatArray, rows: IndexArray, metric: Metric
) -> list[StratumCases]:
    """The scores of each team, shape (n_teams, n_cases), and the rows of the table they are in."""
    teams = []
    for place, name in enumerate(ranking.teams):
        scores = np.array([scaled(float(value), metric) for value in values[place]])
        teams.append(
            StratumCases.of(
                place,
                name,
                scores,
                rows,
                metric,
            )
        )
    return teams


def _methods(ranking: Ranking) -> list[Block]:
    terms = {TITLES[scheme].capitalize(): text for scheme, text in DEFINITIONS.items()}
    terms |= dict(WORDS.definitions("definitions", ranking=ranking))
    sources = (
        "After Wiesenfarth et al. 2021 (Scientific Reports 11:2369) and Maier-Hein et al. 2018 "
        "(Nature Communications 9:5217)."
    )
    return [
        Heading("Definitions", anchor="methods", short="Definitions"),
        Table.of_pairs("Definitions", terms.items(), kind="terms"),
        Prose(sources, kind="key"),
    ]
