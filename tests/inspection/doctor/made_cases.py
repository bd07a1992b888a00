"""Tables of measurements made by hand."""

import numpy as np
import pandas as pd


def cases(**strata: dict) -> pd.DataFrame:
    """A row per case; by stratum ``training`` and ``validation``: lists of the Dice of the label
    ``organ``.

    ``other`` is a label that every case has learnt.
    """
    rows = []
    for stratum, sets in strata.items():
        for name, dice in sets.items():
            rows += [
                {
                    "case": f"{stratum}_{name[0]}{n:03d}",
                    "set": name,
                    "site": stratum,
                    "dice_organ": value,
                }
                for n, value in enumerate(dice)
            ]
    # Spread evenly over the rows, so that no stratum has more of the lower ones.
    order = np.argsort(np.arange(len(rows)) * 0.618034 % 1)
    return pd.DataFrame(rows).assign(dice_other=np.linspace(0.85, 0.9, len(rows))[order])


def around(mean: float, n: int, *, width: float = 0.05) -> list[float]:
    """n different values around a mean."""
    return list(mean + width * np.linspace(-1, 1, n)) if n > 1 else [mean] * n
