"""The picture of the experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.record import Finished
from experiments.reweighting_limits.descent import Setting
from experiments.reweighting_limits.losses import LOSSES
from experiments.reweighting_limits.networks import Network

#: Index of the method in `METHODS`, its name, style of line, marker and colour.
_LINES = ((1, "importance weighting", "-", "o", "#0072B2"), (2, "Group DRO", "--", "x", "#D55E00"))
_SETTING_COLOURS = ("#000000", "#CC79A7", "#E69F00", "#009E73", "#56B4E9", "#8C510A", "#7B3294")


def draw(finished: Finished, limits: tuple[float, float]) -> Figure:
    """A panel with the distances per setting; the losses, the group weights and the networks."""
    descents = [(run, result) for run, result in finished.values() if isinstance(run, Setting)]
    trained = [(run, result) for run, result in finished.values() if isinstance(run, Network)]
    figure = Figure(figsize=(12, 14), layout="constrained")
    panels = figure.subplots(4, 3).ravel()
    for axes, (setting, result) in zip(panels, descents, strict=False):
        _draw_distances(axes, setting, result, limits)
    for axes in (panels[0], panels[4]):
        axes.legend(frameon=False, fontsize=9)
    _draw_losses(panels[7], [setting for setting, _ in descents])
    _draw_of_group_dro(panels[8:10], descents)
    _draw_networks(panels[10:], trained)

    figure.legend(
        handles=panels[9].get_lines(),
        title="settings in (h), (i) and (j)",
        ncols=4,
        loc="outside lower center",
        fontsize=9,
    )
    for letter, axes in zip("abcdefghijkl", panels, strict=True):
        axes.set_title(f"({letter}) {axes.get_title()}", fontsize=11)
    return figure


def _draw_distances(
    axes: Axes, setting: Setting, result: Mapping[str, Any], limits: tuple[float, float]
) -> None:
    what = "weights"
    low = 1e-8  # rounding alone is below it
    if setting.directions:
        what = "directions"
        low = 0.03

    apart = np.array(result[what])
    for m, label, style, _, colour in _LINES:
        axes.plot(result["steps"], apart[:, m - 1], style, color=colour, linewidth=2, label=label)
        if setting.polynomial:
            axes.axhline(
                limits[m - 1],
                color=colour,
                linestyle=":",
                linewidth=1.2,
                label=f"limit, {label}",
            )
    axes.set(
        title=setting.name,
        xscale="log",
        yscale="log",
        ylim=(low, 1.0),
        xlabel="step of gradient descent",
        ylabel=f"distance of {what}",
    )


def _draw_losses(axes: Axes, chosen: Sequence[Setting]) -> None:
    """The losses of classification against the margin."""
    margins = np.linspace(-1, 3, 801)
    for setting, colour in zip(chosen, _SETTING_COLOURS, strict=True):
        if setting.directions:
            values, _ = LOSSES[setting.loss](margins[None], np.ones(1))
            axes.plot(margins, values[0], color=colour, linewidth=2)
    axes.set(title="losses of classification", xlabel="margin", ylabel="loss", ylim=(0, None))


def _draw_of_group_dro(
    panels: Sequence[Axes], descents: Sequence[tuple[Setting, Mapping[str, Any]]]
) -> None:
    """Training losses of Group DRO, and its weight of the second group."""
    for (setting, result), colour in zip(descents, _SETTING_COLOURS, strict=True):
        losses = np.array(result["losses"])[:, 2]
        for axes, values in zip(panels, (losses, result["weight of the 1"]), strict=True):
            axes.plot(result["steps"], values, color=colour, linewidth=2, label=setting.name)
    panels[0].set(
        title="training loss of Group DRO",
        ylabel="mean of the six",
        yscale="log",
        ylim=(1e-14, 2.0),
    )
    panels[1].set(title="group weights of Group DRO", ylabel="weight of the 1")
    for axes in panels:
        axes.set(xscale="log", xlabel="step of gradient descent")


def _draw_networks(
    panels: Sequence[Axes], trained: Sequence[tuple[Network, Mapping[str, Any]]]
) -> None:
    """Distances of functions and weights from ERM's against the width, a marker per seed."""
    units = [network.units for network, _ in trained]
    for m, label, _, marker, colour in _LINES:
        outputs = [result["functions"][m - 1] for _, result in trained]
        weights = [result["weights"][-1][m - 1] / result["norm"][-1] for _, result in trained]
        for axes, values in zip(panels, (outputs, weights), strict=True):
            axes.plot(units, values, marker, color=colour, fillstyle="none", label=label)
    panels[0].set(
        title="wide networks: functions",
        ylabel="largest difference of outputs",
        ylim=(1e-5, 1.0),
    )
    panels[1].set(
        title="wide networks: weights",
        ylabel="distance / movement of ERM",
        ylim=(1e-3, 1.0),
    )
    widths = sorted(set(units))
    for axes in panels:
        axes.set(xscale="log", yscale="log", xlabel="units of the hidden layer")
        axes.set_xticks(widths, [str(width) for width in widths])
        axes.minorticks_off()
    panels[0].legend(frameon=False, fontsize=9)
