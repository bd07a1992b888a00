"""Do four theorems hold on small problems?

They are on penalised networks, on the largest step, and on the trusted loss.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.results import mean_interval
from experiments.datasets.mnist import load_digits
from experiments.record import Experiment, Finished, Options, Page, render, wide_table
from experiments.reweighting_limits.descent import METHODS, six_digits
from experiments.reweighting_limits.limits import widest_margin
from experiments.reweighting_limits.losses import FloatArray, logistic_loss
from experiments.reweighting_limits.networks import (
    Network,
    first_weights,
    held_out_digits,
    in_unit_ball,
    train_network,
)

#: The largest step is one of these, a quarter of an octave apart.
STEPS: FloatArray = 2.0 ** np.arange(-1, 5.25, 0.25)
#: Examples, their dimensions, units of the network, examples per step, and steps.
N = 20
D = 10
UNITS = 128
BATCH = 4
LENGTH = 1000
#: The norm of the gradient of the KL loss that must be reached.
NORM = 0.01
#: Name of a step alpha of weights learnt from trusted examples to it, from the batch n, L and
#: sigma^2.
LIMITS = {
    "as printed": lambda n, smooth, square: 2 * n / (smooth * square),
    "n times smaller": lambda n, smooth, square: 2 / (smooth * square),
    "2n times smaller": lambda n, smooth, square: 1 / (smooth * square),
}


def largest_step(beta: float, seed: int, *, stale: bool, length: int = LENGTH) -> float:
    """The largest of `STEPS` with which SGD with hardness weighted sampling converges, in octaves.

    The hidden weights of a ReLU network are trained on (f - y)^2 / 2 of random examples of length
    1. Batches are drawn, with replacement, by the softmax of beta times the losses: exact ones, or
    those when each was last drawn, which begin exact. One converges if the norm of the gradient of
    the KL loss is at most `NORM` after the last step. NaN if none does.

    Source: Fidon et al. 2020, Theorems B.1 and B.2.
    """
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(N, D))
    targets = rng.choice([-1.0, 1.0], size=N)
    inputs /= np.linalg.norm(inputs, axis=1, keepdims=True)
    signs = rng.choice([-1.0, 1.0], size=UNITS) / np.sqrt(UNITS)
    weights = np.repeat(rng.normal(size=(1, UNITS, D)), len(STEPS), axis=0)
    rows = np.arange(len(STEPS))[:, None]

    def errors(examples: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Errors, and the derivatives of the outputs by the sums of the units; for each step."""
        sums = examples @ weights.swapaxes(1, 2)
        return np.maximum(sums, 0) @ signs - wanted, (sums > 0) * signs

    # Steps that are too large end in overflow.
    with np.errstate(all="ignore"):
        losses = errors(inputs, targets)[0] ** 2 / 2
        for _ in range(length):
            if not stale:
                losses = errors(inputs, targets)[0] ** 2 / 2
            # The largest of these is a draw by the softmax; all steps and betas have the same
            # random numbers.
            drawn = (beta * losses[:, None] + rng.gumbel(size=(BATCH, N))).argmax(axis=2)
            batch = inputs[drawn]
            wrong, slopes = errors(batch, targets[drawn])
            losses[rows, drawn] = wrong**2 / 2
            gradient = (wrong[..., None] * slopes).swapaxes(1, 2) @ batch
            weights -= STEPS[:, None, None] / BATCH * gradient

        wrong, slopes = errors(inputs, targets)
        pulls = np.exp(beta * (wrong**2 - (wrong**2).max(axis=1, keepdims=True)) / 2)
        pulls *= wrong / pulls.sum(axis=1, keepdims=True)
        gradient = (pulls[..., None] * slopes).swapaxes(1, 2) @ inputs
        converged = STEPS[np.linalg.norm(gradient, axis=(1, 2)) <= NORM]
    if len(converged) == 0:
        return float("nan")
    return float(np.log2(converged.max()))


