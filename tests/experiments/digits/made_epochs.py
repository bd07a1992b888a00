"""Epochs of trainings that never took place."""

from itertools import product

import pandas as pd

NUMBERS = (
    "rare",
    "overall",
    "drawn",
    "distinct",
    "loss",
    "loss_sd",
    "rare_loss",
    "stale_loss",
    "stale_sd",
)


def made_epochs(
    rare,
    *,
    kept=(1.0,),
    methods=("ERM", "beta 10", "beta 100"),
    seeds=(0, 1, 2),
    n_epochs=8,
    **others,
):
    """As from `epochs_table`: every number is 50, but for those given as functions of method, seed
    and epoch."""
    given = {"rare": rare, **others}
    rows = [
        (share, *place, *(given[name](*place) if name in given else 50.0 for name in NUMBERS))
        for share, *place in product(kept, methods, seeds, range(1, n_epochs + 1))
    ]
    return pd.DataFrame(rows, columns=["kept", "method", "seed", "epoch", *NUMBERS])
