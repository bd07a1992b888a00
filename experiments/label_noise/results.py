"""The numbers of the experiment with wrong labels: Dice, and whether a training can tell."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments.hardness_signals.__main__ import harder
from experiments.label_noise.data import KINDS, NOISE_FILE
from experiments.nnunet_runs.runs import SeedRuns
from experiments.segmentation.results import iteration_times
from experiments.segmentation.studies import BASELINE, Study
from nnunet_dro.evaluation.bootstrap import FloatArray, difference_intervals
from nnunet_dro.evaluation.statistics import STATISTICS
from nnunet_dro.evaluation.stratum_statistics import describe
from nnunet_dro.suspects import rank_cases, read_logs
from nnunet_dro.suspects.epoch_log import WEIGHTS

#: The statistics of Dice that are shown.
SHOWN = ("mean", "p25", "p10", "p5")

#: The mean over the labels of a case, beside the labels.
ALL_LABELS = "all labels"

#: How many cases of a ranking are looked at.
N_FIRST = 20


@dataclass(frozen=True)
class Results:
    """What came out, from the finished runs.

    Attributes:
        study: The study.
        methods: Those with a finished run on a seed that the baseline has finished, too; the baseline first.
        dice: A row per method, seed, test case and label, `ALL_LABELS` among them: ``dice`` is a fraction.
        cases: A row per method, seed and training case; see `training_cases`.
        times: See `iteration_times`.
    """

    study: Study
    methods: tuple[str, ...]
    dice: pd.DataFrame
    cases: pd.DataFrame
    times: pd.DataFrame


def collect(runs: Sequence[SeedRuns], methods: Sequence[str]) -> Results:
    """Read the finished runs.

    Args:
        runs: The seeds.
        methods: The methods to show, finished or not.

    Returns:
        The numbers of the seeds on which the baseline is finished.

    Raises:
        ValueError: If there is no method to compare with the baseline.
    """
    usable = [of_seed for of_seed in runs if of_seed.is_finished(BASELINE)]
    finished = [(of_seed, method) for method in methods for of_seed in usable if of_seed.is_finished(method)]
    names = tuple(dict.fromkeys(method for _, method in finished))
    if set(names) <= {BASELINE}:
        cure = "failures.json in the work folder says why others failed."
        raise ValueError(f"`methods` must have finished on a seed that {BASELINE} has finished, got none. {cure}")
    return Results(
        study=runs[0].study,
        methods=names,
        dice=pd.concat([_dice(*run) for run in finished], ignore_index=True),
        cases=pd.concat([training_cases(*run) for run in finished], ignore_index=True),
        times=iteration_times(finished),
    )


def _dice(of_seed: SeedRuns, method: str) -> pd.DataFrame:
    scores = of_seed.evaluation(method).scores[["case", "label", "dice"]].astype({"label": str})
    of_cases = scores.groupby("case", as_index=False)["dice"].mean().assign(label=ALL_LABELS)
    return pd.concat([scores, of_cases]).assign(method=method, seed=of_seed.seed)


def training_cases(of_seed: SeedRuns, method: str) -> pd.DataFrame:
    """What a training wrote about its cases, beside what is wrong with them.

    Args:
        of_seed: The seed's runs.
        method: A finished one.

    Returns:
        A row per training case, in the order of `nnunet_dro.suspects.rank_cases`: ``method``, ``seed``, ``case``,
        ``kind`` (clean, or how its label map was spoilt), ``trusted`` and ``rare`` (whether it is), ``place`` from 1,
        ``signal`` (weight or loss), ``value`` (mean weight or mean stale loss after the first third of the epochs),
        ``loss`` (the mean stale loss in any case), ``times_seen`` in these epochs, and ``share``: of the draws of these
        epochs, for weights of the weight given.
    """
    log, losses = read_logs(of_seed.fold(method))
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


def dice_table(results: Results) -> pd.DataFrame:
    """Dice of the test cases of all seeds together, and its difference to the baseline.

    Returns:
        A row per label and method: ``n_seeds``, ``n_cases``, for each of `SHOWN` the statistic, its difference to the
        baseline on the seeds that both have and the 95 % interval of the paired bootstrap over the cases
        (``mean_difference``, ``mean_difference_low``, ``mean_difference_high``; NaN for the baseline); ``mean_lowest``
        and ``mean_highest`` of the seeds' means, and ``seeds_better``, of how many it is above the baseline's.
    """
    rows: list[dict[str, object]] = []
    for label in (ALL_LABELS, *results.study.labels):
        of_label = results.dice[results.dice["label"] == label]
        wide = of_label.pivot(index=["seed", "case"], columns="method", values="dice")
        for method in results.methods:
            values = wide[method].dropna()
            before = wide[BASELINE].loc[values.index]
            of_seeds, baseline_of_seeds = values.groupby("seed").mean(), before.groupby("seed").mean()
            row: dict[str, object] = {"label": label, "method": method, "trainer": results.study.trainer(method)}
            row |= {"n_seeds": len(of_seeds), "n_cases": len(values)}
            row |= {"mean_lowest": of_seeds.min(), "mean_highest": of_seeds.max()}
            row |= {"seeds_better": int((of_seeds > baseline_of_seeds).sum())}
            values_of_both = (before.to_numpy(dtype=np.float64), values.to_numpy(dtype=np.float64))
            row |= _own(describe(values_of_both[1])) | ({} if method == BASELINE else _differences(*values_of_both))
            rows.append(row)
    return pd.DataFrame(rows)


def _own(statistics: Mapping[str, float]) -> dict[str, object]:
    return {name: statistics[name] for name in SHOWN}


def _differences(before: FloatArray, after: FloatArray) -> dict[str, object]:
    """How the statistics of two paired samples differ, with the intervals."""
    old, new = describe(before), describe(after)
    (bounds,) = difference_intervals([(before, after)])
    row: dict[str, object] = {}
    for name, (low, high) in zip(STATISTICS, bounds, strict=True):
        if name in SHOWN:
            row[f"{name}_difference"] = new[name] - old[name]
            row |= {f"{name}_difference_low": low, f"{name}_difference_high": high}
    return row


def separation_table(cases: pd.DataFrame) -> pd.DataFrame:
    """How well each training tells the wrong label maps from the right ones.

    Args:
        cases: As `Results.cases`.

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
