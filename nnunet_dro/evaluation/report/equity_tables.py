"""The tables that say how far the strata of an attribute lie apart."""

from functools import partial

import pandas as pd

from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.strata_tables import estimate_cell, in_order, name_columns
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import whole
from nnunet_dro.pages.document import Cell, Column, Table

#: Column of the frame to that of the table, with what it is.
_COLUMNS = {
    "mean": ("Mean", "mean of all cases of the strata"),
    "range": ("Range", "largest mean of a stratum less the smallest one"),
    "sd": ("SD", "standard deviation of the strata's means"),
    "equity_scaled_mean": (
        "Equity-scaled",
        "mean / (1 + sum of the distances between the strata's means and the mean)",
    ),
    "sd_scaled_mean": ("SD-scaled", "mean / (1 + SD)"),
}

_INTERVAL = "In brackets: 95 % interval. Where it begins at 0, all strata may be alike."


def equity_tables(equity: pd.DataFrame, scores: pd.DataFrame) -> list[Table]:
    """A table per attribute; none where nothing divides the cases.

    Args:
        equity: From `equity`.
        scores: The scores, which tell the unit of distances.
    """
    groups = equity.groupby("attribute", sort=False)
    return [_equity_table(rows, scores) for _, rows in groups]


def _equity_table(rows: pd.DataFrame, scores: pd.DataFrame) -> Table:
    def metric_of(record: Record) -> Metric:
        return fmt.metric_named(str(record["metric"]), scores)

    def estimate(name: str, record: Record) -> Cell:
        return estimate_cell(name, metric_of(record), record)

    columns = [
        *name_columns(["label"]),
        (Column("Metric", "name"), lambda row: fmt.metric_title(metric_of(row))),
        (Column("Strata"), lambda row: str(whole(row, "n_strata"))),
    ]
    for name, (title, hint) in _COLUMNS.items():
        columns.append((Column(title, hint=hint), partial(estimate, name)))

    attribute = fmt.attribute_title(str(rows["attribute"].iloc[0]))
    meanings = [f"{title}: {hint}." for title, hint in _COLUMNS.values()]
    return Table.of(
        f"{attribute}: how far the strata lie apart",
        columns,
        in_order(rows, ["label", "metric"]),
        notes=(_INTERVAL, *meanings),
    )
