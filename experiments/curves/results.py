"""Dice by stratum and moment, and differences to plain training of the same seed."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

#: Whether labels are wrong to the points of Dice that a stratum may lose at the end and on the way
#: (docs/default.md).
LIMITS = {False: (1, 3), True: (5, 5)}


@dataclass(frozen=True)
class Roles:
    """What the methods and the strata are in a comparison."""

    plain: str  # The method that the others are compared with.
    told: str  # The method that is told the strata; the gains of the others are shares of its gain.
    common: tuple[str, ...]  # The strata that are common in training.
    rare: tuple[str, ...]  # The others.
    label: str | None = None  # The label that the gains are about; None for all labels.

    @property
    def strata(self) -> tuple[str, ...]:
        """All strata, the common ones first."""
        return self.common + self.rare


@dataclass(frozen=True)
class ScoredRun:
    """A training that was tested at some moments."""

    method: str  # Name of the method.
    trainer: str  # Name of the trainer.
    seed: int  # Seed of the training.
    dice: (
        pd.DataFrame
    )  # Columns ``iteration``, ``stratum``, ``label``, ``case`` and ``dice`` in [0, 1].
    # Columns ``iteration``, ``stratum`` and ``share``, that of the stratum in the draws so far, in
    # [0, 1].
    share: pd.DataFrame
    more: dict[str, float]  # Other numbers of the training, for all its rows.

    @classmethod
    def of(
        cls, name: str, run: Any, result: Mapping[str, Any], *, label: str | None = None
    ) -> "ScoredRun":
        """The result of a run (``trainer``, ``seed``) named ``<method>-seed<seed>``, as it is kept in JSON.

        It has rows ``dice`` (iteration, stratum, label, case, Dice), without a label if the only
        one is given, and rows ``share`` (iteration, stratum, share); numbers are passed on, but for
        the ``seconds``.
        """
        columns = ["iteration", "stratum", *(["label"] if label is None else []), "case", "dice"]
        dice = pd.DataFrame(result["dice"], columns=columns)
        share = pd.DataFrame(result["share"], columns=["iteration", "stratum", "share"])
        more = {
            key: value
            for key, value in result.items()
            if isinstance(value, float) and key != "seconds"
        }
        if label is not None:
            dice["label"] = label
        return cls(name.rsplit("-", 1)[0], run.trainer, run.seed, dice, share, more)

    def with_mean_of_labels(self, name: str) -> "ScoredRun":
        """The same training with one more label: the mean over the labels of each case."""
        mean = self.dice.groupby(["iteration", "stratum", "case"], sort=False, as_index=False)[
            "dice"
        ].mean()
        return replace(
            self, dice=pd.concat([self.dice, mean.assign(label=name)], ignore_index=True)
        )

    def regrouped(self, strata: "pd.Series[str]") -> "ScoredRun":
        """The same training with other strata, by the test cases' names.

        Their shares of the draws are not known.
        """
        dice = self.dice.assign(stratum=strata.loc[self.dice["case"]].to_numpy())
        share = dice[["iteration", "stratum"]].drop_duplicates().assign(share=np.nan)
        return replace(self, dice=dice, share=share)


def scores_of(runs: Iterable[ScoredRun]) -> pd.DataFrame:
    """One row per training, moment, stratum and label.

    The columns are ``method``, ``trainer``, ``seed``, ``iteration``, ``stratum``, ``label``, ``n``
    (test cases), ``mean`` and ``p10`` of their Dice in [0, 1], ``share`` of the stratum in the
    draws so far, and the other numbers.
    """
    tables = []
    for run in runs:
        dice = run.dice.groupby(["iteration", "stratum", "label"], sort=False)["dice"]
        scores = pd.DataFrame(
            {"n": dice.size(), "mean": dice.mean(), "p10": dice.quantile(0.1)}
        ).reset_index()
        scores = scores.merge(run.share, "left", ["iteration", "stratum"]).assign(**run.more)
        for place, name in enumerate(("method", "trainer", "seed")):
            scores.insert(place, name, getattr(run, name))
        tables.append(scores)
    return pd.concat(tables, ignore_index=True)


def differences(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Means over the seeds, and differences to plain training of the same seed, Dice in points of 100.

    The columns are ``iteration``, ``stratum``, ``label``, ``method``, ``seeds``, ``mean``, ``p10``
    and ``share`` (means over the seeds), ``difference`` of the mean with ``low`` and ``high``, the
    95 % t-interval over the seeds (NaN for plain training and for a single seed), and
    ``p10_difference``, ``p10_low`` and ``p10_high`` of the 10th percentile.
    """
    keys = ["iteration", "stratum", "label", "seed"]
    plain = scores.loc[scores["method"] == roles.plain, [*keys, "mean", "p10"]]
    paired = scores.merge(plain, "left", keys, suffixes=("", " of plain"))
    rows = []
    for place, of in paired.groupby(["iteration", "stratum", "label", "method"], sort=False):
        row = dict(zip(("iteration", "stratum", "label", "method"), place, strict=True))
        row["seeds"] = of["seed"].nunique()
        row |= {name: 100 * of[name].mean() for name in ("mean", "p10", "share")}
        for statistic, start in (("mean", ""), ("p10", "p10_")):
            changes = 100 * (of[statistic] - of[f"{statistic} of plain"]).dropna()
            found = (np.nan,) * 3 if row["method"] == roles.plain else mean_interval(changes)
            row |= dict(
                zip((f"{start}difference", f"{start}low", f"{start}high"), found, strict=True)
            )
        rows.append(row)
    return pd.DataFrame(rows)


