"""Dice by stratum and moment, and differences to plain training of the same seed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pandas as pd
from scipy import stats


class Run(Protocol):
    """What a run must say of itself."""

    @property
    def trainer(self) -> str:
        """Name of the trainer."""

    @property
    def seed(self) -> int:
        """Seed of the training."""


@dataclass(frozen=True)
class Roles:
    """What the methods and the strata are in a comparison.

    Attributes:
        plain: The method that the others are compared with.
        told: The method that is told the strata; the gains of the others are shares of its gain.
        common: The strata that are common in training.
        rare: The others.
        label: The label that the gains are about; None for all labels.
    """

    plain: str
    told: str
    common: tuple[str, ...]
    rare: tuple[str, ...]
    label: str | None = None

    @property
    def strata(self) -> tuple[str, ...]:
        """All strata, the common ones first."""
        return self.common + self.rare


@dataclass(frozen=True)
class ScoredRun:
    """A training that was tested at some moments.

    Attributes:
        method: Name of the method.
        trainer: Name of the trainer.
        seed: Seed of the training.
        dice: Columns ``iteration``, ``stratum``, ``label``, ``case`` and ``dice`` in [0, 1].
        share: Columns ``iteration``, ``stratum`` and ``share``, that of the stratum in the draws so far, in [0, 1].
        more: Other numbers of the training, for all its rows.
    """

    method: str
    trainer: str
    seed: int
    dice: pd.DataFrame
    share: pd.DataFrame
    more: dict[str, float]

    @classmethod
    def of(cls, name: str, run: "Run", result: Mapping[str, Any], *, label: str | None = None) -> "ScoredRun":
        """A finished training.

        Args:
            name: ``<method>-seed<seed>``.
            run: What was trained.
            result: As it is kept in JSON: rows ``dice`` (iteration, stratum, label, case, Dice) and ``share``
                (iteration, stratum, share); numbers are passed on, but for the ``seconds``.
            label: The only label, if the rows of ``dice`` have none.
        """
        columns = ["iteration", "stratum", *(["label"] if label is None else []), "case", "dice"]
        dice = pd.DataFrame(result["dice"], columns=columns)
        share = pd.DataFrame(result["share"], columns=["iteration", "stratum", "share"])
        more = {key: value for key, value in result.items() if isinstance(value, float) and key != "seconds"}
        if label is not None:
            dice["label"] = label
        return cls(name.rsplit("-", 1)[0], run.trainer, run.seed, dice, share, more)

    def with_mean_of_labels(self, name: str) -> "ScoredRun":
        """The same training with one more label: the mean over the labels of each case."""
        mean = self.dice.groupby(["iteration", "stratum", "case"], sort=False, as_index=False)["dice"].mean()
        return replace(self, dice=pd.concat([self.dice, mean.assign(label=name)], ignore_index=True))

    def regrouped(self, strata: "pd.Series[str]") -> "ScoredRun":
        """The same training with other strata, whose shares of the draws are not known.

        Args:
            strata: The stratum of every test case, by its name.
        """
        dice = self.dice.assign(stratum=strata.loc[self.dice["case"]].to_numpy())
        share = dice[["iteration", "stratum"]].drop_duplicates().assign(share=np.nan)
        return replace(self, dice=dice, share=share)


def scores_of(runs: Iterable[ScoredRun]) -> pd.DataFrame:
    """One row per training, moment, stratum and label.

    Returns:
        Columns ``method``, ``trainer``, ``seed``, ``iteration``, ``stratum``, ``label``, ``n`` (test cases), ``mean``
        and ``p10`` of their Dice in [0, 1], ``share`` of the stratum in the draws so far, and the other numbers.
    """
    rows = []
    for run in runs:
        shares = run.share.set_index(["iteration", "stratum"])["share"]
        for (iteration, stratum, label), of in run.dice.groupby(["iteration", "stratum", "label"], sort=False)["dice"]:
            rows.append(
                {
                    "method": run.method,
                    "trainer": run.trainer,
                    "seed": run.seed,
                    "iteration": iteration,
                    "stratum": stratum,
                    "label": label,
                    "n": len(of),
                    "mean": of.mean(),
                    "p10": np.percentile(of, 10),
                    "share": shares[iteration, stratum],
                    **run.more,
                }
            )
    return pd.DataFrame(rows)


def differences(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """Means over the seeds, and differences to plain training of the same seed.

    Returns:
        Columns ``iteration``, ``stratum``, ``label``, ``method``, ``seeds``, ``mean``, ``p10`` and ``share`` (means
        over the seeds), and ``difference`` of the mean with ``low`` and ``high``, the 95 % t-interval over the seeds
        (NaN for plain training and for a single seed); Dice in points of 100.
    """
    keys = ["iteration", "stratum", "label", "seed"]
    plain = scores[scores["method"] == roles.plain].set_index(keys)["mean"]
    rows = []
    for place, of in scores.groupby(["iteration", "stratum", "label", "method"], sort=False):
        is_plain = place[-1] == roles.plain
        paired = of.set_index(keys)["mean"].sub(plain).dropna() * 100
        difference, low, high = (np.nan,) * 3 if is_plain else mean_interval(paired)
        rows.append(
            {
                **dict(zip(("iteration", "stratum", "label", "method"), place, strict=True)),
                "seeds": of["seed"].nunique(),
                "mean": 100 * of["mean"].mean(),
                "p10": 100 * of["p10"].mean(),
                "share": 100 * of["share"].mean(),
                "difference": difference,
                "low": low,
                "high": high,
            }
        )
    return pd.DataFrame(rows)


def mean_interval(values: "pd.Series[float]") -> tuple[float, float, float]:
    """The mean of a value per seed, and the ends of its 95 % t-interval (NaN with a single seed)."""
    if len(values) < 2:
        return float(values.mean()), np.nan, np.nan
    half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)


def mean_of_rare(scores: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """The means over the rare strata, as one stratum, of the label of ``roles``.

    Args:
        scores: From `scores_of`.
        roles: What the methods and the strata are.

    Returns:
        Rows as in ``scores``, with the stratum "rare".
    """
    rare = scores[scores["stratum"].isin(roles.rare)]
    if roles.label is not None:
        rare = rare[rare["label"] == roles.label]
    keys = ["method", "trainer", "seed", "iteration", "label"]
    means = rare.groupby(keys, sort=False, as_index=False)[["mean", "p10", "share"]].mean()
    return means.assign(stratum="rare")


def decision(found: pd.DataFrame, roles: Roles, *, early: int) -> pd.DataFrame:
    """What the rule of docs/default.md asks of each method, one row each.

    Args:
        found: From `differences`.
        roles: What the methods and the strata are.
        early: The iteration that is a tenth of the training.

    Returns:
        Columns ``method``; ``worst_at_end``, its smallest difference in any stratum at the end, in points;
        ``lowest_on_the_way``, its smallest Dice in any stratum after a tenth, over plain training's, where that is a
        point at least (NaN if it is nowhere); ``gain`` and ``gain_early``, the mean difference of the rare strata at
        the end and after a tenth, over that of the method that is told them (NaN if that gains nothing); and
        ``passes``, whether no stratum loses more than a point and none is below half.
    """
    last = found["iteration"].max()
    of_all, of_rare = {}, {}
    for moment in (early, last):
        here = found[found["iteration"] == moment]
        of_all[moment] = here.pivot(index="method", columns=["stratum", "label"], values="mean")
        here = here[here["stratum"].isin(roles.rare) & here["label"].isin([roles.label or here["label"].iloc[0]])]
        of_rare[moment] = here.pivot(index="method", columns="stratum", values="mean")
    rows = []
    for method in of_all[last].index.drop(roles.plain):
        lost = (of_all[last].loc[method] - of_all[last].loc[roles.plain]).min()
        plain = of_all[early].loc[roles.plain]
        # Of two networks that have found next to nothing, neither is ahead.
        ratio = (of_all[early].loc[method] / plain.where(plain >= 1)).min()
        gains = {}
        for name, moment in (("gain", last), ("gain_early", early)):
            gained = of_rare[moment].sub(of_rare[moment].loc[roles.plain]).mean(axis=1)
            gains[name] = gained[method] / gained[roles.told] if gained.get(roles.told, 0) > 0 else np.nan
        rows.append(
            {
                "method": method,
                "worst_at_end": lost,
                "lowest_on_the_way": ratio,
                **gains,
                "passes": bool(lost >= -1 and not ratio < 0.5),
            }
        )
    return pd.DataFrame(rows)


def results_table(found: pd.DataFrame, roles: Roles) -> pd.DataFrame:
    """The table of a page: the differences with their intervals as text, and no label where there is only one."""
    numbers = found[["difference", "low", "high"]].to_numpy()
    dropped = ["difference", "low", "high", *(["label"] if found["label"].nunique() == 1 else [])]
    return found.drop(columns=dropped).assign(**{f"- {roles.plain}": [shown_difference(*row) for row in numbers]})


def shown_difference(difference: float, low: float, high: float) -> str:
    """A difference with its interval as text; empty where there is none."""
    if np.isnan(difference):
        return ""
    return f"{difference:+.1f}" + ("" if np.isnan(low) else f" [{low:+.1f}, {high:+.1f}]")


def verdict(low: float, high: float) -> str:
    """What the interval of a difference says: ``helps``, ``harms``, ``no clear difference``, or ``one seed``.

    Args:
        low: Its lower end; NaN if there is none.
        high: Its upper end.
    """
    if low != low:
        return "one seed"
    return "helps" if low > 0 else "harms" if high < 0 else "no clear difference"
