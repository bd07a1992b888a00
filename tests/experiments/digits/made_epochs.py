"""Epochs of trainings that never took place."""

import pandas as pd

NUMBERS = ("rare", "overall", "drawn", "distinct", "loss", "loss_sd", "rare_loss", "stale_loss", "stale_sd")


def made_epochs(rare, *, kept=(1.0,), methods=("ERM", "beta 10", "beta 100"), seeds=(0, 1, 2), n_epochs=8, **others):
    """As from `epochs_table`: every number is 50, but for those given as functions of method, seed and epoch."""
    given = {"rare": rare, **others}
    return pd.DataFrame(
        [
            {
                "kept": share,
                "method": method,
                "seed": seed,
                "epoch": epoch,
                **{name: given[name](method, seed, epoch) if name in given else 50.0 for name in NUMBERS},
            }
            for share in kept
            for method in methods
            for seed in seeds
            for epoch in range(1, n_epochs + 1)
        ]
    )
