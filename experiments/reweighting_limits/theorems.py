"""Do four theorems hold on small problems: on penalised networks, on the largest step, and on the trusted loss?"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves import mean_interval
from experiments.datasets.mnist import load_digits
from experiments.record import Experiment, Finished, Options, Page, render
from experiments.reweighting_limits.descent import METHODS, six_digits
from experiments.reweighting_limits.limits import widest_margin
from experiments.reweighting_limits.networks import (
    Network,
    first_weights,
    held_out_digits,
    in_unit_ball,
    train_network,
)
from experiments.reweighting_limits.steps import LENGTH, LIMITS, largest_step, trusted_loss

#: Width and steps of the penalised networks, and the factors of their penalty, the strongest first.
UNITS, STEPS, PENALTIES = 512, 10_000, (0.1, 0.01, 0.001)
BETAS = (0.0, 1.0, 10.0, 100.0)
#: 9s, 4s and trusted images of each, all of them training images.
N_COMMON, N_RARE, N_TRUSTED = 200, 20, 5

#: Setting, quantity and value.
Row = tuple[str, str, float]


@dataclass(frozen=True)
class Theorem:
    """What is computed for a theorem with a seed, in full or, for a smoke run, in short."""

    name: str
    seed: int
    quick: bool


def penalised(theorem: Theorem) -> Iterator[Row]:
    """Outputs of penalised networks on held-out digits: against ERM without a penalty, and the widest margin.

    Source: Zhai et al. 2023, Theorems 6 and 9.
    """
    units, steps = (32, 500) if theorem.quick else (UNITS, STEPS)
    images, targets, groups = six_digits()
    images, held_out = in_unit_ball(images, held_out_digits())

    def trained(loss: str, mu: float) -> tuple[Any, float]:
        """Outputs, and the mean loss of importance weighting."""
        network = Network(units, theorem.seed, steps, loss, mu)
        found = train_network(images, targets, groups, held_out, network)
        return found.outputs, float(found.trajectory.losses[0, 1].mean())

    plain = trained("squared loss", 0.0)[0][0]
    # The output weights begin with 0: linearised, the network is linear in its units at the start.
    first = first_weights(Network(units, theorem.seed, steps), images.shape[1])
    features, others = (np.tanh(np.column_stack([of, np.ones(len(of))]) @ first.T) for of in (images, held_out))
    widest = others @ widest_margin(features * targets[:, None])
    for mu in PENALTIES:
        outputs, risk = trained("squared loss", mu)
        apart = np.abs(outputs[1] - plain).max()
        yield f"mu {mu:g}", "outputs apart", float(apart)
        yield f"mu {mu:g}", "over the root of the risk", float(apart / np.sqrt(risk))
        outputs, risk = trained("logistic loss", mu)
        yield f"mu {mu:g}", "logistic risk", risk
        for method, of in zip(METHODS[:2], outputs, strict=False):
            others_sign = np.sign(of) != np.sign(widest)
            yield f"mu {mu:g}", f"other sign, {method}", 100 * float(others_sign.mean())
            largest = np.abs(widest[others_sign]).max(initial=0) / np.abs(widest).max()
            yield f"mu {mu:g}", f"largest margin there, {method}", 100 * float(largest)


def steps_of_sampling(theorem: Theorem) -> Iterator[Row]:
    """The largest step of hardness weighted sampling, in octaves."""
    for beta in BETAS:
        found = {
            name: largest_step(beta, theorem.seed, stale=name == "stale", length=100 if theorem.quick else LENGTH)
            for name in ("exact", "stale")
        }
        yield from ((f"beta {beta:g}", name, value) for name, value in found.items())
        yield f"beta {beta:g}", "stale - exact", found["stale"] - found["exact"]


def steps_of_trusted(theorem: Theorem) -> Iterator[Row]:
    """What the trusted loss does with weights that are learnt from ten trusted 4s and 9s."""
    images, labels = load_digits()
    rng = np.random.default_rng(theorem.seed)
    common, rare = (rng.permutation(np.flatnonzero(labels == digit)) for digit in (9, 4))
    trusted, rest = (
        np.concatenate([common[of], rare[of_rare]])
        for of, of_rare in [
            (slice(N_TRUSTED), slice(N_TRUSTED)),
            (slice(N_TRUSTED, N_COMMON), slice(N_TRUSTED, N_RARE)),
        ]
    )
    chosen = np.concatenate([trusted, rest])
    targets = np.where(labels[chosen] == 4, 1.0, -1.0)
    for limit in (*LIMITS, "normalised weights"):
        found = trusted_loss(
            images[chosen], targets, len(trusted), theorem.seed, limit=limit, length=60 if theorem.quick else 3000
        )
        yield from ((limit, name, value) for name, value in found.items())


THEOREMS = {"penalty": penalised, "sampling": steps_of_sampling, "trusted": steps_of_trusted}


def _make(options: Options, name: str, theorem: Theorem) -> Mapping[str, Any]:
    start = time.process_time()
    return {"rows": list(THEOREMS[theorem.name](theorem)), "seconds": time.process_time() - start}


def _tables(finished: Finished, options: Options) -> Mapping[str, pd.DataFrame]:
    rows = [(run.name, run.seed, *row) for run, found in finished.values() for row in found["rows"]]
    return {"-all": pd.DataFrame(rows, columns=["theorem", "seed", "setting", "what", "value"])}


def summary(values: pd.DataFrame) -> pd.DataFrame:
    """Mean and 95 % t-interval over the seeds, and those of the change from the setting before, of the same seeds."""
    wide = values.pivot(index=["theorem", "setting", "what"], columns="seed", values="value")
    order = values[["theorem", "setting", "what"]].drop_duplicates()
    rows: list[dict[str, object]] = []
    before: dict[tuple[str, str], pd.Series] = {}
    for theorem, setting, what in order.itertuples(index=False, name=None):
        of = wide.loc[theorem, setting, what]
        row: dict[str, object] = {"theorem": theorem, "setting": setting, "what": what}
        row |= dict(zip(("mean", "low", "high"), mean_interval(of), strict=True))
        change = mean_interval(of - before.get((theorem, what), np.nan))
        rows.append(row | dict(zip(("change", "change low", "change high"), change, strict=True)))
        before[theorem, what] = of
    return pd.DataFrame(rows)


def _shown(table: pd.DataFrame, theorem: str) -> pd.DataFrame:
    """A row per setting and a column per quantity, each a mean and its interval."""
    of = table[table["theorem"] == theorem]
    texts = [f"{mean:.3g} [{low:.3g}, {high:.3g}]" for mean, low, high in of[["mean", "low", "high"]].to_numpy()]
    wide = of.assign(text=pd.Series(texts, of.index).where(of["mean"].notna())).pivot(
        index="setting", columns="what", values="text"
    )
    return wide.loc[of["setting"].unique(), of["what"].unique()].rename_axis(None, axis=1).reset_index()


def _page(tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
    table, seeds = summary(tables["-all"]), sorted(tables["-all"]["seed"].unique().tolist())
    shown = {theorem: _shown(table, theorem) for theorem in THEOREMS}
    text = render("reweighting_limits/theorems", n_seeds=len(seeds), shown=shown, units=UNITS, steps=STEPS)
    return Page(text, table, seeds, shown=table.iloc[:0])


EXPERIMENTS = {
    "theorems": Experiment(
        name="theorems",
        title="More theorems",
        runs=lambda options: [
            {f"{name}-seed{seed}": Theorem(name, seed, options.quick) for name in THEOREMS for seed in options.seeds}
        ],
        make=_make,
        minutes=lambda run: 0.1,
        tables=_tables,
        page=_page,
        page_name="reweighting-limits",
        is_section=True,
        formats=dict.fromkeys(("", "-all"), "%.5g"),
    )
}
