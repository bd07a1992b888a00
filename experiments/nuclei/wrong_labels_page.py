"""The page of the trainings on nuclei with wrong labels."""

from collections.abc import Sequence

import pandas as pd

from experiments.curves import Roles, differences, shown_difference, verdict
from experiments.nuclei.training import BATCH, LEARNING_RATE, PATCH
from experiments.nuclei.wrong_labels_data import COMMON, N_TRAIN, RARE
from experiments.nuclei.wrong_labels_methods import (
    FINETUNED,
    FINETUNING_RATE,
    L2RW,
    METHODS,
    PLAIN,
    RANDOM,
    RIGHT,
    ROLES,
    TRAININGS,
)
from experiments.nuclei.wrong_labels_results import at_the_end, length_check
from experiments.nuclei.wrong_labels_training import FINETUNING_PART, PLAIN_TRAINER
from experiments.record import render
from experiments.spoilt_labels.separation import N_FIRST, separation_rows
from experiments.spoilt_labels.spoiling import N_TRUSTED, N_TRUSTED_RARE, SHARE

#: The trainings are long enough if those on right labels only have this Dice of the common modality on every seed.
LONG_ENOUGH = 80


def page_text(scores: pd.DataFrame, separation: pd.DataFrame, *, seeds: Sequence[int]) -> str:
    """The text of the page above its table.

    Args:
        scores: From `all_scores`.
        separation: From `separation`.
        seeds: Seeds of the trainings.
    """
    last = at_the_end(scores)
    means = last.groupby(["method", "stratum"])["mean"].mean().mul(100).unstack().to_dict("index")
    iterations = int(last["iteration"].iloc[0])
    return render(
        "nuclei/wrong_labels",
        methods=METHODS,
        against_plain={stratum: differences_at_the_end(last, PLAIN, stratum) for stratum in ROLES.strata},
        against_controls={
            control: {stratum: differences_at_the_end(last, control, stratum)[L2RW] for stratum in ROLES.strata}
            for control in (FINETUNED, RANDOM)
        },
        means=means,
        length=length_check(scores, COMMON),
        long_enough=LONG_ENOUGH,
        separation=separation_rows(separation),
        n_first=N_FIRST,
        n_test=last.groupby("stratum")["n"].max().to_dict(),
        n_train=N_TRAIN,
        n_images=sum(N_TRAIN.values()),
        n_trusted={COMMON: N_TRUSTED, RARE: N_TRUSTED_RARE},
        n_wrong=round(SHARE * sum(N_TRAIN.values())),
        trainers={method: run.trainer for method, run in TRAININGS.items()},
        plain_trainer=PLAIN_TRAINER,
        iterations=iterations,
        n_finetuning=max(1, iterations // FINETUNING_PART),
        finetuning_rate=FINETUNING_RATE,
        rate=LEARNING_RATE,
        right=RIGHT,
        plain=PLAIN,
        finetuned=FINETUNED,
        l2rw=L2RW,
        random=RANDOM,
        common=COMMON,
        rare=RARE,
        n_seeds=len(seeds),
        patch=PATCH,
        batch=BATCH,
    )


def differences_at_the_end(last: pd.DataFrame, baseline: str, stratum: str) -> dict[str, dict[str, str]]:
    """Differences of the other methods to one of them, by method.

    Args:
        last: From `at_the_end`.
        baseline: The method that the others are compared with.
        stratum: The modality.

    Returns:
        The difference in points of Dice with its interval, ``text``, and what it ``says``, see `verdict`.
    """
    found = differences(last[last["stratum"] == stratum], Roles(baseline, "", common=(stratum,), rare=()))
    return {
        row["method"]: {
            "text": shown_difference(row["difference"], row["low"], row["high"]),
            "says": verdict(row["low"], row["high"]),
        }
        for row in found[found["method"] != baseline].to_dict("records")
    }
