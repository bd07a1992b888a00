"""Dice by stratum and moment, and differences to plain training of the same seed."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
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
    #: Methods that were trained on another machine to the plain training there, with which they are
    #: compared in place of ``plain``.
    plain_elsewhere: Mapping[str, str] = field(default_factory=dict)

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
    #: Columns ``iteration``, ``stratum``, ``label``, ``case`` and ``dice`` in [0, 1].
    dice: pd.DataFrame
    #: Columns ``iteration``, ``stratum`` and ``share``, that of the stratum in the draws so far, in
    #: [0, 1].
    share: pd.DataFrame
    more: dict[str, float]  # Other numbers of the training, for all its rows.

    @classmethod
    def of(
        cls, name: str, run: Any, result: Mapping[str, Any], *, label: str | None = None
    ) -> "ScoredRun":
        """The result of a run, as it is kept in JSON.

        The run has a ``trainer`` and a ``seed``, and is named ``<method>-seed<seed>``. Its result
        has rows ``dice`` (iteration, stratum, label, case, Dice), without a label if the only one
        is given, and rows ``share`` (iteration, stratum, share). Numbers are passed on, but for
        the ``seconds``.
        """
        columns = ["iteration", "stratum", "label", "case", "dice"]
        if label is not None:
            columns.remove("label")
        dice = pd.DataFrame(result["dice"], columns=columns)
        if label is not None:
            dice["label"] = label

        share = pd.DataFrame(result["share"], columns=["iteration", "stratum", "share"])
        more = {key: value for key, value in result.items() if isinstance(value, float)}
        more.pop("seconds", None)
        return cls(name.rsplit("-", 1)[0], run.trainer, run.seed, dice, share, more)

    def with_mean_of_labels(self, name: str) -> "ScoredRun":
        """The same training with one more label: the mean over the labels of each case."""
        keys = ["iteration", "stratum", "case"]
        mean = self.dice.groupby(keys, sort=False, as_index=False)["dice"].mean()
        dice = pd.concat([self.dice, mean.assign(label=name)], ignore_index=True)
        return replace(self, dice=dice)

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
        statistics = {"n": dice.size(), "mean": dice.mean(), "p10": dice.quantile(0.1)}
        scores = pd.DataFrame(statistics).reset_index()
        scores = scores.merge(run.share, "left", ["iteration", "stratum"]).assign(**run.more)
        for place, name in enumerate(("method", "trainer", "seed")):
            scores.insert(place, name, getattr(run, name))
        tables.append(scores)
    return pd.concat(tables, ignore_index=True)


def differences(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Means over the seeds, and differences to plain training of the same seed and machine.

    The Dice is in points of 100. The columns are ``iteration``, ``stratum``, ``label``, ``method``,
    ``seeds``, ``mean``, ``p10`` and ``share`` (means over the seeds), ``difference`` of the mean
    with ``low`` and ``high``, the 95 % t-interval over the seeds (NaN for plain training and for a
    single seed), and ``p10_difference``, ``p10_low`` and ``p10_high`` of the 10th percentile.
    """
    paired = _beside_plain(scores, roles)
    groups = ["iteration", "stratum", "label", "method"]
    grouped = paired.groupby(groups, sort=False, dropna=False)
    by_group = partial(_by_group, grouped.ngroup().to_numpy(), grouped.cumcount().to_numpy())

    table = pd.DataFrame({"seeds": grouped["seed"].nunique()}).reset_index()
    for statistic in ("mean", "p10", "share"):
        table[statistic] = 100 * _means_and_counts(by_group(paired[statistic]))[0]

    is_plain = table["method"] == roles.plain
    for statistic, start in (("mean", ""), ("p10", "p10_")):
        changes = by_group(100 * (paired[statistic] - paired[f"{statistic} of plain"]))
        means, half = _t_intervals(changes)
        for name, ends in (("difference", 0), ("low", -half), ("high", half)):
            table[f"{start}{name}"] = np.where(is_plain, np.nan, means + ends)
    return table


