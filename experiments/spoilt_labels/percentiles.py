"""How near the bound that the KL loss puts on a percentile of the losses comes to it."""

from collections.abc import Mapping
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from experiments.record import wide_table
from nnunet_dro.sampling import kl_percentile_bound

#: Shares of the cases that may have a loss above the bound.
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)
#: Beta, 1/loss units; the first in units of one over the standard deviation of the losses.
BETAS: dict[str, float | None] = {"1 / SD": None, "10": 10.0, "100": 100.0, "1000": 1000.0}


def bound_table(cases: pd.DataFrame) -> pd.DataFrame:
    """Bound and percentile of the losses of trainings: a row per beta and share.

    Source: Fidon et al. 2022, eq. (13) to (16).
    """
    rows = []
    by_training = cases.dropna(subset="loss").groupby(["method", "seed"], sort=False)["loss"]
    for _, losses in by_training:
        for beta, share in product(BETAS, SHARES):
            rows.append(_row(losses.to_numpy(), beta, share))
    groups = pd.DataFrame(rows).groupby(["beta", "share"], sort=False)
    counts = {"trainings": ("gap", "size"), "broken": ("broken", "sum"), "void": ("void", "sum")}
    return groups.agg(**counts, above=("above", "mean"), gap=("gap", "mean")).reset_index()


def _row(losses: NDArray[np.float64], name: str, share: float) -> Mapping[str, object]:
    spread = losses.std()
    bound = kl_percentile_bound(losses, beta=BETAS[name] or 1 / spread, share=share)
    least = np.sort(losses)[-1 - int(share * len(losses))]
    above = float((losses >= bound).mean())
    return {
        "beta": name,
        "share": f"{100 * share:g} %",
        "broken": above > share,
        "void": bound > losses.max(),
        "above": 100 * above,
        "gap": (bound - least) / spread,
    }


def gaps(table: pd.DataFrame) -> pd.DataFrame:
    """The gaps of `bound_table`, a row per beta and a column per share.

    There is a star where some bound is above all losses.
    """
    stars = np.where(table["void"] > 0, "*", "")
    text = table["gap"].map("{:.2f}".format) + stars
    return wide_table(table.assign(text=text), "beta", "share", "text")
