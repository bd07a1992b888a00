"""The record of a factorial."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import pandas as pd
from matplotlib.figure import Figure

from experiments.curves.figure import draw_intervals
from experiments.curves.results import mean_interval, shown_difference
from experiments.factorial import settings
from experiments.factorial.effects import (
    RARE,
    STATISTICS,
    TRIALS,
    Strata,
    best_of_trials,
    differences_to_erm,
    main_effects,
    of_both,
)
from experiments.factorial.settings import BETAS, NESTEROV, RATE, RATES, SGD, Setting
from experiments.record import Page, collapsed_trainings, render, without_collapsed


@dataclass(frozen=True)
class Words:
    """What a record is about."""

    name: str  # Name of its files.
    #: What extends the common text: it has what was asked and decided, and the limits.
    template: str
    strata: Strata  # The strata of the data.
    iterations: tuple[int, int]  # Length of the trainings, and that of a smoke run.
    label: str | None = None  # The label that the page is about; None if there is only one.
    #: What the template calls by name besides what all have.
    values: Mapping[str, object] = field(default_factory=dict)

    def page(self, tables: Mapping[str, pd.DataFrame], quick: bool) -> Page:
        """The page of a row per setting, seed and stratum."""
        table = tables["-all"]
        if self.label is not None:
            table = table[table["label"] == self.label]
        rows = page_table(table, self.strata)
        both = of_both(table, self.strata)
        effects = pd.concat([main_effects(both), best_of_trials(both)], ignore_index=True)
        return Page(
            self.text(table, quick=quick),
            rows,
            shown=shown_table(rows),
            more={"-effects": effects},
            pictures={"": partial(_draw, table, self.strata)},
        )

    def text(self, table: pd.DataFrame, *, quick: bool) -> str:
        """The text of the page above its table, of a row per setting, seed and stratum."""
        values = values_of(table, self.strata)
        values["n_seeds"] = table["seed"].nunique()
        values |= self.values
        return render(
            self.template,
            settings,
            name=self.name,
            iterations=self.iterations[quick],
            **values,
        )


def values_of(table: pd.DataFrame, strata: Strata) -> dict[str, object]:
    """What all pages say of their numbers."""
    both = of_both(table, strata)
    named = table.assign(method=table["setting"], label="")
    missed = collapsed_trainings(named.assign(mean=named["mean"] / 100))
    learnt = without_collapsed(named, missed)
    changes = differences_to_erm(both)
    is_shown = (changes["stratum"] == RARE) & (changes["label"] == "mean")
    robust = both.loc[both["beta"] > 0, "setting"].unique()
    compared = changes[is_shown].set_index("method").loc[robust]
    effects_without = []
    if len(missed):
        effects_without = _shown(main_effects(of_both(learnt, strata)))
    wide = both.pivot(index=["stratum", "seed"], columns="setting", values=list(STATISTICS))

    def mean(setting: Setting, *, rare: bool = True) -> float:
        """Mean Dice of the rare strata or of the common ones."""
        return float(wide["mean", setting.name].xs(RARE if rare else strata.as_common).mean())

    def change(
        setting: Setting, other: Setting, *, rare: bool = True, statistic: str = "mean"
    ) -> str:
        """A setting minus another, of the rare strata or of the common ones.

        It is empty if one was not trained.
        """
        if not {setting.name, other.name} <= set(both["setting"]):
            return ""
        by_seed = wide[statistic].xs(RARE if rare else strata.as_common)
        return shown_difference(*mean_interval(by_seed[setting.name] - by_seed[other.name]))

    return {
        "Setting": Setting,
        "mean": mean,
        "change": change,
        "effects": _shown(main_effects(both)),
        "trials": {row["level"]: row["shown"] for row in _shown(best_of_trials(both))},
        "n_tried": TRIALS,
        "n_missed": len(missed),
        "n_trainings": both.groupby(["setting", "seed"]).ngroups,
        "effects_without": effects_without,
        "erm": {"Nesterov": Setting(NESTEROV), "SGD": Setting(SGD, rate=RATE)},
        "by_rate": {rate: Setting(SGD, rate=rate) for rate in RATES},
        "best_rate": max(RATES, key=lambda rate: mean(Setting(SGD, rate=rate))),
        "best": compared["difference"].idxmax(),
        "worst": compared["difference"].idxmin(),
        "compared": compared.to_dict("index"),
        "n_better": int((compared["low"] > 0).sum()),
        "n_worse": int((compared["high"] < 0).sum()),
        "n_compared": len(compared),
        "rare": strata.as_rare,
        "common": strata.as_common,
        "of_common": f"{strata.article} {strata.as_common}".strip(),
    }


def _shown(effects: pd.DataFrame) -> list[dict[str, object]]:
    """What factors change, with the differences and their intervals as text."""
    intervals = effects[["difference", "low", "high"]].to_numpy()
    shown = [shown_difference(*interval) for interval in intervals]
    return effects.assign(shown=shown).to_dict("records")


def page_table(table: pd.DataFrame, strata: Strata) -> pd.DataFrame:
    """A row per setting, with differences to ERM.

    It has the mean, p10 and IQR of the rare strata, and the mean of the common ones.
    """
    changes = differences_to_erm(of_both(table, strata)).set_index(["method", "stratum", "label"])
    shown = [(RARE, "mean"), (RARE, "p10"), (RARE, "iqr"), (strata.as_common, "mean")]
    rows = []
    for setting, trainings in table.groupby("setting", sort=False):
        row: dict[str, object] = {"setting": setting}
        for stratum, statistic in shown:
            change = changes.loc[(setting, stratum, statistic)]
            interval = change[["difference", "low", "high"]]
            row[f"{stratum} {statistic}"] = change["mean"]
            row[f"{stratum} {statistic} - ERM"] = shown_difference(*interval)
        if "share" in trainings:
            is_rare = trainings["stratum"].isin(strata.rare)
            row["rare draws, %"] = trainings.loc[is_rare, "share"].mean()
        if "clipped" in trainings:
            row["clipped, %"] = trainings["clipped"].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def shown_table(rows: pd.DataFrame) -> pd.DataFrame:
    """Differences of the rare mean, a column per beta.

    What momentum changes is in the text and in the picture.
    """
    to_erm = rows.set_index("setting")[f"{RARE} mean - ERM"]
    shown = []
    for optimiser, weights in product((NESTEROV, SGD), (False, True)):
        row = {"optimiser": f"{optimiser}, weights" if weights else optimiser}
        for beta in BETAS:
            setting = Setting(optimiser, beta, weights, rate=RATE)
            row[f"beta {beta}"] = to_erm.get(setting.name)
        shown.append(row)
    return pd.DataFrame(shown)


def _draw(table: pd.DataFrame, strata: Strata) -> Figure:
    """Differences to ERM of the rare strata's mean and of the common ones', a row per setting."""
    changes = differences_to_erm(of_both(table, strata))
    changes = changes[(changes["label"] == "mean") & changes["difference"].notna()]
    words = "mean Dice - ERM by the same optimiser, points"
    return draw_intervals(changes, (RARE, strata.as_common), words)
