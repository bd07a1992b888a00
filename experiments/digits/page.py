"""The page of the experiment, and its picture."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.digits.results import method_of
from experiments.digits.training import RARE, Curve, Run
from experiments.record import render

#: Beta to the colour of its curves.
COLOURS = {0.0: "#000000", 0.1: "#999999", 1.0: "#56B4E9", 10.0: "#0072B2", 100.0: "#D55E00"}

#: Year of a paper to the points of accuracy on the rare digit that it says beta 10 gains more of.
CLAIMS = {2020: 10, 2022: 15}


def draw_curves(results: Sequence[tuple[Run, Curve]]) -> Figure:
    """Accuracy against epochs: a row per share, a colour per method, thin lines for the seeds, ERM dashed on top."""
    shares, betas = sorted({run.share for run, _ in results}), sorted({run.beta for run, _ in results})
    figure = Figure(figsize=(11, 1 + 3.4 * len(shares)), layout="constrained")
    panels = figure.subplots(len(shares), 2, sharex=True, sharey="col", squeeze=False)
    for i, share in enumerate(shares):
        for axes, what, where in zip(panels[i], ("rare", "overall"), (f"the {RARE}s", "all test images"), strict=True):
            for beta in reversed(betas):
                here = [getattr(curve, what) for run, curve in results if (run.share, run.beta) == (share, beta)]
                curves, epochs = np.array(here), np.arange(1, len(here[0]) + 1)
                axes.plot(epochs, curves.T, color=COLOURS[beta], alpha=0.25, linewidth=0.7)
                line = {"color": COLOURS[beta], "linestyle": "-" if beta else "--", "label": method_of(beta)}
                axes.plot(epochs, curves.mean(axis=0), linewidth=2, **line)
            axes.set_title(f"{100 * share:g} % of the {RARE}s kept: {where}", fontsize=11)
            axes.grid(color="0.92")
            axes.spines[["top", "right"]].set_visible(False)
        panels[i, 0].set(ylabel="accuracy (%)", ylim=(-2, 102))
    figure.supxlabel("epoch", fontsize="medium")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def page_text(rows: pd.DataFrame, run: Run) -> str:
    """The text of the page above its table.

    Args:
        rows: From `phases`, with the ``gain`` of each over ERM.
        run: Any of the trainings.
    """
    findings = []
    for share in sorted(rows["share"].unique()):
        here = rows[rows["share"] == share]
        means, gains = here.groupby("beta").mean(), here.loc[here["beta"] == 10, "gain"]
        methods = [method_of(beta) for beta in means.index]
        finding = {"kept": f"{100 * share:g} %", "gain": gains.mean(), "lowest": gains.min(), "highest": gains.max()}
        finding["known"] = dict(zip(methods, means["rare_late"], strict=True))
        finding["drops"] = dict(zip(methods, means["drop"], strict=True))
        findings.append(finding)
    return render("digits/page", run=run, findings=findings, claims=CLAIMS)
