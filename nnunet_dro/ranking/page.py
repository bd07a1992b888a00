"""The page of a ranking: one self-contained file, offline."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nnunet_dro.choices import RankingScheme
from nnunet_dro.evaluation.report.formatting import attribute_title, stratum_title
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.html import page_assets, page_environment
from nnunet_dro.pages.svg import shortened
from nnunet_dro.pages.wording import NO_VALUE, share
from nnunet_dro.ranking.case_page import case_charts, case_table
from nnunet_dro.ranking.figures import Figure, Stop, blob_plot, bump_chart, significance_matrix
from nnunet_dro.ranking.ranking import OVERALL, Ranking
from nnunet_dro.ranking.ranks import DEFINITIONS, LEVEL, TITLES
from nnunet_dro.ranking.words import (
    findings,
    heading,
    main_score,
    overall,
    rank_range,
    rank_text,
    rule,
    score_text,
    selected,
    size,
    stratum_about,
    tasks,
)

_ASSETS = Path(__file__).parent / "assets"


def ranking_html(ranking: Ranking) -> str:
    """The page, in which all names are escaped."""
    several = len(ranking.tasks) > 1
    parts = [_attribute(ranking, attribute, n) for n, attribute in enumerate(ranking.strata)]
    table = None if ranking.cases is None else case_table(ranking)
    contents = [("ranking", "Ranking"), ("schemes", "Schemes")]
    contents += [] if ranking.bootstrap.empty else [("stability", "Stability")]
    contents += [("tests", "Tests"), *((part["id"], part["title"]) for part in parts)]
    contents += [("tasks", "Metrics and labels")] if several else []
    contents += [] if table is None else [("scores", "Scores"), ("cases", "Cases")]
    content = {
        "kind": "nnunet-dro · ranking",
        "title": f"Ranking of {len(ranking.teams)} teams",
        "heading": heading(ranking),
        "lede": f"{size(ranking)}. {rule(ranking)}",
        "contents": [*contents, ("methods", "Definitions")],
        "findings": findings(ranking),
        "notes": list(ranking.notes),
        "rows": _rows(ranking),
        "score_title": main_score(ranking)[0],
        "attributes": [attribute_title(attribute) for attribute in ranking.strata],
        "scheme_titles": [TITLES[scheme] for scheme in RankingScheme],
        "schemes": _schemes(ranking),
        "stability": _stability(ranking),
        "taus": _taus(ranking),
        "matrix": _matrix(ranking),
        "n_tasks": len(ranking.tasks),
        "several": several,
        "tasks_in_words": tasks(ranking),
        "level": f"{100 * LEVEL:g}",
        "parts": parts,
        "tasks": _tasks(ranking),
        "charts": None if table is None else case_charts(ranking, table),
        "has_cases": table is not None,
        "definitions": [(TITLES[scheme], text) for scheme, text in DEFINITIONS.items()],
        "about": dict(ranking.about["options"]) | {"versions": dict(ranking.about["versions"])},
        "cases": {
            "about": "The best, the median and the worst value of the teams in each case, hardest case first.",
            "file": "cases.csv",
        },
        "payload": {"columns": []} if table is None else table.payload({}),
    }
    template = page_environment(_ASSETS).get_template("ranking.html")
    return template.render({**page_assets(), **content})


def _rows(ranking: Ranking) -> list[dict[str, Any]]:
    _, scores = main_score(ranking)
    ranks = overall(ranking)
    others = {scheme: overall(ranking, scheme) for scheme in RankingScheme}
    worst = [overall(ranking, kind="worst", attribute=attribute) for attribute in ranking.strata]
    samples = _samples(ranking, ranking.scheme)
    return [
        {
            "team": team,
            "rank": rank_text(ranks[team]),
            "score": scores[team],
            "interval": rank_range(samples["rank_low"][team], samples["rank_high"][team]) if len(samples) else NO_VALUE,
            "first": share(samples["share_1"][team]) if len(samples) else NO_VALUE,
            "schemes": [rank_text(of_scheme[team]) for of_scheme in others.values()],
            "worst": [rank_text(of_attribute[team]) for of_attribute in worst],
        }
        for team in ranking.teams
    ]


def _samples(ranking: Ranking, scheme: RankingScheme) -> pd.DataFrame:
    return ranking.bootstrap[ranking.bootstrap["scheme"] == scheme.value].set_index("team")


def _schemes(ranking: Ranking) -> Figure:
    order = [ranking.scheme, *(scheme for scheme in RankingScheme if scheme is not ranking.scheme)]
    stops = [Stop(TITLES[s], "", overall(ranking, s).to_numpy(dtype=np.float64)) for s in order]
    return bump_chart(ranking.teams, stops, label="Ranks of the teams by each scheme", spacing=128)


def _stability(ranking: Ranking) -> Figure | None:
    rows = _samples(ranking, ranking.scheme)
    if rows.empty:
        return None
    shares = rows[[f"share_{n + 1}" for n in range(len(ranking.teams))]].to_numpy(dtype=np.float64)
    intervals = list(zip(rows["rank_low"], rows["rank_median"], rows["rank_high"], strict=True))
    return blob_plot(ranking.teams, shares, intervals, label="How often each team has each rank")


def _taus(ranking: Ranking) -> list[dict[str, str]]:
    return [
        {
            "scheme": TITLES[RankingScheme(row["scheme"])],
            "mean": _tau(row["mean"]),
            "interval": f"[{_tau(row['low'])}, {_tau(row['high'])}]",
        }
        for row in ranking.taus.to_dict("records")
    ]


def _tau(value: float) -> str:
    return NO_VALUE if value != value else f"{value:.2f}".replace("-", "−")


def _matrix(ranking: Ranking) -> Figure:
    won = ranking.tests[ranking.tests["significant"]].groupby(["better", "worse"], sort=False).size()
    wins = np.zeros((len(ranking.teams), len(ranking.teams)))
    place = {team: n for n, team in enumerate(ranking.teams)}
    for (better, worse), n in won.items():
        wins[place[better], place[worse]] = n
    return significance_matrix(ranking.teams, wins, len(ranking.tasks), label="Which team is significantly better")


def _attribute(ranking: Ranking, attribute: str, place: int) -> dict[str, Any]:
    stops = [Stop("all cases", stratum_about(ranking, ALL, ALL), overall(ranking).to_numpy(dtype=np.float64))]
    for stratum in ranking.strata[attribute]:
        ranks = overall(ranking, kind="stratum", attribute=attribute, stratum=stratum)
        about = stratum_about(ranking, attribute, stratum)
        stops.append(Stop(stratum_title(attribute, stratum), about, ranks.to_numpy(dtype=np.float64)))
    worst = overall(ranking, kind="worst", attribute=attribute).to_numpy(dtype=np.float64)
    stops.append(Stop("worst stratum", "", worst))
    title = attribute_title(attribute)
    return {
        "id": f"by-{place}",
        "title": f"By {title}",
        "name": title,
        "bump": bump_chart(ranking.teams, stops, label=f"Ranks of the teams by {title}"),
        "without": _without(ranking, attribute),
    }


def _without(ranking: Ranking, attribute: str) -> list[dict[str, Any]]:
    """How the ranking changes when one stratum is left out."""
    full = overall(ranking)
    taus = ranking.agreement[
        (ranking.agreement["kind"] == "without")
        & (ranking.agreement["attribute"] == attribute)
        & (ranking.agreement["scheme"] == ranking.scheme.value)
    ].set_index("stratum")
    rows = []
    for stratum in ranking.strata[attribute] if len(ranking.strata[attribute]) > 1 else ():
        ranks = overall(ranking, kind="without", attribute=attribute, stratum=stratum)
        moved = (ranks - full)[ranks != full].dropna()
        moved = moved.reindex(moved.abs().sort_values(ascending=False, kind="stable").index)
        rows.append(
            {
                "stratum": stratum_title(attribute, stratum),
                "n": f"{int(taus['n'][stratum]):,}",
                "tau": _tau(float(taus["kendall_tau"][stratum])),
                "first": ", ".join(str(team) for team, rank in ranks.items() if rank == 1) or NO_VALUE,
                "n_moved": str(len(moved)),
                "moved": [_move(str(team), full[team], ranks[team]) for team in moved.index[:3]],
            }
        )
    return rows


def _move(team: str, before: float, after: float) -> str:
    return f"{shortened(team, 32)}: {rank_text(before)} → {rank_text(after)}"


def _tasks(ranking: Ranking) -> dict[str, Any]:
    """The rank of each team in each metric and label, with the score."""
    rows = selected(ranking, kind="all")
    metrics: dict[str, list[str]] = {}
    for task in ranking.tasks:
        metrics.setdefault(ranking.metric(task.metric).title, []).append(task.label)
    of_team: dict[str, list[dict[str, Any]]] = {team: [] for team in ranking.teams}
    n_teams = len(ranking.teams)
    for row in rows[rows["metric"] != OVERALL].to_dict("records"):
        rank = float(row["rank"])
        # The last ranks have the darkest of the shades that scores have in reports.
        shade = 0 if rank != rank or n_teams < 2 else round(6 * (rank - 1) / (n_teams - 1))
        of_team[str(row["team"])].append({"rank": rank_text(rank), "score": score_text(row, ranking), "shade": shade})
    return {"metrics": list(metrics.items()), "rows": list(of_team.items())}
