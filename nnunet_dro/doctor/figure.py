"""A figure of who is hard: the Dice of every case in one label, by stratum and set."""

import numpy as np
from markupsafe import Markup

from nnunet_dro.doctor.answer import Answer
from nnunet_dro.doctor.measurements import DICE
from nnunet_dro.doctor.rules import TRAINING, VALIDATION
from nnunet_dro.pages.svg import WIDTH, Scale, dot, figure, line, shortened, text, tick_text

#: Height of a row, and room to the left of the dots, figure units.
_ROW, _LEFT = 34.0, 150.0
#: At most so many dots in a row; of more cases, those with the lowest Dice and every k-th of the others.
_MOST_DOTS = 400
_TOP, _BOTTOM, _RIGHT = 8.0, 26.0, 12.0


def dice_figure(answer: Answer, column: str, label: str) -> Markup:
    """Strips of dots, a row for each stratum and set.

    Args:
        answer: From `examine`.
        column: Column with the strata; empty for all cases in one stratum.
        label: The label.

    Returns:
        An SVG element; cases without the label have no dot.
    """
    cases = answer.cases
    values = cases[DICE + label].to_numpy(dtype=float)
    names = answer.strata[column].astype(str).to_numpy() if column else np.full(len(cases), "all cases")
    rows = [
        (name, kind, np.flatnonzero((names == name) & (cases["set"] == kind).to_numpy() & np.isfinite(values)))
        for name in sorted(set(names))
        for kind in (TRAINING, VALIDATION)
    ]
    rows = [row for row in rows if len(row[2])]
    scale = Scale(0, 100, _LEFT, WIDTH - _RIGHT)
    end = _TOP + _ROW * len(rows)
    parts = [line(scale(tick), _TOP, scale(tick), end, "grid") for tick in (0, 25, 50, 75, 100)]
    parts += [text(scale(tick), end + 16, tick_text(tick), anchor="middle") for tick in (0, 25, 50, 75, 100)]
    for n, (name, kind, members) in enumerate(rows):
        middle = _TOP + _ROW * (n + 0.5)
        parts.append(text(0, middle - 1, shortened(name, 20), kind="axis"))
        parts.append(text(0, middle + 13, f"{kind} ({len(members)})"))
        for k, case in enumerate(_shown(members, values)):
            # Neighbours on the scale are moved apart, always in the same way.
            shift = ((k * 0.618034) % 1 - 0.5) * (_ROW - 14)
            colour = 0 if kind == TRAINING else 1
            parts.append(dot(scale(100 * values[case]), middle + shift, int(case), colour=colour, shape=colour))
        median = scale(100 * float(np.median(values[members])))
        parts.append(line(median, middle - _ROW / 2 + 4, median, middle + _ROW / 2 - 4, "median"))
    what = f"Dice of {label} of every case, in per cent, by {column or 'set'}"
    return figure(end + _BOTTOM, parts, label=what, columns=[0, 1])


def _shown(
    members: "np.ndarray[tuple[int, ...], np.dtype[np.intp]]",
    values: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]",
) -> list[int]:
    ordered = members[np.argsort(values[members], kind="stable")]
    if len(ordered) <= _MOST_DOTS:
        return [int(case) for case in ordered]
    half = _MOST_DOTS // 2
    every = -(-(len(ordered) - half) // half)
    return [int(case) for case in (*ordered[:half], *ordered[half::every])]
