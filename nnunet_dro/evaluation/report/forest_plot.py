"""The figure of the differences of a comparison, with whiskers."""

import math
from collections.abc import Iterator, Sequence

import pandas as pd
from markupsafe import Markup

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.strata_tables import in_order
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.pages import svg

#: Measures: the height of a line, and the space around the lines.
_LINE = 24.0
_ABOVE = 20.0
_BELOW = 52.0
_LEFT = 178.0
_RIGHT = 14.0

#: The paths of the marks. Shape as well as colour tells the direction: a triangle points to the
#: side that it lies on.
_SHAPES = {
    "better": "M{x} {top}l4.6 8h-9.2z",
    "worse": "M{x} {bottom}l4.6 -8h-9.2z",
    "same": "M{left} {top}h8v8h-8z",
}


def forest(rows: pd.DataFrame, metric: Metric, statistic: str) -> Markup:
    """The differences of a comparison's rows: marks with whiskers, and the line of no difference.

    The rows are of one metric and method; each label has a heading. Empty where no difference is
    defined.
    """
    records = in_order(rows, ["label"])
    estimates = []
    for record in records:
        numbers = fmt.estimate(record, f"{statistic}_difference")
        estimates.append([fmt.scaled(number, metric) for number in numbers])

    finite = [number for numbers in estimates for number in numbers if math.isfinite(number)]
    if not finite:
        return Markup("")

    # Less than a point or a millimetre is not spread over the whole width; volumes can be small.
    x = _scale(finite, narrowest=0.0 if metric.unit == "ml" else 1.0)
    bottom = _ABOVE + _LINE * (len(records) + rows["label"].nunique())
    height = bottom + _BELOW
    name = "mean" if statistic == "mean" else STATISTICS[statistic].title
    unit = fmt.difference_unit(metric)
    directions = "better to the right, worse to the left"
    if not metric.more_is_better:
        directions = "better to the left, worse to the right"

    parts = [
        *svg.ticks_below(x, _ABOVE, bottom, at_most=5, at_zero="zero"),
        *_lines(records, estimates, x, metric),
        svg.text(
            _LEFT,
            height - 20,
            f"difference of the {name} ({unit})",
            kind="axis",
        ),
        svg.text(_LEFT, height - 5, directions),
    ]
    return svg.figure(
        parts,
        label=f"Difference of the {name} of {metric.title} per label and stratum",
        height=height,
    )


def _scale(differences: Sequence[float], *, narrowest: float) -> svg.Scale:
    """A scale that holds all differences and 0, with rounded ends."""
    low = min(0.0, *differences)
    high = max(0.0, *differences)
    step = svg.round_step((max(high - low, narrowest) or 1.0) / 5)

    return svg.Scale(
        math.floor(low / step) * step,
        math.ceil(high / step) * step or step,
        _LEFT,
        svg.WIDTH - _RIGHT,
    )


def _lines(
    records: Sequence[Record],
    estimates: Sequence[Sequence[float]],
    x: svg.Scale,
    metric: Metric,
) -> Iterator[Markup]:
    """A line per stratum, below a line for its label."""
    y = _ABOVE
    heading = None
    for record, numbers in zip(records, estimates, strict=True):
        if record["label"] != heading:
            heading = record["label"]
            y += _LINE
            yield svg.text(
                4,
                y - 6,
                svg.shortened(str(heading), 28),
                kind="name",
            )

        y += _LINE
        attribute = str(record["attribute"])
        stratum = fmt.stratum_title(attribute, str(record["stratum"]))
        yield svg.text(14, y - 6, svg.shortened(stratum, 24))
        yield from _estimate(numbers, x, y - 10, metric.sign)


def _estimate(numbers: Sequence[float], x: svg.Scale, y: float, sign: float) -> Iterator[Markup]:
    """The mark of a difference, with a whisker if it has an interval."""
    value, low, high = numbers
    if not math.isfinite(value):
        yield svg.text(x(0) + 6, y + 4, "not defined")
        return

    if sign * value > 0:
        kind = "better"
    elif sign * value < 0:
        kind = "worse"
    else:
        kind = "same"

    if math.isfinite(low) and math.isfinite(high):
        yield svg.line(
            x(low),
            y,
            x(high),
            y,
            f"whisker {kind}",
        )
    path = _SHAPES[kind].format(
        x=svg.at(x(value)),
        left=svg.at(x(value) - 4),
        top=svg.at(y - 4),
        bottom=svg.at(y + 4),
    )
    yield Markup('<path class="estimate {}" d="{}"/>').format(kind, path)
