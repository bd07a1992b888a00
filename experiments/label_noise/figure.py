"""The picture of the experiment with wrong labels."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.label_noise.data import KINDS
from experiments.nnunet_runs.results import ALL_LABELS, Results

#: Groups of training cases, from left to right, and their colours.
_COLOURS = {
    "trusted": "#1b7837",
    "right": "#2471a3",
    "rare": "#138d90",
    "swapped": "#943126",
    "shifted": "#ca6f1e",
    "eroded": "#7d3c98",
}


def draw(results: Results, cases: pd.DataFrame) -> Figure:
    """Draw Dice of the test cases, and the weights or losses of the training cases.

    Args:
        results: The numbers of the finished runs.
        cases: Rows of `training_cases` of every finished run.

    Returns:
        Above, Dice of the test cases of all seeds: a panel for the mean over the labels and one per label, a box per
        method (quartiles, whiskers from p5 to p95). Below, a panel per method: the mean weight (L2RW) or the mean stale
        loss of every training case after the first third of the epochs, by what is wrong with it.
    """
    labels = (ALL_LABELS, *results.study.labels)
    n_columns = max(len(labels), len(results.methods))
    figure = Figure(figsize=(3.1 * n_columns + 0.6, 7.0), layout="constrained")
    above, below = figure.subplots(2, n_columns, squeeze=False)
    for position, label in enumerate(labels):
        _draw_dice(above[position], results, label)
        above[position].set_ylim(-2, 102)
    above[0].set_ylabel("Dice of the test cases, %")
    for position, method in enumerate(results.methods):
        _draw_cases(below[position], cases[cases["method"] == method], method)
    for panel in (*above[len(labels) :], *below[len(results.methods) :]):
        panel.set_visible(False)
    return figure


def _draw_dice(panel: Axes, results: Results, label: str) -> None:
    of_label = results.dice[results.dice["label"] == label]
    values = [100 * of_label["dice"][of_label["method"] == method].dropna() for method in results.methods]
    panel.boxplot(values, whis=(5, 95), widths=0.6, flierprops={"marker": ".", "markersize": 3}, showmeans=True)
    panel.set_xticks(range(1, len(values) + 1), results.methods, fontsize=8, rotation=25)
    panel.set_title(f"{label.replace('_', ' ')}", fontsize=10)
    panel.grid(axis="y", color="#d5d8dc", linewidth=0.5)
    panel.set_axisbelow(True)


def _draw_cases(panel: Axes, of_method: pd.DataFrame, method: str) -> None:
    right = pd.Series(np.where(of_method["rare"], "rare", "right"), index=of_method.index)
    group = of_method["kind"].where(of_method["kind"] != "clean", right).mask(of_method["trusted"], "trusted")
    colours = {name: colour for name, colour in _COLOURS.items() if name != "rare" or of_method["rare"].any()}
    # Where the points of a group stand beside each other says nothing.
    rng = np.random.default_rng(0)
    for position, (name, colour) in enumerate(colours.items()):
        values = of_method["value"][group == name].dropna()
        places = position + rng.uniform(-0.28, 0.28, size=len(values))
        panel.plot(places, values, ".", color=colour, markersize=4, alpha=0.6)
        if len(values):
            panel.plot([position - 0.36, position + 0.36], [values.median()] * 2, color="black", linewidth=1.5)
    panel.set_xticks(range(len(colours)), list(colours), fontsize=8, rotation=25)
    signal = of_method["signal"].iloc[0]
    panel.set_title(f"{method}, training cases", fontsize=10)
    panel.set_ylabel(f"mean {'weight' if signal == 'weight' else 'stale loss'}", fontsize=9)
    panel.axvspan(len(colours) - len(KINDS) - 0.5, len(colours) - 0.5, color="#f2f3f4", zorder=0)
    panel.grid(axis="y", color="#d5d8dc", linewidth=0.5)
    panel.set_axisbelow(True)
