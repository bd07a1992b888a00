"""A made table of the factorial."""

from dataclasses import asdict

import pandas as pd

from experiments.factorial.effects import Strata
from experiments.factorial.settings import settings

STRATA = Strata(("old", "odd"), ("usual",), as_rare="rare ones", as_common="usual")


def made_table(of_setting, *, seeds=(0, 1)) -> pd.DataFrame:
    """A row per setting, seed and stratum; ``of_setting`` gives a setting's mean, to which a seed
    adds its number."""
    rows = [
        {
            "setting": corner.name,
            **asdict(corner),
            "seed": seed,
            "stratum": stratum,
            "mean": of_setting(corner) + seed,
        }
        for corner in settings()
        for seed in seeds
        for stratum in (*STRATA.rare, *STRATA.common)
    ]
    return pd.DataFrame(rows).assign(median=0.0, iqr=0.0, p25=0.0, p10=0.0, p5=0.0)