def trusted_loss(
    images: FloatArray,
    targets: FloatArray,
    n_trusted: int,
    seed: int,
    *,
    limit: str,
    length: int = 3000,
) -> Mapping[str, float]:
    """What the logistic loss G of the trusted examples does while weights are learnt from them.

    theta <- theta - alpha / n sum_i max(<grad G, grad f_i>, 0) grad f_i

    for a linear model, with alpha at a limit: ``limit`` of `LIMITS`; otherwise the weights of
    Algorithm 1, which sum to 1, with alpha / n of 1 / L. The first ``n_trusted`` of the images
    (n, d) are trusted, targets are 1 and -1.

    Returns:
        ``rises``, the share of the steps after which G is larger, in per cent, ``exponent``, that
        of the smallest ||grad G||^2 so far against the steps T, from a thirtieth of them to the
        last, and ``of the bound``, the largest ratio of the former to C / sqrt(T) in per cent,
        where C^2 = G_0 / (p kappa), kappa = alpha / n (1 - L alpha sigma^2 / 2), by Jensen's
        inequality, and p the chance of an image to be in a batch; NaN where kappa is not above 0.

    Source: Ren et al. 2018, Lemma 1 with eq. (30), and Theorem 2.
    """
    n = min(100, len(images))
    smooth = np.linalg.norm(images[:n_trusted], 2) ** 2 / n_trusted / 4
    square = (images**2).sum(axis=1).max()
    step = 1 / smooth
    kappa = 0.0
    if limit in LIMITS:
        step = LIMITS[limit](n, smooth, square) / n
        kappa = step * (1 - smooth * square * step * n / 2)

    values, squares = _descend_by_trusted(
        images,
        targets,
        n_trusted,
        np.random.default_rng(seed),
        step=step,
        are_normalised=limit not in LIMITS,
        length=length,
    )
    least = np.minimum.accumulate(squares)
    first = length // 30
    exponent = np.log(least[-1] / least[first - 1]) / np.log(length / first)
    constant = np.nan
    if kappa > 1e-12 * step:
        constant = np.sqrt(values[0] * len(images) / n / kappa)
    largest_ratio = (least * np.sqrt(np.arange(1, length + 1))).max() / constant
    rises = 100 * float((np.diff(values) > 0).mean())
    return {
        "rises": rises,
        "exponent": float(exponent),
        "of the bound": float(100 * largest_ratio),
    }


def _descend_by_trusted(
    images: FloatArray,
    targets: FloatArray,
    n_trusted: int,
    rng: np.random.Generator,
    *,
    step: float,
    are_normalised: bool,
    length: int,
) -> tuple[list[float], list[float]]:
    """G and ||grad G||^2 before each step of `trusted_loss`, whose ``step`` is alpha / n."""
    n = min(100, len(images))
    trusted = images[:n_trusted]
    theta = np.zeros(images.shape[1])
    values = []
    squares = []
    for _ in range(length):
        losses, slopes = logistic_loss((trusted @ theta)[None], targets[:n_trusted])
        gradient = slopes[0] @ trusted / n_trusted
        values.append(losses.mean())
        squares.append(gradient @ gradient)

        rows = rng.choice(len(images), n, replace=False)
        batch = images[rows]
        _, slopes = logistic_loss((batch @ theta)[None], targets[rows])
        pulls = slopes[0]
        weights = np.maximum(pulls * (batch @ gradient), 0)
        if are_normalised:
            weights /= weights.sum() or 1
        theta = theta - step * (weights * pulls) @ batch
    return values, squares


#: Width and steps of the penalised networks, and the factors of their penalty, the strongest first.
WIDTH = 512
N_STEPS = 10_000
PENALTIES = (0.1, 0.01, 0.001)
BETAS = (0.0, 1.0, 10.0, 100.0)
#: 9s, 4s and trusted images of each, all of them training images.
N_COMMON = 200
N_RARE = 20
N_TRUSTED = 5
#: Setting, quantity and value.
Row = tuple[str, str, float]


@dataclass(frozen=True)
class Theorem:
    """What is computed for a theorem with a seed, in full or, for a smoke run, in short."""

    name: str
    seed: int
    quick: bool


def penalised(theorem: Theorem) -> Iterator[Row]:
    """Outputs on held-out digits against plain ERM and the widest margin.

    Source: Zhai et al. 2023, Theorems 6 and 9.
    """
    units = 32 if theorem.quick else WIDTH
    steps = 500 if theorem.quick else N_STEPS
    images, targets, groups = six_digits()
    images, held_out = in_unit_ball(images, held_out_digits())

    def trained(loss: str, mu: float) -> tuple[FloatArray, float]:
        """Outputs, and the mean loss of importance weighting."""
        network = Network(units, theorem.seed, steps, loss, mu)
        end, outputs = train_network(images, targets, groups, held_out, network)
        return outputs, float(end.losses[0, 1].mean())

    (plain, *_), _ = trained("squared loss", 0.0)
    widest = _widest_outputs(
        first_weights(Network(units, theorem.seed, steps), images.shape[1]),
        images,
        targets,
        held_out,
    )
    for mu in PENALTIES:
        outputs, risk = trained("squared loss", mu)
        apart = np.abs(outputs[1] - plain).max()
        yield f"mu {mu:g}", "outputs apart", float(apart)
        yield f"mu {mu:g}", "over the root of the risk", float(apart / np.sqrt(risk))

        outputs, risk = trained("logistic loss", mu)
        yield f"mu {mu:g}", "logistic risk", risk
        for name, value in _other_signs(outputs, widest):
            yield f"mu {mu:g}", name, value


def _widest_outputs(
    start: FloatArray, images: FloatArray, targets: FloatArray, held_out: FloatArray
) -> FloatArray:
    """Outputs on held-out digits of the linearised network with the widest margin.

    The output weights begin with 0: linearised, the network is linear in its units at the start.
    """

    def features(digits: FloatArray) -> FloatArray:
        return np.tanh(np.column_stack([digits, np.ones(len(digits))]) @ start.T)

    return features(held_out) @ widest_margin(features(images) * targets[:, None])


