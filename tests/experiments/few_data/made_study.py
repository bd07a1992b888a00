"""A tiny study with the methods of the experiment with few data, and what a tuning of it leaves."""

import pandas as pd

from experiments.few_data.studies import (
    DEFAULT,
    FACTORS,
    LONG,
    TWICE,
)
from experiments.nnunet_runs.study import BASELINE, Study
from tests.experiments.made_studies import tiny_study

PLAIN = "nnUNetTrainerHWS_beta0"


def few_data_study(**changes) -> Study:
    tiny = tiny_study()
    same = {name: getattr(tiny, name) for name in tiny.__dataclass_fields__}
    trainers = {BASELINE: PLAIN, TWICE: PLAIN, LONG: PLAIN, DEFAULT: "nnUNetTrainerGILS"}
    changes = {"trainers": trainers, "labels": ("stem", "bud"), "factors": FACTORS} | changes
    return Study(**(same | changes))


TRIALS = pd.DataFrame(
    {
        "number": [0, 1, 2, 3],
        "state": ["complete", "pruned", "complete", "failed"],
        "value": [0.5, None, 0.7, None],
        "alpha": [0.1, 0.2, 0.3, 0.4],
        "trainer": [f"nnUNetTrainerLS_alpha{a}_1epochs_2iters" for a in (0.1, 0.2, 0.3, 0.4)],
        "epochs": 1,
        "pseudo_dice": [0.4, 0.1, 0.6, None],
        "minutes": 0.5,
        "image_change": [0.1, 0.2, 0.3, None],
        "reason": ["", "below the median", "", "exit code 1"],
    }
)


def write_tuning(folder, trials=TRIALS):
    import optuna

    from nnunet_dro.tuning.storage import closing, open_storage

    folder.mkdir(parents=True)
    trials.drop(columns="image_change", errors="ignore").to_csv(folder / "trials.csv", index=False)
    with closing(open_storage(None, folder)) as storage:
        optuna.create_study(storage=storage, study_name="LS", direction="maximize")
