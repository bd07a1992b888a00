"""What the factors change: differences to ERM, and over pairs that differ in one factor alone."""

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
    """Statistics of the Dice of a training in points.

    There is a row per group of test cases, which columns as ``stratum`` and ``label`` name.
    """
    rows = []
    for group, scores in dice.groupby(by, sort=False)["dice"]:
        row: dict[str, object] = {"setting": setting.name, **asdict(setting), "seed": seed}
        row |= zip(by, group, strict=True)
        statistics = describe(scores.to_numpy(dtype=np.float64))
        for name in STATISTICS:
            row[name] = 100 * statistics[name]
        rows.append(row)
    return pd.DataFrame(rows)


def of_both(table: pd.DataFrame, strata: Strata) -> pd.DataFrame:
    """Means of the statistics over the common strata and over the rare ones.

    The strata are `RARE` and ``as_common``.
    """
    kept = ["setting", *LEVELS, "rate", "seed"]
    names = dict.fromkeys(strata.common, strata.as_common) | dict.fromkeys(strata.rare, RARE)
    renamed = table.assign(stratum=table["stratum"].map(names))
    both = renamed.groupby([*kept, "stratum"], sort=False, as_index=False)[list(STATISTICS)].mean()
    return both[[*kept, "stratum", *STATISTICS]]


def differences_to_erm(both: pd.DataFrame) -> pd.DataFrame:
    """Differences of each statistic to ERM by the same optimiser, as from `differences`.

    The statistic is the ``label``.
    """
    both = both.rename(columns={"setting": "method"})
    long = both.melt(["method", "optimiser", "seed", "stratum"], STATISTICS, "label", "points")
    long = long.assign(mean=long["points"] / 100, p10=np.nan, share=np.nan, iteration=0)
    tables = []
    for optimiser, rows in long.groupby("optimiser", sort=False):
        roles = Roles(f"{optimiser}, ERM", "", common=(), rare=())
        tables.append(differences(rows, roles).assign(optimiser=optimiser))
    return pd.concat(tables, ignore_index=True)


def main_effects(both: pd.DataFrame) -> pd.DataFrame:
    """What a factor changes, over all pairs of settings that differ in it alone.

    ERM takes no part.
    """
    robust = both[both["beta"] > 0]
    rows = []
    for factor, (against, *levels) in LEVELS.items():
        others = [name for name in LEVELS if name != factor]
        # The two optimisers have learning rates of their own.
        wide = robust.pivot(index=["stratum", "seed", *others], columns=factor, values="mean")
        for level in wide.columns.intersection(levels):
            paired = (wide[level] - wide[against]).dropna()
            for stratum, changes in paired.groupby("stratum", sort=False):
                by_seed = changes.groupby("seed")
                difference, low, high = mean_interval(by_seed.mean())
                rows.append(
                    {
                        "factor": factor,
                        "level": level,
                        "against": against,
                        "stratum": stratum,
                        "pairs": int(by_seed.size().max()),
                        "difference": difference,
                        "low": low,
                        "high": high,
                    }
                )
    return pd.DataFrame(rows)


def best_of_trials(both: pd.DataFrame) -> pd.DataFrame:
    """How far the best of `TRIALS` settings, drawn from all, is above their mean.

    The rows are like those of `main_effects`. The best setting is chosen by the rare strata's mean
    Dice of one seed, where it ``seemed`` better by so much; what it ``bought`` is seen on the other
    seeds. Means are over all draws and over the seeds that choose; ``pairs`` counts the settings.
    """
    above = both[both["stratum"] == RARE].pivot(index="setting", columns="seed", values="mean")
    above -= above.mean()
    n = len(above)
    n_tried = min(TRIALS, n)
    # Chances that the best setting, the second ... is the best of those that are tried.
    chances = [comb(n - 1 - place, n_tried - 1) / comb(n, n_tried) for place in range(n)]

    gains: dict[str, list[float]] = {"seemed": [], "bought": [], "too much": []}
    for seed in above:
        ranked = above.sort_values(seed, ascending=False)
        seemed = ranked[seed]
        bought = ranked.drop(columns=seed).mean(axis=1)
        gains["seemed"].append(np.average(seemed, weights=chances))
        gains["bought"].append(np.average(bought, weights=chances))
        gains["too much"].append(np.average(seemed - bought, weights=chances))

    rows = []
    for level, by_seed in gains.items():
        difference, low, high = mean_interval(pd.Series(by_seed))
        rows.append(
            {
                "factor": f"best of {n_tried}",
                "level": level,
                "stratum": RARE,
                "pairs": n,
                "difference": difference,
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(rows)
