"""What the factors change.

Differences to ERM, and over all pairs of settings that differ in one factor alone.
"""

from dataclasses import asdict, dataclass
from math import comb

import numpy as np
import pandas as pd

from experiments.curves.results import Roles, differences, mean_interval
from experiments.factorial.settings import LEVELS, Setting
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

#: The statistics of the paper's Table 2.
STATISTICS = ("mean", "median", "iqr", "p25", "p10", "p5")
#: The rare strata as one.
RARE = "rare"
#: Settings that a tuning tries.
TRIALS = 20


@dataclass(frozen=True)
class Strata:
    """The strata of the data, and what a page calls them."""

    rare: tuple[str, ...]  # The strata that are rare in training.
    common: tuple[str, ...]  # The others.
    as_rare: str  # What the rare ones are called together, as "rare modalities".
    as_common: str  # What the common ones are called together in tables.
    article: str = ""  # What stands before that in a sentence.


def statistics_of(setting: Setting, seed: int, dice: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Statistics of the Dice of a training in points, a row per group of test cases, as ``stratum`` and ``label``."""
    rows = []
    for group, of in dice.groupby(by, sort=False)["dice"]:
        found = describe(of.to_numpy(dtype=np.float64))
        place = {
            "setting": setting.name,
            **asdict(setting),
            "seed": seed,
            **dict(zip(by, group, strict=True)),
        }
        rows.append(place | {name: 100 * found[name] for name in STATISTICS})
    return pd.DataFrame(rows)


def of_both(table: pd.DataFrame, strata: Strata) -> pd.DataFrame:
    """Means of the statistics over the common strata and over the rare ones, as `RARE` and ``as_common``."""
    kept = ["setting", *LEVELS, "rate", "seed"]
    names = dict.fromkeys(strata.common, strata.as_common) | dict.fromkeys(strata.rare, RARE)
    renamed = table.assign(stratum=table["stratum"].map(names))
    both = renamed.groupby([*kept, "stratum"], sort=False, as_index=False)[list(STATISTICS)].mean()
    return both[[*kept, "stratum", *STATISTICS]]


def differences_to_erm(both: pd.DataFrame) -> pd.DataFrame:
    """Differences of each statistic, the ``label``, to ERM by the same optimiser, as from `differences`."""
    both = both.rename(columns={"setting": "method"})
    long = both.melt(["method", "optimiser", "seed", "stratum"], STATISTICS, "label", "points")
    long = long.assign(mean=long["points"] / 100, p10=np.nan, share=np.nan, iteration=0)
    found = []
    for optimiser, of in long.groupby("optimiser", sort=False):
        roles = Roles(f"{optimiser}, ERM", "", common=(), rare=())
        found.append(differences(of, roles).assign(optimiser=optimiser))
    return pd.concat(found, ignore_index=True)


def main_effects(both: pd.DataFrame) -> pd.DataFrame:
    """What a factor changes, over all pairs of settings that differ in it alone.

    ERM takes no part.
    """
    rows = []
    for factor, (against, *levels) in LEVELS.items():
        others = [name for name in LEVELS if name != factor]
        # The two optimisers have learning rates of their own.
        wide = both[both["beta"] > 0].pivot(
            index=["stratum", "seed", *others], columns=factor, values="mean"
        )
        for level in wide.columns.intersection(levels):
            paired = (wide[level] - wide[against]).dropna()
            for stratum, of in paired.groupby("stratum", sort=False):
                place = {"factor": factor, "level": level, "against": against, "stratum": stratum}
                by_seed = of.groupby("seed")
                change = dict(
                    zip(("difference", "low", "high"), mean_interval(by_seed.mean()), strict=True)
                )
                rows.append(place | {"pairs": int(by_seed.size().max())} | change)
    return pd.DataFrame(rows)


def best_of_trials(both: pd.DataFrame) -> pd.DataFrame:
    """How far the best of `TRIALS` settings, drawn from all, is above their mean, in rows like those of `main_effects`.

    It is chosen by the rare strata's mean Dice of one seed, where it ``seemed`` better by so much;
    what it ``bought`` is seen on the other seeds. Means are over all draws and over the seeds that
    choose; ``pairs`` counts the settings.
    """
    above = both[both["stratum"] == RARE].pivot(index="setting", columns="seed", values="mean")
    above, n = above - above.mean(), len(above)
    n_tried = min(TRIALS, n)
    # Chances that the best setting, the second ... is the best of those that are tried.
    chances = [comb(n - 1 - place, n_tried - 1) / comb(n, n_tried) for place in range(n)]
    found = []
    for seed in above:
        ranked = above.sort_values(seed, ascending=False)
        others = ranked.drop(columns=seed).mean(axis=1)
        found.append(
            [
                np.average(of, weights=chances)
                for of in (ranked[seed], others, ranked[seed] - others)
            ]
        )
    rows = []
    for level, of_seeds in zip(("seemed", "bought", "too much"), np.transpose(found), strict=True):
        change = dict(
            zip(("difference", "low", "high"), mean_interval(pd.Series(of_seeds)), strict=True)
        )
        rows.append(
            {"factor": f"best of {n_tried}", "level": level, "stratum": RARE, "pairs": n} | change
        )
    return pd.DataFrame(rows)