def _other_signs(outputs: FloatArray, widest: FloatArray) -> Iterator[tuple[str, float]]:
    """Where the sign is not that of the widest margin: how often, and with how large a margin."""
    for method, outputs_of_method in zip(METHODS[:2], outputs, strict=False):
        is_other = np.sign(outputs_of_method) != np.sign(widest)
        yield f"other sign, {method}", 100 * float(is_other.mean())
        largest = np.abs(widest[is_other]).max(initial=0) / np.abs(widest).max()
        yield f"largest margin there, {method}", 100 * float(largest)


def steps_of_sampling(theorem: Theorem) -> Iterator[Row]:
    """The largest step of hardness weighted sampling, in octaves."""
    length = 100 if theorem.quick else LENGTH
    for beta in BETAS:
        exact = largest_step(beta, theorem.seed, stale=False, length=length)
        stale = largest_step(beta, theorem.seed, stale=True, length=length)
        yield f"beta {beta:g}", "exact", exact
        yield f"beta {beta:g}", "stale", stale
        yield f"beta {beta:g}", "stale - exact", stale - exact


def steps_of_trusted(theorem: Theorem) -> Iterator[Row]:
    """What the trusted loss does with weights that are learnt from ten trusted 4s and 9s."""
    images, labels = load_digits()
    rng = np.random.default_rng(theorem.seed)
    common = rng.permutation(np.flatnonzero(labels == 9))
    rare = rng.permutation(np.flatnonzero(labels == 4))
    trusted = (common[:N_TRUSTED], rare[:N_TRUSTED])
    rest = (common[N_TRUSTED:N_COMMON], rare[N_TRUSTED:N_RARE])
    chosen = np.concatenate([*trusted, *rest])
    targets = np.where(labels[chosen] == 4, 1.0, -1.0)
    length = 60 if theorem.quick else 3000
    for limit in (*LIMITS, "normalised weights"):
        numbers = trusted_loss(
            images[chosen],
            targets,
            2 * N_TRUSTED,
            theorem.seed,
            limit=limit,
            length=length,
        )
        for name, value in numbers.items():
            yield limit, name, value


THEOREMS = {"penalty": penalised, "sampling": steps_of_sampling, "trusted": steps_of_trusted}


def _make(options: Options, name: str, theorem: Theorem) -> Mapping[str, Any]:
    start = time.process_time()
    return {"rows": list(THEOREMS[theorem.name](theorem)), "seconds": time.process_time() - start}


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    rows = []
    for theorem, result in finished.values():
        rows += [(theorem.name, theorem.seed, *row) for row in result["rows"]]
    return {"-all": pd.DataFrame(rows, columns=["theorem", "seed", "setting", "what", "value"])}


def summary(values: pd.DataFrame) -> pd.DataFrame:
    """Mean and 95 % t-interval over the seeds.

    The ``change`` is that from the setting before, of the same seeds.
    """
    wide = values.pivot(index=["theorem", "setting", "what"], columns="seed", values="value")
    order = values[["theorem", "setting", "what"]].drop_duplicates()
    rows: list[dict[str, object]] = []
    before: dict[tuple[str, str], pd.Series] = {}
    for theorem, setting, what in order.itertuples(index=False, name=None):
        by_seed = wide.loc[theorem, setting, what]
        changes = by_seed - before.get((theorem, what), np.nan)
        row: dict[str, object] = {"theorem": theorem, "setting": setting, "what": what}
        row["mean"], row["low"], row["high"] = mean_interval(by_seed)
        row["change"], row["change low"], row["change high"] = mean_interval(changes)
        rows.append(row)
        before[theorem, what] = by_seed
    return pd.DataFrame(rows)


def _shown(table: pd.DataFrame, theorem: str) -> pd.DataFrame:
    """A row per setting and a column per quantity, each a mean and its interval."""
    rows = table[table["theorem"] == theorem]
    intervals = rows[["mean", "low", "high"]].to_numpy()
    texts = [f"{mean:.3g} [{low:.3g}, {high:.3g}]" for mean, low, high in intervals]
    text = pd.Series(texts, rows.index).where(rows["mean"].notna())
    shown = rows.assign(text=text)
    return wide_table(shown, "setting", "what", "text")


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    table = summary(tables["-all"])
    n_seeds = tables["-all"]["seed"].nunique()
    shown = {theorem: _shown(table, theorem) for theorem in THEOREMS}
    text = render(
        "reweighting_limits/theorems",
        n_seeds=n_seeds,
        shown=shown,
        units=WIDTH,
        steps=N_STEPS,
    )
    return Page(text, table, shown=table.iloc[:0])


def _runs(options: Options) -> list[Mapping[str, Theorem]]:
    runs = {}
    for name in THEOREMS:
        for seed in options.seeds:
            runs[f"{name}-seed{seed}"] = Theorem(name, seed, options.quick)
    return [runs]


EXPERIMENT = Experiment(
    name="theorems",
    title="More theorems",
    runs=_runs,
    make=_make,
    minutes=lambda run: 0.1,
    tables=_tables,
    page=_page,
    page_name="reweighting-limits",
    is_section=True,
    formats=dict.fromkeys(("", "-all"), "%.5g"),
)
