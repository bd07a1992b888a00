"""The figure of the quantile functions of strata."""

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.figures import StratumCases
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages import svg

#: Points of a curve: enough for every per cent of the cases, and what can be told apart where there
#: are many curves.
_MOST_POINTS = 201
_POINTS_OF_MANY = 101
_MANY_CURVES = 12

_DASHES = ("", "6 3", "2 3", "9 3 2 3", "12 4")


def quantile_curves(
    strata: Sequence[StratumCases], metric: Metric, *, label: str, unit: str = "case"
) -> Markup:
    """A curve per stratum: the value (y) that a share of its cases or patients (x) does not exceed.

    Values between those of cases are interpolated, as those of percentiles are.
    """
    values = [float(value) for stratum in strata for value in stratum.values]
    x, y = svg.scales((0, 100), svg.value_range(values, fraction=metric.is_bounded))
    parts = svg.axes(
        x,
        y,
        f"share of {unit}s (%)",
        fmt.metric_title(metric),
        x_ticks=(5, 10, 25, 50, 75, 100),
        x_kind="grid percentile",
    )

    most_points = _MOST_POINTS if len(strata) <= _MANY_CURVES else _POINTS_OF_MANY
    for stratum in strata:
        ordered = np.sort(stratum.values)
        if not len(ordered):
            continue
        n_points = min(max(len(ordered), 2), most_points)
        shares = np.linspace(0, 1, n_points)
        heights = np.quantile(ordered, shares)

        points = []
        for share, height in zip(shares, heights, strict=True):
            points.append((x(100 * share), y(height)))
        colour, dashes = looks_of(stratum.index)
        parts.append(svg.curve(points, colour, dashes))

    return svg.figure(parts, label=f"{metric.title} of {label}: quantile function per stratum")


def looks_of(index: int) -> tuple[str, str]:
    """The colour and the dashes of the curve of the stratum of this index."""
    colour = f"s{index % svg.N_COLOURS}"
    dashes = _DASHES[index % len(_DASHES)]
    return colour, dashes
