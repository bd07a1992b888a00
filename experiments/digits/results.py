"""The numbers of the experiment: each training early and late, and the means over the seeds."""

import numpy as np
import pandas as pd

from experiments.digits.training import Curve, Run


def method_of(beta: float) -> str:
    """The name of a method on the page."""
    return f"beta {beta:g}" if beta else "ERM"


def phases(run: Run, curve: Curve) -> dict[str, float]:
    """Means over the early epochs (2, as 1 is the same for every beta, to a third) and the late ones (the last fifth).

    ``drop`` is how much of the overall accuracy an early epoch loses against the one before, 0 where it gains, and
    ``half`` the first epoch with half of the rare digit right, infinite if there is none.
    """
    early, late = slice(1, max(2, run.epochs // 3)), slice(-max(1, run.epochs // 5), None)
    return {
        "share": run.share,
        "beta": run.beta,
        "seed": run.seed,
        "rare_early": float(np.mean(curve.rare[early])),
        "rare_late": float(np.mean(curve.rare[late])),
        "all_early": float(np.mean(curve.overall[early])),
        "all_late": float(np.mean(curve.overall[late])),
        "drop": float(np.maximum(0.0, -np.diff(curve.overall[: early.stop])).mean()),
        "half": float(next((epoch for epoch, right in enumerate(curve.rare, 1) if right >= 50), np.inf)),
        "drawn": float(np.mean(curve.drawn[early])),
        "distinct": float(np.mean(curve.distinct[early])),
    }


def results_table(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per share and method, the means over the seeds, from the rows of `phases`."""
    groups = rows.groupby(["share", "beta"])
    means = groups.mean().reset_index()
    return pd.DataFrame(
        {
            "3s kept": [f"{100 * share:g} %" for share in means["share"]],
            "method": [method_of(beta) for beta in means["beta"]],
            "3s early": means["rare_early"],
            "3s late": means["rare_late"],
            "3s late, by seed": [", ".join(f"{value:.0f}" for value in group) for _, group in groups["rare_late"]],
            "gain": means["gain"],
            "half by": means["half"].where(np.isfinite(means["half"])),
            "all early": means["all_early"],
            "all late": means["all_late"],
            "drop": means["drop"],
            "3s drawn": means["drawn"],
            "distinct": means["distinct"],
        }
    )
