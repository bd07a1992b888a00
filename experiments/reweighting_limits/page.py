"""The page of the experiment, and its picture."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.record import render
from experiments.reweighting_limits.descent import GROUP_STEP, LEARNING_RATE, METHODS, Setting, Trajectory, distances
from experiments.reweighting_limits.losses import FloatArray


def draw_distances(chosen: Sequence[Setting], trajectories: Sequence[Trajectory]) -> Figure:
    """A panel per setting, and one with the training losses of Group DRO."""
    figure = Figure(figsize=(11, 6.4), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    lines = ((1, "importance weighting", "-", "#0072B2"), (2, "Group DRO", "--", "#D55E00"))
    setting_colours = ("#000000", "#CC79A7", "#E69F00", "#009E73", "#56B4E9")
    for letter, axes, setting, trajectory in zip("abcde", panels, chosen, trajectories, strict=False):
        apart = distances(trajectory, directions=setting.directions)
        for m, label, style, colour in lines:
            axes.plot(trajectory.steps, apart[:, m], style, color=colour, linewidth=2, label=label)
        # Rounding alone is below 1e-8.
        axes.set(title=f"({letter}) {setting.name}", ylim=(0.03, 1.0) if setting.directions else (1e-8, 1.0))
        axes.set_ylabel("distance of directions" if setting.directions else "distance of weights")
    for colour, setting, trajectory in zip(setting_colours, chosen, trajectories, strict=True):
        panels[-1].plot(
            trajectory.steps, trajectory.losses[:, 2].mean(axis=-1), color=colour, linewidth=2, label=setting.name
        )
    panels[-1].set(title="(f) training loss of Group DRO", ylabel="mean of the six", ylim=(1e-14, 1.0))
    panels[0].legend(frameon=False, fontsize=9)
    panels[-1].legend(frameon=False, fontsize=8, loc="lower left")
    for axes in panels:
        axes.set(xscale="log", yscale="log", xlabel="step of gradient descent")
        axes.grid(color="0.92")
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def page_text(images: FloatArray, table: pd.DataFrame) -> str:
    """The text of the page above its table.

    Args:
        images: The six images, shape (6, d).
        table: From `results_table`.
    """
    curvatures = np.linalg.eigvalsh(images @ images.T / len(images))
    last = {str(name): rows.iloc[-1] for name, rows in table.groupby("setting", sort=False)}

    def apart(setting: str, *, directions: bool = False) -> dict[str, float]:
        row = last[setting]
        norm, what = (1.0, "directions") if directions else (row["norm, ERM"], "weights")
        weighting, dro = (100 * row[f"{what}, {method}"] / norm for method in METHODS[1:])
        return {"weighting": weighting, "dro": dro}

    def kept(mu: float) -> dict[str, float]:
        lowest, highest = (100 * curvature / (curvature + mu) for curvature in curvatures[[0, -1]])
        return {"lowest": lowest, "highest": highest}

    logistic = table[table["setting"] == "logistic loss"]
    return render(
        "reweighting_limits/page",
        rate=LEARNING_RATE,
        step=GROUP_STEP,
        plain=apart("squared loss"),
        plain_steps=last["squared loss"]["step"],
        weak=apart("squared loss, mu 0.1"),
        strong=apart("squared loss, mu 10"),
        logistic=apart("logistic loss", directions=True),
        logistic_steps=last["logistic loss"]["step"],
        gaps=logistic["weights, weighting"].tolist()[-2:],
        norms=logistic["norm, ERM"].tolist()[-2:],
        polynomial=apart("polynomial tail", directions=True),
        curvatures=curvatures,
        kept_weak=kept(0.1),
        kept_strong=kept(10.0),
    )
