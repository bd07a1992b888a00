"""The numbers of the experiment with wrong labels: Dice, and whether a training can tell."""

import numpy as np
import pandas as pd

from experiments.curves import differences
from experiments.label_noise.data import KINDS, NOISE_FILE
from experiments.label_noise.studies import RIGHT, roles
from experiments.nnunet_runs.hardness import harder
from experiments.nnunet_runs.results import Results, seed_rows
from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import Study
from nnunet_dro.suspects import rank_cases, read_logs
from nnunet_dro.suspects.epoch_log import WEIGHTS

#: Number of cases at the top of a ranking that are examined.
N_FIRST = 20

#: Trainings are long enough if right labels alone give every label of the common strata a higher mean Dice than this.
LEARNT = 0.8


def training_cases(of_seed: SeedRuns, method: str) -> pd.DataFrame:
    """What a training logged about its cases, and what is wrong with them.

    Args:
        of_seed: The seed's runs.
        method: A method with a finished run.

    Returns:
        A row per training case, in the order of `nnunet_dro.suspects.rank_cases`: ``method``, ``seed``, ``case``,
        ``kind`` (clean, or how its label map was spoilt), ``trusted`` and ``rare`` (whether it is), ``place`` from 1,
        ``signal`` (weight or loss), ``value`` (mean weight or mean stale loss after the first third of the epochs),
        ``loss`` (the mean stale loss in any case), ``times_seen`` in these epochs, and ``share``: of the draws of these
        epochs, for weights of the weight given.
    """
    has_weights = (of_seed.fold(method) / WEIGHTS.file).is_file()
    log, losses = read_logs(of_seed.fold(method), by="weight" if has_weights else "loss")
    ranked = rank_cases(log, losses)
    times = log.times_seen[log.first_counted :].astype(np.float64)
    counted = np.nansum(log.values[log.first_counted :] * times, axis=0) if log.kind == WEIGHTS else times.sum(axis=0)
    shares = pd.Series(counted / counted.sum(), index=list(log.cases))
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


def rows_by_seed(results: Results) -> pd.DataFrame:
    """Dice by seed, and what the trainings cost: a row per seed, method, stratum and label.

    Args:
        results: The numbers of the finished runs.

    Returns:
        The columns of `seed_rows`, and ``cpu_seconds``, the processor time of the training.
    """
    return seed_rows(results).merge(results.times[["method", "seed", "cpu_seconds"]], on=["method", "seed"])


def dice_differences(scores: pd.DataFrame, study: Study) -> pd.DataFrame:
    """Means over the seeds, and differences to the baseline of the same seed.

    Args:
        scores: From `rows_by_seed`.
        study: The study.

    Returns:
        The columns of `experiments.curves.differences`, Dice in points, but for ``iteration`` and ``share``: the
        networks are tested once, at the end.
    """
    found = differences(scores.assign(iteration=study.epochs * study.iterations, share=np.nan), roles(study))
    return found.drop(columns=["iteration", "share"])


def unlearnt(scores: pd.DataFrame, study: Study) -> list[str]:
    """Common strata in which right labels alone give a mean Dice of `LEARNT` or less, as "seed 2, control: cerebellum".

    The rare stratum does not count: its cerebellum does not come that far in much longer trainings either.

    Args:
        scores: From `rows_by_seed`.
        study: The study.
    """
    right = scores[(scores["method"] == RIGHT) & scores["label"].isin(study.labels)]
    low = right[right["stratum"].isin(study.common) & (right["mean"] <= LEARNT)]
    return [f"seed {row.seed}, {row.stratum}: {row.label}" for row in low.itertuples()]


def separation_table(cases: pd.DataFrame) -> pd.DataFrame:
    """How well each training separates the wrong label maps from the right ones.

    Args:
        cases: Rows of `training_cases`.

    Returns:
        A row per method, signal and seed: ``auc``, the chance that a wrong case looks more suspicious than a right one
        (a lower weight, a higher loss; equal ones count half), trusted cases left out, and ``auc_swapped`` and so on
        for the wrong cases of one kind; ``auc_against_rare``, the same against right rare cases alone; ``auc_rare``,
        the chance that a right rare case looks more suspicious than another right one; ``found``, how many of the first
        `N_FIRST` of the ranking are wrong, and ``found_rare``, how many are right and rare; ``share`` and
        ``share_rare``, those of the draws (or weights) which went to wrong and to right rare cases; ``right_unseen``,
        how many right cases were not drawn in the epochs that count. A training with weights has a second row for its
        losses, without the counts and shares.
    """
    rows: list[dict[str, object]] = []
    for (method, seed), of_run in cases.groupby(["method", "seed"], sort=False):
        signal = of_run["signal"].iloc[0]
        first = of_run.nsmallest(N_FIRST, "place")
        wrong = of_run["kind"] != "clean"
        right_rare = of_run["rare"] & ~wrong
        row = {"method": method, "seed": seed, "signal": signal} | _aucs(of_run, "value", higher=signal != "weight")
        found = {"found": (first["kind"] != "clean").sum(), "found_rare": right_rare[first.index].sum()}
        shares = {"share": of_run["share"][wrong].sum(), "share_rare": of_run["share"][right_rare].sum()}
        unseen = (~wrong & (of_run["times_seen"] == 0)).sum()
        rows.append(row | found | shares | {"right_unseen": unseen})
        if signal == "weight":
            rows.append({"method": method, "seed": seed, "signal": "loss"} | _aucs(of_run, "loss", higher=True))
    return pd.DataFrame(rows)


def _aucs(of_run: pd.DataFrame, column: str, *, higher: bool) -> dict[str, float]:
    sign = 1 if higher else -1
    known = of_run[~of_run["trusted"] & of_run[column].notna()]
    values = sign * known[column]
    is_right = known["kind"] == "clean"
    right = values[is_right]
    rare, others, wrong = right[known["rare"]], right[~known["rare"]], values[~is_right]
    aucs = {"auc": harder(wrong, right), "auc_against_rare": harder(wrong, rare), "auc_rare": harder(rare, others)}
    return aucs | {f"auc_{kind}": harder(values[known["kind"] == kind], right) for kind in KINDS}
