"""The tables of the page, each of which is a file of its own as well."""

import numpy as np
import pandas as pd

from experiments.curves import results_table
from experiments.digits.results import ROLES, TRAINING, fall_differences, gains, quarter_of

#: Measured epochs that are averaged before they are compared with the end of ERM.
SMOOTHED = 5


def trainings_table(epochs: pd.DataFrame) -> pd.DataFrame:
    """One row per training, in the order of `epochs_table`, which it is made from: the table of the page.

    ``level by`` is the first measured epoch of which the last five have, on average, as high an accuracy on the 3s as
    ERM of the same seed in the last quarter; NaN if there is none.
    """
    quarter = quarter_of(epochs)
    ends = epochs[quarter == 4].groupby(TRAINING, sort=False)["rare"].mean()
    rows = []
    for (kept, method, seed), of in epochs.groupby(TRAINING, sort=False):
        first, last = (of[quarter[of.index] == q] for q in (1, 4))
        end, end_of_erm = ends[kept, method, seed], ends[kept, ROLES.plain, seed]
        rows.append(
            {
                "3s kept": f"{kept:g} %",
                "method": method,
                "seed": seed,
                "level by": of.loc[of["rare"].rolling(SMOOTHED).mean() >= end_of_erm, "epoch"].min(),
                "3s first": first["rare"].mean(),
                "3s last": end,
                "gain": np.nan if method == ROLES.plain else end - end_of_erm,
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
    """The accuracy of ERM and the differences to it, as text, a column per quarter of the training.

    Args:
        epochs: From `epochs_table`.
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
    """One row per share and method: the mean fall, its difference to ERM, and what happens in the falls of all seeds.

    Args:
        fallen: From `experiments.digits.results.falls`.
    """
    compared = fall_differences(fallen).reset_index(drop=True)
    groups = fallen.groupby(["kept", "method"], sort=False)
    sums = groups[["falls", "loss_rises", "stale_rises"]].sum().reset_index(drop=True)
    # Both of the same seeds, those with falls.
    sds = fallen[["sd_there", "sd_elsewhere"]].where(fallen["falls"] > 0)
    means = sds.groupby([fallen["kept"], fallen["method"]], sort=False).mean().reset_index(drop=True)
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
        }
    )
