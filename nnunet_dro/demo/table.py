"""The demo's result as a table: statistics of every method, label and stratum."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich import box
from rich.markup import escape
from rich.table import Table

from nnunet_dro.evaluation.comparing.comparison import NOTABLE
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import STATISTICS

#: The statistics that the table shows.
SHOWN = ("mean", "median", "iqr", "p25", "p10", "p5")


def render_table(table: pd.DataFrame, n_training: Mapping[str, int]) -> Table:
    """Show the statistics of the Dice of all methods, in per cent, with the number of training cases of each stratum.

    Numbers that are better than those of every other method by at least five points are bold.
    """
    by = table["attribute"].iloc[0]
    rendered = Table(
        title="Dice on held-out cases, per cent", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )
    for heading in ("label", by, "training", "method"):
        rendered.add_column(heading, justify="right" if heading == "training" else "left", overflow="fold")
    shown = [STATISTICS[name] for name in SHOWN]
    for statistic in shown:
        rendered.add_column(statistic.title, justify="right", no_wrap=True)
    for label in table["label"].unique():
        for stratum in table["stratum"].unique():
            rows = table[(table["label"] == label) & (table["stratum"] == stratum)]
            for position, method in enumerate(rows["method"]):
                names = (label, stratum, str(n_training.get(stratum, 0))) if position == 0 else ("", "", "")
                cells = [
                    _cell(
                        rows[statistic.name].to_numpy(dtype=np.float64),
                        position,
                        more_is_better=statistic.more_is_better(METRICS["dice"]),
                    )
                    for statistic in shown
                ]
                # Names come from files; rich would take brackets in them for markup.
                rendered.add_row(*map(escape, (*names, method)), *cells)
        rendered.add_section()
    return rendered


def _cell(values: npt.NDArray[np.float64], position: int, *, more_is_better: bool) -> str:
    value = float(values[position])
    if np.isnan(value):
        return "-"
    others = np.delete(values, position)
    gain = (value - others) if more_is_better else (others - value)
    text = f"{100 * value:.1f}"
    return f"[bold]{text}[/]" if len(others) and (gain >= NOTABLE).all() else text
