"""Every epoch of every training, and each training against ERM of the same seed."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves.results import Roles, differences, mean_interval, results_table
from experiments.digits.plan import BETAS, RATE, SLOW, SMALLER_RATE, Run

#: ERM is what the others are compared with; no method is told the digits.
ROLES = Roles(plain="ERM", told="", common=("all",), rare=("3s",))
#: Points of accuracy. A training has reached its plateau if the 3s rise by less from the third to
#: the last quarter, and a fall of the accuracy on all images counts from here on.
POINT = 1.0
#: A training has reached its plateau if the mean training loss of the 3s is below this in the last
#: quarter.
FITTED = 0.05
#: Measured epochs that are averaged before they are compared with the end of ERM.
SMOOTHED = 5
#: What names a training in `epochs_table`.
TRAINING = ["kept", "method", "seed"]


def method_of(beta: float, rate: float = RATE) -> str:
    """The name of a method on the page."""
    name = f"beta {beta:g}" if beta else ROLES.plain
    return name if rate == RATE else f"{name}, rate {rate:g}"


#: The methods with the papers' learning rate, and those with the smaller one.
METHODS = [method_of(beta) for beta in BETAS]
SLOW_METHODS = [method_of(beta, SMALLER_RATE) for beta in SLOW]


def epochs_table(results: Iterable[tuple[Run, Mapping[str, Any]]]) -> pd.DataFrame:
    """A row per training and measured epoch, of runs and their results.

    They are ordered by share, method, seed and epoch.
    """
    tables = []
    for run, result in results:
        for beta, measured in zip(run.betas, result["epochs"], strict=True):
            table = pd.DataFrame(measured)
            table.insert(0, "kept", 100 * run.share)
            table.insert(1, "method", method_of(beta, run.learning_rate))
            table.insert(2, "seed", run.seed)
            tables.append(table)
    return in_order(pd.concat(tables)).reset_index(drop=True)


def in_order(epochs: pd.DataFrame) -> pd.DataFrame:
    """The rows of `epochs_table` in its order, after those of more seeds have come to them."""
    place = epochs["method"].map([*METHODS, *SLOW_METHODS].index)
    ordered = epochs.assign(place=place).sort_values(["kept", "place", "seed", "epoch"])
    return ordered.drop(columns="place")


def quarter_of(epochs: pd.DataFrame) -> pd.Series:
    """The quarter of its training that each row of `epochs_table` is in, 1 to 4."""
    n_epochs = epochs.groupby(TRAINING)["epoch"].transform("max")
    return 1 + 4 * (epochs["epoch"] - 1) // n_epochs


def gains(epochs: pd.DataFrame) -> pd.DataFrame:
    """Accuracy in each quarter of the training, and its difference to ERM of the same seed."""
    by_quarter = epochs.assign(iteration=quarter_of(epochs))
    quarters = by_quarter.groupby([*TRAINING, "iteration"], sort=False)
    means = quarters[["rare", "overall"]].mean().reset_index()
    return _differences(means, {"3s": "rare", "all": "overall"})


def falls(epochs: pd.DataFrame) -> pd.DataFrame:
    """How stable each training is from one epoch to the next, in its first quarter."""
    rows = []
    first_quarter = epochs[quarter_of(epochs) == 1]
    for (kept, method, seed), training in first_quarter.groupby(TRAINING, sort=False):
        # The first epoch has none before it.
        changes = training[["overall", "loss", "stale_loss"]].diff().iloc[1:]
        sd = training["loss_sd"].iloc[1:]
        lost = (-changes["overall"]).clip(lower=0)
        is_fall = changes["overall"] <= -POINT
        rows.append(
            {
                "kept": kept,
                "method": method,
                "seed": seed,
                "fall": lost.mean(),
                "lost": lost.sum(),
                "falls": int(is_fall.sum()),
                "loss_rises": int((changes["loss"] > 0)[is_fall].sum()),
                "stale_rises": int((changes["stale_loss"] > 0)[is_fall].sum()),
                "sd_there": sd[is_fall].mean(),
                "sd_elsewhere": sd[~is_fall].mean(),
                "stale_sd": training["stale_sd"].mean(),
            }
        )
    return pd.DataFrame(rows)


def fall_differences(fallen: pd.DataFrame) -> pd.DataFrame:
    """The mean falls of `falls`, and their difference to ERM of the same seed.

    They are in rows like those of `gains`, of the first quarter.
    """
    return _differences(fallen.assign(iteration=1), {"all": "fall"})


def calmed(fallen: pd.DataFrame) -> pd.DataFrame:
    """What the smaller learning rate changes, by method.

    That is in the mean fall, and in all points that are lost by falls.
    """
    by_seed = fallen.pivot(index=["kept", "seed"], columns="method", values=["fall", "lost"])
    rows = []
    for beta, (what, name) in product(SLOW, {"fall": "mean fall", "lost": "sum of falls"}.items()):
        method = method_of(beta)
        slow = method_of(beta, SMALLER_RATE)
        if slow in by_seed[what]:
            changes = by_seed[what][slow] - by_seed[what][method]
            change, low, high = mean_interval(changes.dropna())
            rows.append(
                {"method": method, "what": name, "change": change, "low": low, "high": high}
            )
    return pd.DataFrame(rows)


def plateaus(epochs: pd.DataFrame) -> pd.DataFrame:
    """Whether the trainings have reached their plateau, by the means over the seeds."""
    by_quarter = epochs.assign(quarter=quarter_of(epochs))
    quarters = by_quarter.groupby(["kept", "method", "quarter"], sort=False)
    means = quarters[["rare", "rare_loss"]].mean().reset_index()
    third = means[means["quarter"] == 3].set_index(["kept", "method"])
    last = means[means["quarter"] == 4].set_index(["kept", "method"])
    table = pd.DataFrame({"rise": last["rare"] - third["rare"], "rare_loss": last["rare_loss"]})
    table["reached"] = (table["rise"] < POINT) & (table["rare_loss"] < FITTED)
    return table.reset_index()


def distances(epochs: pd.DataFrame) -> pd.DataFrame:
    """How far each method's accuracy on the 3s is from that of ERM of the same seed.

    It is the mean over the epochs; ``more`` is the difference to the next smaller beta.
    """
    accuracy = epochs.pivot(index=["kept", "seed", "epoch"], columns="method", values="rare")
    apart = accuracy.sub(accuracy[ROLES.plain], axis=0).abs().drop(columns=ROLES.plain)
    by_seed = apart.groupby(["kept", "seed"]).mean()
    rows = []
    for kept, means in by_seed.groupby("kept"):
        before = None
        for method in METHODS:
            if method not in means or means[method].isna().all():
                continue
            row = {"kept": kept, "method": method, "distance": means[method].mean()}
            interval = (np.nan, np.nan, np.nan)
            if before is not None:
                interval = mean_interval(means[method] - means[before])
            row["more"], row["low"], row["high"] = interval
            rows.append(row)
            before = method
    return pd.DataFrame(rows)


def _differences(rows: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """`differences` of columns in points, which it takes as fractions.

    ``columns`` has the column of each label.
    """
    # An accuracy is one number, and the share of the draws is in another table.
    rows = rows.assign(stratum=rows["kept"].map("{:g} %".format), p10=np.nan, share=np.nan)
    scores = []
    for label, column in columns.items():
        scores.append(rows.assign(label=label, mean=rows[column] / 100))
    return differences(pd.concat(scores, ignore_index=True), ROLES)


def trainings_table(epochs: pd.DataFrame) -> pd.DataFrame:
    """The table of the page: a row per training, in the order of `epochs_table`."""
    quarter = quarter_of(epochs)
    ends = epochs[quarter == 4].groupby(TRAINING, sort=False)["rare"].mean()
    rows = []
    for (kept, method, seed), training in epochs.groupby(TRAINING, sort=False):
        first = training[quarter[training.index] == 1]
        last = training[quarter[training.index] == 4]
        end = ends[kept, method, seed]
        end_of_erm = ends[kept, ROLES.plain, seed]
        is_level = training["rare"].rolling(SMOOTHED).mean() >= end_of_erm
        gain = np.nan
        if method != ROLES.plain:
            gain = end - end_of_erm
        rows.append(
            {
                "3s kept": f"{kept:g} %",
                "method": method,
                "seed": seed,
                "level by": training.loc[is_level, "epoch"].min(),
                "3s first": first["rare"].mean(),
                "3s last": end,
                "gain": gain,
                "all first": first["overall"].mean(),
                "all last": last["overall"].mean(),
                "loss last": last["loss"].mean(),
                "sd last": last["loss_sd"].mean(),
                "3s loss last": last["rare_loss"].mean(),
                "3s drawn": first["drawn"].mean(),
                "distinct": first["distinct"].mean(),
            }
        )
    return pd.DataFrame(rows)


def quarters_table(epochs: pd.DataFrame) -> pd.DataFrame:
    """The accuracy of ERM and the differences to it, as text.

    There is a column per quarter of the training.
    """
    shown = results_table(gains(epochs), ROLES)
    accuracies = shown["mean"].map("{:.1f}".format)
    shown["text"] = shown[f"- {ROLES.plain}"].where(shown["method"] != ROLES.plain, accuracies)
    keys = ["label", "stratum", "method"]
    order = pd.MultiIndex.from_frame(shown[keys].drop_duplicates())
    wide = shown.pivot(index=keys, columns="iteration", values="text").reindex(order)
    wide.columns = [f"quarter {quarter}" for quarter in wide.columns]
    return wide.reset_index().rename(columns={"label": "test images", "stratum": "3s kept"})


def stability_table(fallen: pd.DataFrame) -> pd.DataFrame:
    """The mean fall, its difference to ERM, and what happens in all falls.

    There is a row per share and method.
    """
    compared = fall_differences(fallen).reset_index(drop=True)
    groups = fallen.groupby(["kept", "method"], sort=False)
    sums = groups[["falls", "loss_rises", "stale_rises"]].sum().reset_index(drop=True)
    # Both of the same seeds, those with falls.
    sds = fallen[["sd_there", "sd_elsewhere"]].where(fallen["falls"] > 0)
    means = sds.groupby([fallen["kept"], fallen["method"]], sort=False).mean()
    means = means.reset_index(drop=True)
    return pd.DataFrame(
        {
            "3s kept": compared["stratum"],
            "method": compared["method"],
            "mean fall": compared["mean"].round(2),
            f"- {ROLES.plain}": results_table(compared, ROLES)[f"- {ROLES.plain}"],
            "falls": sums["falls"],
            "loss rises": sums["loss_rises"],
            "last drawn rises": sums["stale_rises"],
            "SD there": means["sd_there"],
            "SD elsewhere": means["sd_elsewhere"],
            "1 / SD last drawn": 1 / groups["stale_sd"].mean().reset_index(drop=True),
        }
    )
