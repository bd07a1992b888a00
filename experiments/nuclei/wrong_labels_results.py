"""Tables of the trainings on nuclei with wrong labels: Dice, and whether a training can tell which labels are wrong."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments.curves import ScoredRun, scores_of
from experiments.nuclei.wrong_labels_data import RARE
from experiments.nuclei.wrong_labels_methods import FINETUNED, METHODS, PLAIN, RIGHT
from experiments.nuclei.wrong_labels_training import NoisyRun
from experiments.record import Finished

_CASE_COLUMNS = ["case", "modality", "kind", "trusted", "loss", "weight", "times_seen"]


def all_scores(finished: Finished) -> pd.DataFrame:
    """A row per method, seed, moment and modality, as from `scores_of`; finetuned networks have the last moment."""
    scored = []
    for name, (run, content) in finished.items():
        scored.append(ScoredRun.of(name, run, content, label="nucleus"))
        if content["finetuned"]:
            share = [(run.iterations, modality, np.nan) for modality in {row[1] for row in content["finetuned"]}]
            finetuned = {"dice": content["finetuned"], "share": share}
            scored.append(ScoredRun.of(f"{FINETUNED}-seed{run.seed}", run, finetuned, label="nucleus"))
    scores = scores_of(scored).drop(columns="clipped_share")
    return scores.sort_values(
        ["seed", "method"],
        key=lambda column: column.map(METHODS.index) if column.name == "method" else column,
        kind="stable",
    ).reset_index(drop=True)


def all_cases(finished: Finished) -> pd.DataFrame:
    """What the trainings that saw wrong labels know of their images: the rows of `case_table`, training by training."""
    cases = [case_table(name, run, content) for name, (run, content) in finished.items() if not run.right_only]
    return pd.concat(cases, ignore_index=True)


def case_table(name: str, run: NoisyRun, content: Mapping[str, Any]) -> pd.DataFrame:
    """A row per training image, with the columns of `label_noise.results.training_cases`."""
    cases = pd.DataFrame(content["cases"], columns=_CASE_COLUMNS).astype({"loss": float, "weight": float})
    by_weight = run.weights == "learned"
    counted = cases["times_seen"] * (cases["weight"].fillna(0) if by_weight else 1)
    value = cases["weight"] if by_weight else cases["loss"]
    return cases.drop(columns=["modality", "weight"]).assign(
        method=name.rsplit("-", 1)[0],
        seed=run.seed,
        rare=cases["modality"] == RARE,
        place=value.rank(method="first", ascending=by_weight),
        signal="weight" if by_weight else "loss",
        value=value,
        share=counted / counted.sum(),
    )


def at_the_end(scores: pd.DataFrame) -> pd.DataFrame:
    """The rows of the last moment."""
    return scores[scores["iteration"] == scores["iteration"].max()]


def length_check(scores: pd.DataFrame, stratum: str) -> dict[str, float]:
    """What says whether the trainings are long enough, in points of Dice.

    ``lowest``, the smallest mean Dice of training on right labels only at the end, over the seeds; ``rise`` and
    ``rise_plain``, what its mean and plain training's gained from the half to the end.
    """
    here = scores[scores["stratum"] == stratum]
    means = 100 * here.pivot_table(index="method", columns="iteration", values="mean")
    half, last = means.columns[-2:]
    of_right = here[(here["method"] == RIGHT) & (here["iteration"] == last)]
    rises = means[last] - means[half]
    return {"lowest": 100 * of_right["mean"].min(), "rise": rises[RIGHT], "rise_plain": rises[PLAIN]}
