"""The figures of cases in two dimensions, a dot each.

Their points are a frame with the columns ``x``, ``y`` (in shown units), ``row`` (of the case table)
and ``stratum`` (index).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.pages import svg


def against_volume(
    points: pd.DataFrame, metric: Metric, *, label: str, columns: Sequence[int]
) -> Markup:
    """A metric against the reference's volume in ml, logarithmic where it spans more than a decade.

    ``columns`` of the case table are those of the metric and the volume. Cases without a value or a
    positive volume are left out; without any other, the text is empty.
    """
    points = _finite(points[points["x"] > 0])
    if not len(points):
        return Markup("")

    smallest = points["x"].min()
    largest = points["x"].max()
    is_logarithmic = bool(largest / smallest > 10)
    if is_logarithmic:
        x_limits = (smallest / 1.15, largest * 1.15)
    else:
        x_limits = svg.value_range([largest], fraction=False)
    y_limits = svg.value_range(points["y"].tolist(), fraction=metric.is_bounded)

    x, y = svg.scales(x_limits, y_limits, logarithmic=is_logarithmic)
    parts = [
        *svg.axes(
            x,
            y,
            "volume of the reference (ml)",
            fmt.metric_title(metric),
        ),
        _dots(points, x, y),
    ]
    return svg.figure(
        parts,
        label=f"{metric.title} of {label} against the reference's volume: every case a dot",
        columns=columns,
    )


def paired(
    points: pd.DataFrame,
    metric: Metric,
    *,
    methods: Sequence[str],
    label: str,
    columns: Sequence[int],
) -> Markup:
    """A method (y) against the baseline (x), with the diagonal where both are equal.

    Empty without a pair of values.
    """
    points = _finite(points)
    if not len(points):
        return Markup("")

    limits = svg.value_range([*points["x"], *points["y"]], fraction=metric.is_bounded)
    x, y = svg.scales(limits, limits)
    title = fmt.metric_title(metric)
    baseline, method = (svg.shortened(name, 30) for name in methods)
    better_side = "above" if metric.more_is_better else "below"
    hint = f"{better_side} the line: {method} is better"

    parts = [
        *svg.axes(x, y, f"{baseline}, {title}", f"{method}, {title}"),
        svg.line(
            x.start,
            y.start,
            x.end,
            y.end,
            "diagonal",
        ),
        svg.text(x.end, 11, hint, anchor="end"),
        _dots(points, x, y),
    ]
    return svg.figure(
        parts,
        label=f"{metric.title} of {label}: {methods[1]} against {methods[0]}, every case a dot",
        columns=columns,
    )


def _finite(points: pd.DataFrame) -> pd.DataFrame:
    is_finite = np.isfinite(points[["x", "y"]])
    return points[is_finite.all(axis=1)]


def _dots(points: pd.DataFrame, x: svg.Scale, y: svg.Scale) -> Markup:
    # From left to right, so that the arrow keys walk along the axis.
    ordered = points.sort_values("x", kind="stable")
    looks = [svg.look(stratum, stratum) for stratum in ordered["stratum"].tolist()]
    places = map(x, ordered["x"].tolist())
    heights = map(y, ordered["y"].tolist())
    return svg.dots(zip(looks, places, heights, ordered["row"].tolist(), strict=True))
