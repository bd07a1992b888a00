"""Podium plots: which ranks each team has in the cases, and with which scores.

Source: Eugster, Hothorn and Leisch 2008, Exploratory and inferential analysis of benchmark
experiments, as Wiesenfarth et al. 2021 (Scientific Reports 11:2369, figure 2) draw challenges.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.arrays import FloatArray
from nnunet_dro.evaluation.report.formatting import metric_title, scaled
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.document import Figure
from nnunet_dro.pages.svg import Scale, at, line, text, tick_text, value_range
from nnunet_dro.ranking.contest import competition_ranks
from nnunet_dro.ranking.figures import team_kind, wide
from nnunet_dro.ranking.from_evaluations import Entries

#: The teams on a podium, which are the first ones of the ranking.
MOST_TEAMS = 7

#: The cases that are drawn, from the hardest to the easiest at equal steps.
MOST_CASES = 60

# Measures of a figure: the width of the column of a team, the space between podiums, at the left
# and above, and the heights of the scores and of the shares.
_COLUMN = 13.0
_GAP = 16.0
_LEFT = 46.0
_TOP = 26.0
_SCORES = 210.0
_SHARES = 70.0


def podium_table(entries: Entries, order: Sequence[int]) -> pd.DataFrame:
    """How often each of the first teams has each rank among these in the cases.

    A row per task and team: ``metric``, ``label``, ``team``, and ``share_1`` ..., the shares of the
    ranks, of the cases that count in the task; 0 where none does.
    """
    first = list(order[:MOST_TEAMS])
    rows = []
    for place, task in enumerate(entries.tasks):
        ranks = competition_ranks(entries.goodness[place, first].T)
        ranks = ranks[~np.isnan(ranks).any(axis=1)]
        n_cases = max(len(ranks), 1)
        for column, team in enumerate(first):
            shares = [np.sum(ranks[:, column] == n) / n_cases for n in range(1, len(first) + 1)]
            rows.append((task.metric, task.label, entries.teams[team], *shares))

    columns = [f"share_{n}" for n in range(1, len(first) + 1)]
    return pd.DataFrame(rows, columns=["metric", "label", "team", *columns])


def podium_plot(
    teams: Sequence[str],
    shares: FloatArray,
    values: FloatArray | None,
    metric: Metric,
    *,
    label: str,
) -> Figure:
    """A podium for each rank: above it the scores with which it was reached, below it how often.

    A column of a podium is a team. The scores of one case are joined by a line. ``shares`` are of
    shape (n_teams, n_ranks), ``values`` of (n_teams, n_cases); None draws only the shares.
    """
    parts: list[Markup] = []
    base = _TOP
    if values is not None:
        base += _SCORES + 14
        parts += _scores(values, metric)

    for place in range(len(teams)):
        left = _x(place, 0, len(teams)) - _COLUMN / 2
        width = _COLUMN * len(teams)
        parts.append(text(left + width / 2, 14, f"rank {place + 1}", anchor="middle", kind="axis"))
        parts.append(_rectangle("podium", left, base, width, _SHARES, ""))
        for team, name in enumerate(teams):
            share = float(shares[team, place])
            about = f"{name}: rank {place + 1} in {100 * share:.0f} % of the cases"
            height = _SHARES * share
            x = _x(place, team, len(teams)) - _COLUMN / 2
            kind = f"share {team_kind(team)}"
            parts.append(_rectangle(kind, x, base + _SHARES - height, _COLUMN, height, about))

    right = _x(len(teams) - 1, len(teams) - 1, len(teams)) + _GAP
    return wide(parts, label, width=right, height=base + _SHARES + 6)


def _x(rank: int, team: int, n_teams: int) -> float:
    """The middle of the column of a team on the podium of a rank (0 ...)."""
    return _LEFT + rank * (n_teams * _COLUMN + _GAP) + (team + 0.5) * _COLUMN


def _scores(values: FloatArray, metric: Metric) -> list[Markup]:
    """The scores of the drawn cases, those of one case joined by a line."""
    shown = np.array([[scaled(float(value), metric) for value in row] for row in values])
    finite = shown[np.isfinite(shown)].tolist()
    low, high = value_range(finite, fraction=metric.is_bounded)
    y = Scale(low, high, _TOP + _SCORES, _TOP)

    n_teams = len(values)
    right = _x(n_teams - 1, n_teams - 1, n_teams) + _COLUMN / 2
    parts = [text(4, 14, metric_title(metric), kind="axis")]
    for tick in y.ticks():
        parts.append(line(_LEFT, y(tick), right, y(tick), "grid"))
        parts.append(text(_LEFT - 7, y(tick) + 4, tick_text(tick), anchor="end"))

    goodness = metric.sign * values
    ranks = competition_ranks(goodness.T)
    dots: list[Markup] = []
    for case in _drawn_cases(goodness):
        results = _results(shown[:, case], ranks[case], y)
        places = [f"{at(x)},{at(height)}" for x, height, _ in results]
        parts.append(Markup('<polyline class="thread" points="{}"/>').format(" ".join(places)))
        # Not Markup.format: all of a dot is made here, and there are thousands.
        dots += [
            Markup(
                f'<circle class="result {team_kind(team)}" cx="{at(x)}" cy="{at(height)}" r="3"/>'
            )
            for x, height, team in results
        ]
    return [*parts, *dots]


def _results(shown: FloatArray, ranks: FloatArray, y: Scale) -> list[tuple[float, float, int]]:
    """Where the scores of one case are drawn, from left to right, and whose they are."""
    results = []
    for team in np.flatnonzero(np.isfinite(shown)).tolist():
        x = _x(int(ranks[team]) - 1, team, len(shown))
        results.append((x, y(shown[team]), team))
    return sorted(results)


def _drawn_cases(goodness: FloatArray) -> list[int]:
    """Cases in which some team has a value, from the hardest to the easiest."""
    has_value = np.flatnonzero(~np.isnan(goodness).all(axis=0))
    medians = np.nanmedian(goodness[:, has_value], axis=0)
    by_hardness = has_value[np.argsort(medians, kind="stable")]
    n_drawn = min(MOST_CASES, len(by_hardness))
    places = np.linspace(0, len(by_hardness) - 1, n_drawn).round().astype(int)
    return [int(case) for case in by_hardness[places]]


def _rectangle(kind: str, x: float, y: float, width: float, height: float, about: str) -> Markup:
    form = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>')
    return form.format(kind, at(x), at(y), at(width), at(height), about)
