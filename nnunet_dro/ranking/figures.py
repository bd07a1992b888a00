"""The figures of a ranking: ranks over strata, bootstrapped ranks, and significant differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nnunet_dro.pages.svg import N_COLOURS, at, figure, line, shortened, text
from nnunet_dro.ranking.from_evaluations import FloatArray

_ROW, _SIDE = 24.0, 172.0

#: Radius of the mark of a rank, and of the blob of a rank that is always the same.
_MARK, _BLOB = 9.5, 11.5

#: Letters of a name beside a figure.
_LETTERS = 20


@dataclass(frozen=True)
class Drawing:
    """An SVG element and its width in figure units, about one CSS pixel each."""

    svg: Markup
    width: float


@dataclass(frozen=True, eq=False)
class Stop:
    """A column of the bump chart: a stratum and the rank of each team in it; NaN where nobody has one.

    Attributes:
        title: What is above the column.
        about: What is below the title.
        ranks: Shape (n_teams,), in the order of the ranking.
    """

    title: str
    about: str
    ranks: FloatArray


def bump_chart(teams: Sequence[str], stops: Sequence[Stop], *, label: str, spacing: float = 0.0) -> Drawing:
    """The ranks of the teams from stratum to stratum; teams that tie are drawn one below the other.

    Args:
        teams: In the order of the ranking.
        stops: The columns, the ranking itself first.
        label: What it shows, for those who do not see it.
        spacing: Distance of the columns; 0 for one that suits their number.

    Returns:
        The figure: a line per team, the first `N_COLOURS` in colour.
    """
    step = spacing or max(62.0, min(110.0, 560 / max(len(stops) - 1, 1)))
    width, top = 2 * _SIDE + step * (len(stops) - 1), 48.0
    x = [_SIDE + step * place for place in range(len(stops))]
    rows = [_rows(stop.ranks) for stop in stops]

    def y(row: int) -> float:
        return top + _ROW * (row + 0.5)

    parts = []
    for stop, at_x in zip(stops, x, strict=True):
        title = Markup("<title>{}</title>").format(f"{stop.title}, {stop.about}")
        head = text(at_x, 16, shortened(stop.title, max(7, int(step / 6.3))), anchor="middle", kind="axis")
        parts += [Markup("<g>{}{}</g>").format(title, head), text(at_x, 32, stop.about, anchor="middle")]
        parts.append(line(at_x, top, at_x, top + _ROW * len(teams), "grid"))
    # The first team is drawn last, above the others.
    for team in reversed(range(len(teams))):
        points = " ".join(f"{at(px)},{at(y(row[team]))}" for px, row in zip(x, rows, strict=True) if team in row)
        parts.append(Markup('<polyline class="way {}" points="{}"/>').format(_kind(team), points))
    for team in reversed(range(len(teams))):
        for stop, px, row in zip(stops, x, rows, strict=True):
            if team in row:
                parts.append(
                    _mark(px, y(row[team]), _kind(team), int(stop.ranks[team]), f"{teams[team]}: {stop.title}")
                )
    for row, px, anchor in ((rows[0], x[0] - 18, "end"), (rows[-1], x[-1] + 18, "start")):
        parts += [_name(px, y(row[team]) + 4, name, anchor) for team, name in enumerate(teams) if team in row]
    return Drawing(figure(top + _ROW * len(teams) + 6, parts, label=label, width=width), width)


def blob_plot(
    teams: Sequence[str], shares: FloatArray, intervals: Sequence[tuple[float, float, float]], *, label: str
) -> Drawing:
    """How often each team has each rank: the area of a blob is the share of the bootstrap samples.

    Args:
        teams: In the order of the ranking.
        shares: Shape (n_teams, n_ranks).
        intervals: The 2.5th percentile, the median and the 97.5th percentile of each team's rank.
        label: What it shows, for those who do not see it.

    Returns:
        The figure: a line from the 2.5th to the 97.5th percentile, and a cross at the median.
    """
    n, top = len(teams), 34.0
    step = 30.0 if n <= 20 else max(13.0, 600 / n)
    width = _SIDE + step * n + 12
    parts = [text(_SIDE + step * n / 2, 12, "rank", anchor="middle", kind="axis")]
    for rank in range(1, n + 1):
        px = _SIDE + step * (rank - 0.5)
        parts.append(line(px, top, px, top + _ROW * n, "grid"))
        parts.append(text(px, top - 6, str(rank), anchor="middle"))
    for team, name in enumerate(teams):
        py = top + _ROW * (team + 0.5)
        parts.append(_name(_SIDE - 8, py + 4, name, "end"))
        low, median, high = (_SIDE + step * (rank - 0.5) for rank in intervals[team])
        for place, share in enumerate(shares[team].tolist()):
            if share > 0:
                form = Markup('<circle class="blob {}" cx="{}" cy="{}" r="{:.2f}"><title>{}</title></circle>')
                about = f"{name}: rank {place + 1} in {100 * share:.1f} % of the samples"
                radius = max(0.9, min(_BLOB, step * 0.48) * share**0.5)
                parts.append(form.format(_kind(team), at(_SIDE + step * (place + 0.5)), at(py), radius, about))
        parts.append(line(low, py, high, py, "span"))
        parts += [
            line(median - 4, py - 4, median + 4, py + 4, "span"),
            line(median - 4, py + 4, median + 4, py - 4, "span"),
        ]
    return Drawing(figure(top + _ROW * n + 6, parts, label=label, width=width), width)


def significance_matrix(teams: Sequence[str], wins: FloatArray, n_tasks: int, *, label: str) -> Drawing:
    """In how many tasks the team of the row is significantly better than that of the column.

    Args:
        teams: In the order of the ranking.
        wins: Number of tasks, shape (n_teams, n_teams).
        n_tasks: Number of tasks.
        label: What it shows, for those who do not see it.

    Returns:
        The figure: the more tasks, the darker the cell; the number stands in it where there are several tasks.
    """
    n, top, cell = len(teams), 22.0, _ROW
    left = _SIDE + 26
    parts = [text(left + cell * (c + 0.5), top - 6, str(c + 1), anchor="middle") for c in range(n)]
    for row, name in enumerate(teams):
        py = top + cell * row
        parts.append(_name(_SIDE, py + cell / 2 + 4, name, "end"))
        parts.append(text(left - 6, py + cell / 2 + 4, str(row + 1), anchor="end"))
        for column, other in enumerate(teams):
            if row == column:
                continue
            n_won = int(wins[row, column])
            form = Markup(
                '<g><title>{}</title><rect class="won" x="{}" y="{}" width="{}" height="{}" fill-opacity="{}"/></g>'
            )
            of = f"{n_won} of {n_tasks}" if n_tasks > 1 else "yes" if n_won else "no"
            title = f"{name} significantly better than {other}: {of}"
            opacity = f"{0.06 + 0.79 * n_won / n_tasks:.2f}" if n_won else "0.03"
            parts.append(
                form.format(title, at(left + cell * column + 1), at(py + 1), at(cell - 2), at(cell - 2), opacity)
            )
            if n_won and n_tasks > 1:
                kind = "count dark" if n_won > n_tasks / 2 else "count"
                parts.append(
                    text(left + cell * (column + 0.5), py + cell / 2 + 4, str(n_won), anchor="middle", kind=kind)
                )
    return Drawing(figure(top + cell * n + 4, parts, label=label, width=left + cell * n + 8), left + cell * n + 8)


def _rows(ranks: FloatArray) -> Mapping[int, int]:
    """The row of each team: by rank, equal ones in the order of the ranking; teams without a rank have none."""
    ranked = [team for team in range(len(ranks)) if ranks[team] == ranks[team]]
    return {team: row for row, team in enumerate(sorted(ranked, key=lambda team: (float(ranks[team]), team)))}


def _kind(team: int) -> str:
    return f"s{team}" if team < N_COLOURS else "others"


def _mark(x: float, y: float, kind: str, rank: int, about: str) -> Markup:
    form = Markup(
        '<g class="rank {}"><title>{}, rank {}</title><circle cx="{}" cy="{}" r="{}"/>'
        '<text x="{}" y="{}" text-anchor="middle">{}</text></g>'
    )
    return form.format(kind, about, rank, at(x), at(y), _MARK, at(x), at(y + 4), rank)


def _name(x: float, y: float, name: str, anchor: str) -> Markup:
    form = Markup("<g><title>{}</title>{}</g>")
    return form.format(name, text(x, y, shortened(name, _LETTERS), anchor=anchor, kind="team"))
