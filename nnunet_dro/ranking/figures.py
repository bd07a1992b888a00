"""The figures of a ranking: ranks over strata, and bootstrapped ranks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from nnunet_dro.pages.document import Figure
from nnunet_dro.pages.svg import N_COLOURS, at, figure, line, shortened, text
from nnunet_dro.ranking.from_evaluations import FloatArray

_ROW = 24.0
_SIDE = 172.0

# Radius of the mark of a rank, and of the blob of a rank that is always the same.
_MARK = 9.5
_BLOB = 11.5
_LETTERS = 20  # Letters of a name beside a figure.


class Stop(NamedTuple):
    """A column of the bump chart: a stratum and the rank of each team in it."""

    title: str
    about: str  # what is below the title
    ranks: Sequence[float]  # in the order of the ranking; NaN where a team has none


def bump_chart(
    teams: Sequence[str], stops: Sequence[Stop], *, label: str, spacing: float = 0.0
) -> Figure:
    """The ranks of the teams from stratum to stratum, the whole ranking first.

    Ties are drawn one below the other.
    """
    step = spacing or max(62.0, min(110.0, 560 / max(len(stops) - 1, 1)))
    width = 2 * _SIDE + step * (len(stops) - 1)
    top = 48.0
    x = [_SIDE + step * place for place in range(len(stops))]
    rows = [_rows(stop.ranks) for stop in stops]

    def y(row: int) -> float:
        return top + _ROW * (row + 0.5)

    parts = []
    for stop, at_x in zip(stops, x, strict=True):
        title = Markup("<title>{}</title>").format(f"{stop.title}, {stop.about}")
        head = text(
            at_x, 16, shortened(stop.title, max(7, int(step / 6.3))), anchor="middle", kind="axis"
        )
        parts += [
            Markup("<g>{}{}</g>").format(title, head),
            text(at_x, 32, stop.about, anchor="middle"),
        ]
        parts.append(line(at_x, top, at_x, top + _ROW * len(teams), "grid"))
    # The first team is drawn last, above the others.
    for team in reversed(range(len(teams))):
        points = " ".join(
            f"{at(px)},{at(y(row[team]))}" for px, row in zip(x, rows, strict=True) if team in row
        )
        parts.append(Markup('<polyline class="way {}" points="{}"/>').format(_kind(team), points))
    for team in reversed(range(len(teams))):
        for stop, px, row in zip(stops, x, rows, strict=True):
            if team in row:
                about = f"{teams[team]}: {stop.title}"
                parts.append(_mark(px, y(row[team]), _kind(team), int(stop.ranks[team]), about))
    for row, px, anchor in ((rows[0], x[0] - 18, "end"), (rows[-1], x[-1] + 18, "start")):
        parts += [
            _name(px, y(row[team]) + 4, name, anchor)
            for team, name in enumerate(teams)
            if team in row
        ]
    return _wide(parts, label, width, top + _ROW * len(teams) + 6)


def blob_plot(
    teams: Sequence[str],
    shares: FloatArray,
    intervals: Sequence[tuple[float, float, float]],
    *,
    label: str,
) -> Figure:
    """How often each team has each rank: the area of a blob is the share of the bootstrap samples.

    ``shares`` are of shape (n_teams, n_ranks). A line spans the 2.5th to the 97.5th percentile of
    each team's rank, the ends of its interval, with a cross at the median, between these.
    """
    n = len(teams)
    top = 34.0
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
                form = Markup(
                    '<circle class="blob {}" cx="{}" cy="{}" r="{:.2f}"><title>{}</title></circle>'
                )
                about = f"{name}: rank {place + 1} in {100 * share:.1f} % of the samples"
                radius = max(0.9, min(_BLOB, step * 0.48) * share**0.5)
                parts.append(
                    form.format(
                        _kind(team), at(_SIDE + step * (place + 0.5)), at(py), radius, about
                    )
                )
        parts.append(line(low, py, high, py, "span"))
        parts += [line(median - 4, py - arm, median + 4, py + arm, "span") for arm in (4, -4)]
    return _wide(parts, label, width, top + _ROW * n + 6)


def _wide(parts: Sequence[Markup], label: str, width: float, height: float) -> Figure:
    """A drawing that scrolls where it is wider than the page."""
    form = Markup(
        '<div class="scroll wide" role="region" tabindex="0" aria-label="{}">'
        '<figure style="max-width:{:.1f}px;min-width:{:.1f}px">{}</figure></div>'
    )
    svg = figure(parts, label=label, height=height, width=width)
    return Figure(drawing=form.format(label, round(1.15 * width), round(0.72 * width), svg))


def _rows(ranks: Sequence[float]) -> Mapping[int, int]:
    """The row of each team: by rank, equal ones in the order of the ranking.

    Teams without a rank have none.
    """
    ranked = [team for team in range(len(ranks)) if ranks[team] == ranks[team]]
    return {
        team: row for row, team in enumerate(sorted(ranked, key=lambda team: (ranks[team], team)))
    }


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
