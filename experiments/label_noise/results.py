"""The numbers of the experiment with wrong labels: Dice, and whether a training can tell."""

import numpy as np
import pandas as pd

from experiments.label_noise.data import KINDS, NOISE_FILE
from experiments.nnunet_runs.dice_table import dice_table, pooled_columns
from experiments.nnunet_runs.hardness import harder
from experiments.nnunet_runs.results import ALL_LABELS, Results
from experiments.nnunet_runs.runs import SeedRuns
from nnunet_dro.suspects import rank_cases, read_logs
from nnunet_dro.suspects.epoch_log import WEIGHTS

#: Number of cases at the top of a ranking that are examined.
N_FIRST = 20


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


def dice_by_label(results: Results) -> pd.DataFrame:
    """Dice of the test cases of all seeds together, and its difference to the baseline.

    Returns:
        A row per label, `ALL_LABELS` first, and method: the columns of `dice_table` that describe all cases.
    """
    parts = []
    for label in (ALL_LABELS, *results.study.labels):
        table = dice_table(results.dice[results.dice["label"] == label], results.study, results.methods)
        parts.append(table.reindex(columns=pooled_columns()))
        parts[-1].insert(0, "label", label)
    return pd.concat(parts, ignore_index=True)


def separation_table(cases: pd.DataFrame) -> pd.DataFrame:
    """How well each training separates the wrong label maps from the right ones.

    Args:
        cases: Rows of `training_cases`.

    Returns:
        A row per method, signal and seed: ``auc``, the chance that a wrong case looks more suspicious than a right one
        (a lower weight, a higher loss; equal ones count half), trusted cases left out, and ``auc_swapped`` and so on
        for the wrong cases of one kind; ``auc_rare`` likewise, that a right rare case looks more suspicious than
        another right one; ``found``, how many of the first `N_FIRST` of the ranking are wrong, and ``found_rare``, how
        many are right and rare (``_rare`` only where there are such cases);
        ``share``, that of the draws (or weights) which went to wrong cases; ``right_unseen``, how many right cases were
        not drawn in the epochs that count. A training with weights has a second row for its losses, without the counts
        and shares.
    """
    rows: list[dict[str, object]] = []
    for (method, seed), of_run in cases.groupby(["method", "seed"], sort=False):
        signal = of_run["signal"].iloc[0]
        first = of_run.nsmallest(N_FIRST, "place")
        wrong = of_run["kind"] != "clean"
        row = {"method": method, "seed": seed, "signal": signal} | _aucs(of_run, "value", higher=signal != "weight")
        found = {"found": (first["kind"] != "clean").sum(), "found_rare": (first["rare"] & ~wrong[first.index]).sum()}
        unseen = (~wrong & (of_run["times_seen"] == 0)).sum()
        rows.append(row | found | {"share": of_run["share"][wrong].sum(), "right_unseen": unseen})
        if signal == "weight":
            rows.append({"method": method, "seed": seed, "signal": "loss"} | _aucs(of_run, "loss", higher=True))
    table = pd.DataFrame(rows)
    return table if cases["rare"].any() else table.drop(columns=["auc_rare", "found_rare"])


def _aucs(of_run: pd.DataFrame, column: str, *, higher: bool) -> dict[str, float]:
    sign = 1 if higher else -1
    known = of_run[~of_run["trusted"] & of_run[column].notna()]
    values = sign * known[column]
    is_right = known["kind"] == "clean"
    right = values[is_right]
    aucs = {"auc": harder(values[~is_right], right), "auc_rare": harder(right[known["rare"]], right[~known["rare"]])}
    return aucs | {f"auc_{kind}": harder(values[known["kind"] == kind], right) for kind in KINDS}
