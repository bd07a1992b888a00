"""The picture of the experiment with few data: Dice by method and seed, and the cost of an iteration."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.few_data.cost import PLAIN, cost_line
from experiments.few_data.results import ALL_CASES, groups
from experiments.nnunet_runs.results import ALL_LABELS, Results

_SEED_COLOURS = ("#1b4f72", "#ca6f1e", "#117a65", "#943126", "#7d3c98")
_GRID = "#d5d8dc"


def draw(results: Results, cost: pd.DataFrame) -> Figure:
    """Draw Dice and cost.

    Args:
        results: The numbers of the seeds.
        cost: From `cost_table`.

    Returns:
        A panel of Dice for each group of test cases but that of all, a box per method and seed; and one of the ratio of
        an iteration's processor time to a plain one's against T.
    """
    shown = {name: strata for name, strata in groups(results.study).items() if name != ALL_CASES}
    figure = Figure(figsize=(4.6 * len(shown) + 3.8, 4.4), layout="constrained")
    widths = [*[1.25] * len(shown), 1]
    *panels, last = figure.subplots(1, len(shown) + 1, width_ratios=widths)
    for panel, (name, strata) in zip(panels, shown.items(), strict=True):
        of_group = results.dice[(results.dice["label"] == ALL_LABELS) & results.dice["stratum"].isin(strata)]
        _draw_dice(panel, of_group, results.methods)
        n_cases = of_group.drop_duplicates(["seed", "case"]).groupby("seed").size().max()
        panel.set_title(f"{name}: {n_cases} test cases per seed", fontsize=10)
        panel.sharey(panels[0])
    panels[0].set_ylabel("Dice of a test case, mean over the labels, %")
    panels[-1].legend(fontsize=8, loc="lower left")
    _draw_cost(last, cost)
    return figure


def _draw_dice(panel: Axes, dice: pd.DataFrame, methods: tuple[str, ...]) -> None:
    seeds = sorted(dice["seed"].unique())
    width = 0.8 / len(seeds)
    for number, seed in enumerate(seeds):
        colour = _SEED_COLOURS[number % len(_SEED_COLOURS)]
        of_seed = dice[dice["seed"] == seed]
        values = [100 * of_seed["dice"][of_seed["method"] == method].dropna() for method in methods]
        places = np.arange(len(methods)) + (number - (len(seeds) - 1) / 2) * width
        line = {"color": colour}
        panel.boxplot(
            values,
            positions=places,
            whis=(5, 95),
            widths=0.85 * width,
            manage_ticks=False,
            showmeans=True,
            boxprops=line,
            whiskerprops=line,
            capprops=line,
            medianprops=line,
            meanprops={"marker": "D", "markersize": 4, "markerfacecolor": colour, "markeredgecolor": colour},
            flierprops={"marker": ".", "markersize": 3, "markeredgecolor": colour},
        )
        panel.plot([], [], color=colour, label=f"seed {seed}")
    panel.set_xticks(range(len(methods)), methods, fontsize=9, rotation=25)
    panel.grid(axis="y", color=_GRID, linewidth=0.5)
    panel.set_axisbelow(True)


def _draw_cost(panel: Axes, cost: pd.DataFrame) -> None:
    of_gils = cost[cost["T"] != PLAIN]
    reach = [of_gils["ratio"] - of_gils["ratio_p25"], of_gils["ratio_p75"] - of_gils["ratio"]]
    panel.errorbar(of_gils["T"], of_gils["ratio"], yerr=reach, fmt="o", color="#1b4f72", label="iteration [quartiles]")
    start, slope = cost_line(cost)
    ends = np.array([0, of_gils["T"].max()])
    panel.plot(ends, start + slope * ends, color="#1b4f72", linewidth=0.8, label=f"{start:.1f} + {slope:.2f} T")
    panel.plot(of_gils["T"], of_gils["ratio_with_batch"], "s", color="#ca6f1e", label="with drawing its batch")
    panel.axhline(1, color="black", linewidth=0.8)
    panel.set_ylim(0)
    panel.set_xticks(of_gils["T"])
    panel.set_xlabel("T, steps of the inner maximisation")
    panel.set_ylabel("processor time, ratio to a plain iteration")
    panel.set_title("Cost of an iteration of GI-LS", fontsize=10)
    panel.legend(fontsize=8, loc="upper left")
    panel.grid(color=_GRID, linewidth=0.5)
    panel.set_axisbelow(True)
