"""The empirical quantile function per stratum: where percentiles are read."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from nnunet_dro.evaluation.report.charts.stratum_cases import StratumCases
from nnunet_dro.evaluation.report.formatting import unit_sign
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages.svg import N_COLOURS, WIDTH, Scale, at, figure, line, text, tick_text, value_range

_HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 326.0, 46.0, 12.0, 26.0, 46.0

#: Points of a curve: enough for every per cent of the cases.
_MOST_POINTS = 201

#: Of many curves in one figure no more than these points can be told apart.
_MANY_CURVES, _POINTS_OF_MANY = 12, 101

_DASHES = ("", "6 3", "2 3", "9 3 2 3", "12 4")


def quantile_curves(strata: Sequence[StratumCases], metric: Metric, *, label: str) -> Markup:
    """A curve per stratum: x the share of its cases, y the value they do not exceed.

    Args:
        strata: The strata.
        metric: The metric.
        label: Name, for the description.

    Returns:
        The SVG element. Between cases it interpolates linearly, as the percentiles of the tables do.
    """
    values = [float(v) for stratum in strata for v in stratum.values]
    low, high = value_range(values, fraction=metric.unit == "fraction")
    x = Scale(0, 100, _LEFT, WIDTH - _RIGHT)
    y = Scale(low, high, _HEIGHT - _BOTTOM, _TOP)
    parts = [line(_LEFT, y(tick), WIDTH - _RIGHT, y(tick), "grid") for tick in y.ticks()]
    parts += [text(_LEFT - 7, y(tick) + 4, tick_text(tick), anchor="end") for tick in y.ticks()]
    for share in (5, 10, 25, 50, 75, 100):
        parts.append(line(x(share), _TOP, x(share), _HEIGHT - _BOTTOM, "grid percentile"))
        parts.append(text(x(share), _HEIGHT - _BOTTOM + 16, str(share), anchor="middle"))
    parts.append(text((_LEFT + WIDTH) / 2, _HEIGHT - 8, "share of cases (%)", anchor="middle", kind="axis"))
    parts.append(text(4, 11, f"{metric.title} ({unit_sign(metric)})", kind="axis"))
    most_points = _MOST_POINTS if len(strata) <= _MANY_CURVES else _POINTS_OF_MANY
    for stratum in strata:
        ordered = np.sort(stratum.values)
        if not len(ordered):
            continue
        shares = np.linspace(0, 1, min(max(len(ordered), 2), most_points))
        heights = np.quantile(ordered, shares)
        points = " ".join(f"{at(x(100 * s))},{at(y(h))}" for s, h in zip(shares, heights, strict=True))
        form = Markup('<polyline class="curve s{}" points="{}" stroke-dasharray="{}"/>')
        parts.append(form.format(stratum.index % N_COLOURS, points, _DASHES[stratum.index % len(_DASHES)]))
    return figure(_HEIGHT, parts, label=f"{metric.title} of {label}: quantile function per stratum")


def legend_line(index: int) -> Markup:
    """The line of the stratum of this index as an icon for a legend."""
    form = Markup(
        '<svg class="stroke" viewBox="0 0 30 10" aria-hidden="true">'
        '<line class="curve s{}" x1="1" y1="5" x2="29" y2="5" stroke-dasharray="{}"/></svg>'
    )
    return form.format(index % N_COLOURS, _DASHES[index % len(_DASHES)])