def mean_interval(values: "pd.Series[float]") -> tuple[float, float, float]:
    """The mean of a value per seed, and the ends of its 95 % t-interval (NaN with a single seed)."""
    if len(values) < 2:
        return float(values.mean()), np.nan, np.nan
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)


def at_the_end(scores: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last moment of every training, whatever its length."""
    return scores[
        scores["iteration"] == scores.groupby(["method", "seed"])["iteration"].transform("max")
    ]


def mean_of_rare(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """The means over the rare strata of `scores_of`, as one stratum, "rare", of the label of ``roles``."""
    rare = scores[scores["stratum"].isin(roles.rare)]
    if roles.label is not None:
        rare = rare[rare["label"] == roles.label]
    keys = ["method", "trainer", "seed", "iteration", "label"]
    means = rare.groupby(keys, sort=False, as_index=False)[["mean", "p10", "share"]].mean()
    return means.assign(stratum="rare")


def decision(scores: pd.DataFrame, roles: Roles, *, wrong_labels: bool = False) -> pd.DataFrame:
    """What the rule of docs/default.md asks of each method, one row each, plain training first.

    See `LIMITS`.

    The columns are ``method``; ``worst_at_end`` and ``worst_p10_at_end``, its smallest difference
    of mean and 10th percentile in any stratum and label at the end, in points; ``worst_on_the_way``
    and ``worst_p10_on_the_way``, the same at the moments nearest to a tenth, a quarter and a half
    of the training (NaN if there are none); ``rare`` and ``rare_p10``, the mean over the rare
    strata at the end, and the differences to plain training as text; ``gain`` and ``gain_early``,
    the mean difference of the rare strata at the end and after a tenth, over that of the method
    that is told them (NaN if it may gain nothing), with ``gain_low`` and ``gain_high``, the 95 %
    interval of the bootstrap over the seeds; ``passes`` and ``passes_p10``, whether the losses of
    the mean and of the 10th percentile are allowed.
    """
    moments = np.sort(scores["iteration"].unique())
    last = moments[-1]
    before = moments[:-1]
    nearest = (
        [before[np.abs(before - last / part).argmin()] for part in (10, 4, 2)]
        if len(before)
        else []
    )
    compared = differences(scores[scores["iteration"].isin([*nearest, last])], roles)
    rare = mean_of_rare(scores, roles)
    shown = results_table(differences(rare[rare["iteration"] == last], roles), roles).set_index(
        "method"
    )
    rows = []
    for name_of, of in compared.groupby("method", sort=False):
        method = str(name_of)
        row: dict[str, Any] = {"method": method}
        is_end = of["iteration"] == last
        for moment, chosen in (("at_end", of[is_end]), ("on_the_way", of[~is_end])):
            row[f"worst_{moment}"] = chosen["difference"].min()
            row[f"worst_p10_{moment}"] = chosen["p10_difference"].min()
        for statistic, name in (("mean", "rare"), ("p10", "rare_p10")):
            row[name] = shown.loc[method, statistic]
            row[f"{name} - {roles.plain}"] = shown.loc[method, _minus(statistic, roles)]
        row |= dict(
            zip(("gain", "gain_low", "gain_high"), _gain(rare, roles, method, last), strict=True)
        )
        row["gain_early"] = _gain(rare, roles, method, nearest[0])[0] if nearest else np.nan
        at_end, on_the_way = LIMITS[wrong_labels]
        for suffix in ("", "_p10"):
            lost = (
                row[f"worst{suffix}_at_end"] < -at_end
                or row[f"worst{suffix}_on_the_way"] < -on_the_way
            )
            row[f"passes{suffix}"] = not lost
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.sort_values(
        "method", key=lambda of: of != roles.plain, kind="stable", ignore_index=True
    )


def _gain(
    rare: pd.DataFrame, roles: Roles, method: Hashable, iteration: int
) -> tuple[float, float, float]:
    """A method's gain over that of the method told the strata.

    The interval is that of all samples of the seeds.
    """
    means = rare[rare["iteration"] == iteration].pivot(
        index="seed", columns="method", values="mean"
    )
    if method == roles.plain or not {method, roles.told} <= set(means):
        return (np.nan,) * 3
    gained = means[[method, roles.told]].sub(means[roles.plain], axis=0).dropna().to_numpy()
    if not len(gained) or gained[:, 1].mean() <= 0:
        return (np.nan,) * 3
    ratio = float(gained[:, 0].mean() / gained[:, 1].mean())
    samples = gained[np.array(list(product(range(len(gained)), repeat=len(gained))))].mean(axis=1)
    gain = samples[:, 0]
    of_told = samples[:, 1]
    # A share of no gain is as large as one likes; where that is more than a rarity, there is none.
    if (of_told <= 0).mean() > 0.025:
        return (np.nan,) * 3
    if method == roles.told or len(gained) < 2:
        return ratio, np.nan, np.nan
    ratios = np.divide(gain, of_told, out=np.full(len(samples), np.inf), where=of_told > 0)
    low, high = np.percentile(ratios, [2.5, 97.5], method="nearest")
    return (ratio, float(low), float(high)) if np.isfinite(high) else (ratio, np.nan, np.nan)


def results_table(found: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """The table of a page: the differences with their intervals as text, and no label where there is only one."""
    parts = {
        "mean": ("difference", "low", "high"),
        "p10": ("p10_difference", "p10_low", "p10_high"),
    }
    dropped = [name for names in parts.values() for name in names]
    dropped += ["label"] if found["label"].nunique() == 1 else []
    texts = {
        _minus(statistic, roles): [
            shown_difference(*row) for row in found[list(names)].to_numpy(dtype=float)
        ]
        for statistic, names in parts.items()
    }
    return found.drop(columns=dropped).assign(**texts)


def _minus(statistic: str, roles: Roles) -> str:
    return f"- {roles.plain}" if statistic == "mean" else f"{statistic} - {roles.plain}"


def shown_difference(difference: float, low: float, high: float) -> str:
    """A difference with its interval as text; empty where there is none."""
    if np.isnan(difference):
        return ""
    return f"{difference:+.1f}" + ("" if np.isnan(low) else f" [{low:+.1f}, {high:+.1f}]")
