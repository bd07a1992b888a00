"""Whether a training with wrong labels can tell them, and whether it was long enough."""

import numpy as np
import pandas as pd

from experiments.label_noise.studies import RIGHT
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import Study
from experiments.spoilt_labels.spoiling import NOISE_FILE
from nnunet_dro.files.case_log import WEIGHTS
from nnunet_dro.suspects import rank_cases, read_logs

#: Trainings are long enough if right labels alone give every label of the common strata a higher mean Dice than this.
LEARNT = 0.8


def training_cases(of_seed: SeedRuns, method: str) -> pd.DataFrame:
    """What a training logged about its cases, and what is wrong with them: rows as of `rank_cases`.

    ``value`` is the mean weight or stale loss after the first third of the epochs, ``times_seen`` and ``share`` are of
    the draws of these epochs, for weights of the weight given.
    """
    has_weights = (of_seed.fold(method) / WEIGHTS.file).is_file()
    log, losses = read_logs(of_seed.fold(method), by="weight" if has_weights else "loss")
    ranked = rank_cases(log, losses)
    values, times = log.values.iloc[log.first_counted :], log.times_seen.iloc[log.first_counted :]
    counted = (values * times if log.kind == WEIGHTS else times).sum()
    shares = counted / counted.sum()
    noise = pd.read_csv(of_seed.raw / NOISE_FILE, dtype={"case": str}).set_index("case")
    table = pd.read_csv(of_seed.raw / "cases.csv", dtype=str).set_index("case")
    is_rare = table.get("pathology", pd.Series(index=table.index, dtype=str)) == "rare"
    case = ranked["case"].astype(str)
    return pd.DataFrame(
        {
            "method": method,
            "seed": of_seed.seed,
            "case": case,
            "kind": noise["kind"].reindex(case).to_numpy(),
            "trusted": (table["trusted"] == "yes").reindex(case).to_numpy(),
            "rare": is_rare.reindex(case).to_numpy(),
            "place": np.arange(1, len(ranked) + 1),
            "signal": log.kind.value,
            "value": ranked["score"] if log.kind == WEIGHTS else ranked["loss"],
            "loss": ranked["loss"],
            "times_seen": ranked["times_seen"],
            "share": shares.reindex(case).to_numpy(),
        }
    )


def unlearnt(scores: pd.DataFrame, study: Study) -> list[str]:
    """Common strata in which right labels alone give a mean Dice of `LEARNT` or less, as "seed 2, control: cerebellum".

    The rare stratum does not count: its cerebellum does not come that far in much longer trainings either.
    """
    right = scores[(scores["method"] == RIGHT) & scores["label"].isin(study.labels)]
    low = right[right["stratum"].isin(study.common) & (right["mean"] <= LEARNT)]
    return [f"seed {row.seed}, {row.stratum}: {row.label}" for row in low.itertuples()]
