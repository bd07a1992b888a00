"""The figures of a ranking: ranks over strata, and bootstrapped ranks."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from nnunet_dro.arrays import FloatArray
from nnunet_dro.pages.document import Figure
from nnunet_dro.pages.svg import N_COLOURS, at, figure, line, shortened, text

_ROW = 24.0  # Height of the row of a team.
_SIDE = 172.0  # Width of the names beside a figure.
_LETTERS = 20  # Letters of a name beside a figure.

# What is above the rows.
_TOP_OF_BUMPS = 48.0
_TOP_OF_BLOBS = 34.0

# Radius of the mark of a rank, and of the blob of a rank that is always the same.
_MARK = 9.5
_BLOB = 11.5


class Stop(NamedTuple):
    """A column of the bump chart: a stratum and the rank of each team in it."""

    title: str
    about: str  # what is below the title
    ranks: Sequence[float]  # in the order of the ranking; NaN where a team has none


def bump_chart(
    teams: Sequence[str], stops: Sequence[Stop], *, label: str, spacing: float = 0.0
) -> Figure:
    """The ranks of the teams from stratum to stratum; teams that tie are drawn one below the other.

    The ranking itself is the first stop. The first `N_COLOURS` teams have colours. Columns are
    ``spacing`` apart, or (0) as suits their number.
    """
    n_steps = len(stops) - 1
    step = spacing or max(62.0, min(110.0, 560 / max(n_steps, 1)))
    columns = [_SIDE + step * place for place in range(len(stops))]
    rows = [_rows(stop.ranks) for stop in stops]
    bottom = _TOP_OF_BUMPS + _ROW * len(teams)

    parts: list[Markup] = []
    for stop, x in zip(stops, columns, strict=True):
        parts += _head(stop, x, step)
        parts.append(line(x, _TOP_OF_BUMPS, x, bottom, "grid"))

    # The first team is drawn last, above the others.
    for team in reversed(range(len(teams))):
        parts.append(_way(team, columns, rows))

    for team in reversed(range(len(teams))):
        for stop, x, row_of_team in zip(stops, columns, rows, strict=True):
            if team in row_of_team:
                y = _y(_TOP_OF_BUMPS, row_of_team[team])
                rank = int(stop.ranks[team])
                about = f"{teams[team]}: {stop.title}"
                parts.append(_mark(x, y, team_kind(team), rank, about))

    parts += _names(teams, rows[0], columns[0] - 18, "end")
    parts += _names(teams, rows[-1], columns[-1] + 18, "start")
    width = 2 * _SIDE + step * n_steps
    return wide(parts, label, width=width, height=bottom + 6)


def _y(top: float, row: int) -> float:
    """The middle of a row."""
    return top + _ROW * (row + 0.5)


def _head(stop: Stop, x: float, step: float) -> tuple[Markup, Markup]:
    """What is above a column of the bump chart."""
    n_letters = max(7, int(step / 6.3))
    title = text(x, 16, shortened(stop.title, n_letters), anchor="middle", kind="axis")
    about = text(x, 32, stop.about, anchor="middle")
    hover = Markup("<title>{}</title>").format(f"{stop.title}, {stop.about}")
    return Markup("<g>{}{}</g>").format(hover, title), about


def _way(team: int, columns: Sequence[float], rows: Sequence[Mapping[int, int]]) -> Markup:
    """The line of a team through the stops in which it has a rank."""
    points = []
    for x, row_of_team in zip(columns, rows, strict=True):
        if team in row_of_team:
            y = _y(_TOP_OF_BUMPS, row_of_team[team])
            points.append(f"{at(x)},{at(y)}")
    form = Markup('<polyline class="way {}" points="{}"/>')
    return form.format(team_kind(team), " ".join(points))


def _names(
    teams: Sequence[str], row_of_team: Mapping[int, int], x: float, anchor: str
) -> list[Markup]:
    """The names of the teams beside the bump chart."""
    names = []
    for team, name in enumerate(teams):
        if team in row_of_team:
            y = _y(_TOP_OF_BUMPS, row_of_team[team])
            names.append(_name(x, y + 4, name, anchor))
    return names


def blob_plot(
    teams: Sequence[str],
    shares: FloatArray,
    intervals: Sequence[tuple[float, float, float]],
    *,
    label: str,
    draws: str = "samples",
) -> Figure:
    """How often each team has each rank: the area of a blob is the share of the bootstrap samples.

    ``shares`` are of shape (n_teams, n_ranks). A line spans the interval of each team's rank, with
    a cross at the median, which stands between its ends. ``draws`` are what the shares are of.
    """
    n = len(teams)
    step = 30.0 if n <= 20 else max(13.0, 600 / n)
    columns = [_SIDE + step * (place + 0.5) for place in range(n)]
    bottom = _TOP_OF_BLOBS + _ROW * n

    parts = [text(_SIDE + step * n / 2, 12, "rank", anchor="middle", kind="axis")]
    for rank, x in enumerate(columns, start=1):
        parts.append(line(x, _TOP_OF_BLOBS, x, bottom, "grid"))
        parts.append(text(x, _TOP_OF_BLOBS - 6, str(rank), anchor="middle"))

    largest = min(_BLOB, step * 0.48)
    for team, name in enumerate(teams):
        y = _y(_TOP_OF_BLOBS, team)
        parts.append(_name(_SIDE - 8, y + 4, name, "end"))
        for place, share in enumerate(shares[team].tolist()):
            if share > 0:
                about = f"{name}: rank {place + 1} in {100 * share:.1f} % of the {draws}"
                radius = max(0.9, largest * share**0.5)
                parts.append(_blob(columns[place], y, team_kind(team), radius, about))
        parts += _span(intervals[team], y, step)

    return wide(parts, label, width=_SIDE + step * n + 12, height=bottom + 6)


def team_legend(teams: Sequence[str]) -> Figure:
    """The colours of the teams."""
    form = Markup(
        '<svg class="mark" viewBox="0 0 14 14" aria-hidden="true">'
        '<circle class="result {}" cx="7" cy="7" r="5"/></svg>'
    )
    legend = [([form.format(team_kind(team))], name) for team, name in enumerate(teams)]
    return Figure(legend=legend)


def wide(parts: Sequence[Markup], label: str, *, width: float, height: float) -> Figure:
    """A drawing that scrolls where it is wider than the page."""
    form = Markup(
        '<div class="scroll wide" role="region" tabindex="0" aria-label="{}">'
        '<figure style="max-width:{:.1f}px;min-width:{:.1f}px">{}</figure></div>'
    )
    svg = figure(parts, label=label, height=height, width=width)
    widest = round(1.15 * width)
    narrowest = round(0.72 * width)
    return Figure(drawing=form.format(label, widest, narrowest, svg))


def _rows(ranks: Sequence[float]) -> Mapping[int, int]:
    """The row of each team: by rank, equal ones in the order of the ranking.

    Teams without a rank have none.
    """
    ranked = [team for team, rank in enumerate(ranks) if not math.isnan(rank)]
    ranked.sort(key=lambda team: (ranks[team], team))
    return {team: row for row, team in enumerate(ranked)}


def team_kind(team: int) -> str:
    """The class of the colour of a team; no two of the first `N_COLOURS` have the same."""
    return f"s{team}" if team < N_COLOURS else "others"


def _blob(x: float, y: float, kind: str, radius: float, about: str) -> Markup:
    form = Markup('<circle class="blob {}" cx="{}" cy="{}" r="{:.2f}"><title>{}</title></circle>')
    return form.format(kind, at(x), at(y), radius, about)


def _span(interval: tuple[float, float, float], y: float, step: float) -> list[Markup]:
    """A line from the lowest to the highest rank, with a cross at the median."""
    low, median, high = (_SIDE + step * (rank - 0.5) for rank in interval)
    return [
        line(low, y, high, y, "span"),
        line(median - 4, y - 4, median + 4, y + 4, "span"),
        line(median - 4, y + 4, median + 4, y - 4, "span"),
    ]


def _mark(x: float, y: float, kind: str, rank: int, about: str) -> Markup:
    form = Markup(
        '<g class="rank {}"><title>{}, rank {}</title><circle cx="{}" cy="{}" r="{}"/>'
        '<text x="{}" y="{}" text-anchor="middle">{}</text></g>'
    )
    return form.format(kind, about, rank, at(x), at(y), _MARK, at(x), at(y + 4), rank)


def _name(x: float, y: float, name: str, anchor: str) -> Markup:
    form = Markup("<g><title>{}</title>{}</g>")
    shown = text(x, y, shortened(name, _LETTERS), anchor=anchor, kind="team")
    return form.format(name, shown)
