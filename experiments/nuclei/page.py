"""The page of the experiment on nuclei."""

from collections.abc import Sequence

import pandas as pd

from experiments.curves import decision
from experiments.datasets.nuclei import N_TRAIN
from experiments.nuclei.methods import PLAIN, ROLES, TOLD
from experiments.nuclei.training import BATCH, PATCH
from experiments.record import render


def page_text(found: pd.DataFrame, scores: pd.DataFrame, *, iterations: int, seeds: Sequence[int]) -> str:
    """The text of the page above its table.

    Args:
        found: From `differences`.
        scores: From `scores_of`.
        iterations: Length of the trainings.
        seeds: Their seeds.
    """
    last = scores[(scores["method"] == PLAIN) & (scores["iteration"] == iterations)]
    half = scores[(scores["method"] == PLAIN) & (scores["iteration"] == iterations // 2)]
    rise = 100 * (last.groupby("stratum")["mean"].mean() - half.groupby("stratum")["mean"].mean())
    return render(
        "nuclei/page",
        decision=decision(scores, ROLES)[1:].to_dict("records"),
        trainers=scores.drop_duplicates("method").set_index("method")["trainer"].to_dict(),
        n_train=N_TRAIN,
        n_test=last.groupby("stratum")["n"].max().to_dict(),
        iterations=iterations,
        n_seeds=len(seeds),
        told=TOLD,
        rise={modality: rise[modality] for modality in ROLES.strata},
        patch=PATCH,
        batch=BATCH,
    )
