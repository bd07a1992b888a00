"""Do four theorems hold on small problems?

They are on penalised networks, on the largest step, and on the trusted loss.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.results import mean_interval
from experiments.datasets.mnist import load_digits
from experiments.record import Experiment, Finished, Options, Page, render, wide_table
from experiments.reweighting_limits.descent import METHODS, six_digits
from experiments.reweighting_limits.limits import widest_margin
from experiments.reweighting_limits.losses import FloatArray
from experiments.reweighting_limits.networks import (
    Network,
    first_weights,
    held_out_digits,
    in_unit_ball,
    train_network,
)
from experiments.reweighting_limits.steps import LENGTH, LIMITS, largest_step, trusted_loss

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
    places = product(THEOREMS, options.seeds)
    return [{f"{name}-seed{seed}": Theorem(name, seed, options.quick) for name, seed in places}]


EXPERIMENT = Experiment(
    name="theorems",
    title="More theorems",
    runs=_runs,
    make=_make,
    minutes=lambda run: 0.1,
    tables=_tables,
    page=_page,
    section_of="reweighting-limits",
    formats=dict.fromkeys(("", "-all"), "%.5g"),
)