def _beside_plain(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """`scores_of`, with mean and 10th percentile of plain training of the same seed and machine."""
    keys = ["iteration", "stratum", "label", "seed"]
    baselines = {
        method: roles.plain_elsewhere.get(method, roles.plain) for method in scores["method"]
    }
    plain = scores[scores["method"].isin(set(baselines.values()))]
    plain = plain[["method", *keys, "mean", "p10"]].rename(columns={"method": "baseline"})
    paired = scores.assign(baseline=scores["method"].map(baselines))
    return paired.merge(plain, "left", ["baseline", *keys], suffixes=("", " of plain"))


def _by_group(
    group: NDArray[np.int64], place: NDArray[np.int64], values: "pd.Series[float]"
) -> NDArray[np.float64]:
    """The values of each group in a row, each at its place, and NaN after the last.

    Means of such rows are much faster than a function called for each group, and have its last
    digits; those of `DataFrameGroupBy.mean`, summed in another way, have others.
    """
    by_group = np.full((group.max(initial=-1) + 1, place.max(initial=-1) + 1), np.nan)
    by_group[group, place] = values
    return by_group


def _t_intervals(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of each row, and half of its 95 % t-interval."""
    means, counts = _means_and_counts(rows)
    variances, _ = _means_and_counts((rows - means[:, np.newaxis]) ** 2, lost=1)
    error = np.sqrt(variances) / np.sqrt(counts)
    return means, stats.t.ppf(0.975, counts - 1) * error


def _means_and_counts(
    rows: NDArray[np.float64], *, lost: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The sum of each row over the number of its values less those lost, and that number.

    NaN is no value. Where none is left, so is the mean.
    """
    counts = (~np.isnan(rows)).sum(axis=1)
    left = np.where(counts > lost, counts - lost, np.nan)
    return np.nansum(rows, axis=1) / left, counts


def mean_interval(values: "pd.Series[float]") -> tuple[float, float, float]:
    """The mean of a value per seed, and the ends of its 95 % t-interval.

    The ends are NaN with a single seed.
    """
    mean = values.mean()
    if len(values) < 2:
        return float(mean), np.nan, np.nan
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return float(mean), float(mean - half), float(mean + half)


def at_the_end(scores: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last moment of every training, whatever its length."""
    last = scores.groupby(["method", "seed"])["iteration"].transform("max")
    return scores[scores["iteration"] == last]


def mean_of_rare(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """The means over the rare strata of `scores_of`, as one stratum, "rare".

    They are those of the label of ``roles``.
    """
    rare = scores[scores["stratum"].isin(roles.rare)]
    if roles.label is not None:
        rare = rare[rare["label"] == roles.label]
    keys = ["method", "trainer", "seed", "iteration", "label"]
    means = rare.groupby(keys, sort=False, as_index=False)[["mean", "p10", "share"]].mean()
    return means.assign(stratum="rare")


def decision(scores: pd.DataFrame, roles: Roles, *, wrong_labels: bool = False) -> pd.DataFrame:
    """What the rule of docs/default.md asks of each method, one row each, plain training first.

    What a method may lose stands in `LIMITS`. The columns are ``method``;
    ``worst_at_end`` and ``worst_p10_at_end``, its smallest difference of mean and 10th percentile
    in any stratum and label at the end, in points;
    ``worst_on_the_way`` and ``worst_p10_on_the_way``, the same at the moments nearest to a tenth, a
    quarter and a half of the training (NaN if there are none);
    ``rare`` and ``rare_p10``, the mean over the rare strata at the end, and the differences to
    plain training as text;
    ``gain`` and ``gain_early``, the mean difference of the rare strata at the end and after a
    tenth, over that of the method that is told them (NaN if it may gain nothing), with
    ``gain_low`` and ``gain_high``, the 95 % interval of the bootstrap over the seeds;
    ``passes`` and ``passes_p10``, whether the losses of the mean and of the 10th percentile are
    allowed (None where others were compared with plain training on the way and this was not).
    """
    moments = np.sort(scores["iteration"].unique())
    last = moments[-1]
    nearest = _nearest_moments(moments)
    compared = differences(scores[scores["iteration"].isin([*nearest, last])], roles)
    rare = mean_of_rare(scores, roles)
    rare_at_end = differences(rare[rare["iteration"] == last], roles)
    shown = results_table(rare_at_end, roles).set_index("method")

    rows = []
    for method, changes in compared.groupby("method", sort=False):
        row: dict[str, Any] = {"method": str(method), **_worst(changes, last)}
        for statistic, name in (("mean", "rare"), ("p10", "rare_p10")):
            row[name] = shown.loc[method, statistic]
            row[f"{name} - {roles.plain}"] = shown.loc[method, _minus(statistic, roles)]
        row["gain"], row["gain_low"], row["gain_high"] = _gain(rare, roles, method, last)
        row["gain_early"] = np.nan
        if nearest:
            row["gain_early"], _, _ = _gain(rare, roles, method, nearest[0])
        for suffix in ("", "_p10"):
            row[f"passes{suffix}"] = _passes(
                row, suffix, LIMITS[wrong_labels], on_the_way=bool(nearest)
            )
        rows.append(row)

    table = pd.DataFrame(rows)
    return table.sort_values(
        "method", key=lambda names: names != roles.plain, kind="stable", ignore_index=True
    )


def _nearest_moments(moments: NDArray[np.int64]) -> list[int]:
    """The moments nearest to a tenth, a quarter and a half of the last one, if there are others."""
    *before, last = moments
    if not before:
        return []
    return [before[np.abs(np.array(before) - last / part).argmin()] for part in (10, 4, 2)]


def _worst(changes: pd.DataFrame, last: int) -> dict[str, float]:
    """The smallest differences of a method in any stratum and label, at the end and on the way."""
    is_end = changes["iteration"] == last
    at_end = changes[is_end]
    on_the_way = changes[~is_end]
    return {
        "worst_at_end": at_end["difference"].min(),
        "worst_p10_at_end": at_end["p10_difference"].min(),
        "worst_on_the_way": on_the_way["difference"].min(),
        "worst_p10_on_the_way": on_the_way["p10_difference"].min(),
    }


def _passes(
    row: Mapping[str, Any], suffix: str, limits: tuple[float, float], *, on_the_way: bool
) -> bool | None:
    """Whether a method loses no more than the limits at the end and on the way.

    What is not known (NaN) is no loss. It is None if there are moments ``on_the_way``, but the
    method was compared with plain training at the end alone, and does not fail there.
    """
    at_end, limit_on_the_way = limits
    change_at_end = row[f"worst{suffix}_at_end"]
    change_on_the_way = row[f"worst{suffix}_on_the_way"]
    if change_at_end < -at_end or change_on_the_way < -limit_on_the_way:
        return False
    is_compared_at_the_end_alone = np.isnan(change_on_the_way) and not np.isnan(change_at_end)
    return None if on_the_way and is_compared_at_the_end_alone else True


def _gain(
    rare: pd.DataFrame, roles: Roles, method: Hashable, iteration: int
) -> tuple[float, float, float]:
    """A method's gain over that of the method told the strata.

    The interval is that of all samples of the seeds. There is none of a method that was trained on
    another machine.
    """
    undefined = (np.nan, np.nan, np.nan)
    rows = rare[rare["iteration"] == iteration]
    means = rows.pivot(index="seed", columns="method", values="mean")
    elsewhere = {*roles.plain_elsewhere, *roles.plain_elsewhere.values()}
    if method == roles.plain or method in elsewhere or not {method, roles.told} <= set(means):
        return undefined
    gains = means[[method, roles.told]].sub(means[roles.plain], axis=0).dropna().to_numpy()
    n = len(gains)
    if n == 0 or gains[:, 1].mean() <= 0:
        return undefined

    samples = np.array(list(product(range(n), repeat=n)))
    gain, gain_of_told = gains[samples].mean(axis=1).T
    # A share of no gain is as large as one likes; where that is more than a rarity, there is none.
    if (gain_of_told <= 0).mean() > 0.025:
        return undefined

    ratio = float(gains[:, 0].mean() / gains[:, 1].mean())
    if method == roles.told or n < 2:
        return ratio, np.nan, np.nan
    ratios = np.full(len(samples), np.inf)
    np.divide(gain, gain_of_told, out=ratios, where=gain_of_told > 0)
    low, high = np.percentile(ratios, [2.5, 97.5], method="nearest")
    if np.isinf(high):
        return ratio, np.nan, np.nan
    return ratio, float(low), float(high)


def results_table(changes: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """The table of a page: `differences` with their intervals as text.

    It has no label where there is only one.
    """
    table = changes
    for statistic, start in (("mean", ""), ("p10", "p10_")):
        columns = [f"{start}difference", f"{start}low", f"{start}high"]
        intervals = changes[columns].to_numpy(dtype=float)
        texts = [shown_difference(*interval) for interval in intervals]
        table = table.drop(columns=columns).assign(**{_minus(statistic, roles): texts})
    if changes["label"].nunique() == 1:
        table = table.drop(columns="label")
    return table


def _minus(statistic: str, roles: Roles) -> str:
    return f"- {roles.plain}" if statistic == "mean" else f"{statistic} - {roles.plain}"


def shown_difference(difference: float, low: float, high: float) -> str:
    """A difference with its interval as text; empty where there is none."""
    if np.isnan(difference):
        return ""
    if np.isnan(low):
        return f"{difference:+.1f}"
    return f"{difference:+.1f} [{low:+.1f}, {high:+.1f}]"
