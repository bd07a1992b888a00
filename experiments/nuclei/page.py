"""The page of the experiment, and its picture."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure

from experiments.datasets.nuclei import N_TRAIN
from experiments.nuclei.results import COMMON, PLAIN, RARE, TOLD, decision
from experiments.nuclei.training import BATCH, PATCH
from experiments.record import render

_COLOURS = ("#000000", "#0072B2", "#D55E00", "#56B4E9", "#009E73", "#CC79A7", "#999999")


def draw_figure(scores: pd.DataFrame) -> Figure:
    """Mean Dice against iterations: a panel per modality, a colour per method, thin lines for the seeds."""
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    panels = figure.subplots(1, 1 + len(RARE), sharey=True)
    for axes, modality in zip(panels, (COMMON, *RARE), strict=True):
        here = scores[scores["modality"] == modality]
        for colour, (method, of) in zip(_COLOURS, here.groupby("method", sort=False), strict=False):
            for _, run in of.groupby("seed"):
                axes.plot(run["iteration"], 100 * run["mean"], color=colour, alpha=0.25, linewidth=0.7)
            mean = of.groupby("iteration")["mean"].mean() * 100
            style = "--" if method == PLAIN else "-"
            axes.plot(mean.index, mean, color=colour, linestyle=style, linewidth=2, marker="o", label=method)
        axes.set_title(f"{modality}: {N_TRAIN[modality]} training images", fontsize=9)
        axes.set_xlabel("iterations")
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set(ylabel="Dice (%)", ylim=(-2, 102))
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def page_text(found: pd.DataFrame, scores: pd.DataFrame, *, iterations: int, seeds: Sequence[int]) -> str:
    """The text of the page above its table.

    Args:
        found: From `differences`.
        scores: From `scores_of`.
        iterations: Length of the trainings.
        seeds: Their seeds.
    """
    last = scores[(scores["method"] == PLAIN) & (scores["iteration"] == iterations)]
    half = scores[(scores["method"] == PLAIN) & (scores["iteration"] == iterations // 2)]
    rise = 100 * (last.groupby("modality")["mean"].mean() - half.groupby("modality")["mean"].mean())
    return render(
        "nuclei/page",
        decision=decision(found).to_dict("records"),
        trainers=scores.drop_duplicates("method").set_index("method")["trainer"].to_dict(),
        n_train=N_TRAIN,
        n_test=last.groupby("modality")["n"].max().to_dict(),
        iterations=iterations,
        n_seeds=len(seeds),
        told=TOLD,
        common=COMMON,
        rise={modality: rise[modality] for modality in (COMMON, *RARE)},
        patch=PATCH,
        batch=BATCH,
    )
