"""The values of one label and metric by stratum, as the figures of one attribute draw them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nnunet_dro.evaluation.report.formatting import scaled, stratum_title
from nnunet_dro.evaluation.scoring.metrics import Metric

#: The most dots on a page; with more cases, figures draw only the worst of each stratum.
MOST_DOTS = 40_000


@dataclass(frozen=True)
class StratumCases:
    """The cases of one stratum, worst first.

    Attributes:
        index: Place of the stratum among the attribute's strata: its colour and shape.
        title: Its name as shown.
        n: Cases of the stratum.
        values: Finite values in shown units (per cent or mm), worst first, shape (n_finite,).
        rows: The row of the case table of each value, shape (n_finite,).
        marks: Statistic to its value in shown units; NaN if undefined.
    """

    index: int
    title: str
    n: int
    values: npt.NDArray[np.float64]
    rows: npt.NDArray[np.int64]
    marks: dict[str, float]


def cases_by_stratum(
    scores: pd.DataFrame, stratum_of_case: "pd.Series[str]", strata: pd.DataFrame, *, label: str, metric: Metric
) -> list[StratumCases]:
    """The cases of every stratum of one attribute, for one label and metric.

    Args:
        scores: The scores frame, with rows numbered as in the case table.
        stratum_of_case: The attribute's strata.
        strata: The strata frame's rows of this attribute.
        label: Name.
        metric: The metric.

    Returns:
        An entry per stratum of ``strata``, in its order.
    """
    of_label = scores[scores["label"] == label]
    stratum_of_row = of_label["case"].map(stratum_of_case.astype(object)).to_numpy(dtype=object)
    values = of_label[metric.name].to_numpy(dtype=np.float64)
    rows = of_label.index.to_numpy(dtype=np.int64)
    wanted = strata[(strata["label"] == label) & (strata["metric"] == metric.name)]
    found = []
    order = {str(name): index for index, name in enumerate(strata["stratum"].unique())}
    for record in wanted.to_dict("records"):
        stratum = str(record["stratum"])
        inside = (stratum_of_row == stratum) & np.isfinite(values)
        worst_first = np.argsort(values[inside] if metric.more_is_better else -values[inside], kind="stable")
        marks = {s: scaled(float(record[s]), metric) for s in ("mean", "p5", "p25", "median", "p75", "max")}
        title = stratum_title(str(record["attribute"]), stratum)
        in_order = values[inside][worst_first]
        shown = in_order * 100 if metric.unit == "fraction" else in_order
        found.append(StratumCases(order[stratum], title, int(record["n"]), shown, rows[inside][worst_first], marks))
    return found
