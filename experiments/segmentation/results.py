"""The numbers of a segmentation study: of each seed, pooled against the baseline, and the time of an iteration."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from experiments.nnunet_runs.runs import SeedRuns
from experiments.segmentation.studies import BASELINE, Study
from nnunet_dro.evaluation import Evaluation, compare
from nnunet_dro.evaluation.stratum_statistics import false_positives, summarise, worst_strata

#: The statistics of Dice that are shown.
STATISTICS = ("mean", "p10", "p5")


@dataclass(frozen=True)
class Results:
    """What came out, from the finished runs.

    Attributes:
        study: The study.
        methods: The methods with a finished run on a seed that the baseline has finished, too; the baseline first.
        per_seed: A row per method, seed, stratum and label: ``n`` cases with a value, `STATISTICS` of Dice (fractions).
        pooled: For each method but the baseline, the rows of `Comparison.table` against it, over the test cases of all
            seeds that both have.
        times: A row per method and seed: ``cpu_ms`` and ``wall_ms`` of an iteration, and their ratios to the baseline.
    """

    study: Study
    methods: tuple[str, ...]
    per_seed: pd.DataFrame
    pooled: pd.DataFrame
    times: pd.DataFrame


def collect(runs: Sequence[SeedRuns], methods: Sequence[str]) -> Results:
    """Read the finished runs and compare the methods with the baseline.

    Args:
        runs: The seeds.
        methods: The methods to show, finished or not.

    Returns:
        The numbers of the seeds on which the baseline is finished.

    Raises:
        ValueError: If there is no method to compare with the baseline.
    """
    usable = [of_seed for of_seed in runs if of_seed.is_finished(BASELINE)]
    evaluations = {
        method: {of_seed.seed: of_seed.evaluation(method) for of_seed in usable if of_seed.is_finished(method)}
        for method in (BASELINE, *(method for method in methods if method != BASELINE))
    }
    evaluations = {method: of_method for method, of_method in evaluations.items() if of_method}
    if len(evaluations) < 2:
        cure = "failures.json in the work folder says why others failed."
        raise ValueError(f"`methods` must have finished on a seed that {BASELINE} has finished, got none. {cure}")
    baseline = pool(evaluations[BASELINE])
    pooled = [
        compare({BASELINE: baseline, method: pool(of_method)}, intersect=True).table
        for method, of_method in evaluations.items()
        if method != BASELINE
    ]
    return Results(
        study=runs[0].study,
        methods=tuple(evaluations),
        per_seed=_per_seed(evaluations),
        pooled=pd.concat(pooled, ignore_index=True),
        times=iteration_times(
            [(of_seed, method) for method in evaluations for of_seed in usable if of_seed.is_finished(method)]
        ),
    )


def pool(evaluations: Mapping[int, Evaluation]) -> Evaluation:
    """One evaluation of the test cases of all seeds.

    Args:
        evaluations: Seed to the evaluation of one method.

    Returns:
        Their scores together, the cases renamed to seed0_NAME.
    """
    first = next(iter(evaluations.values()))
    scores = pd.concat(
        [e.scores.assign(case=f"seed{seed}_" + e.scores["case"]) for seed, e in evaluations.items()], ignore_index=True
    )
    strata = {}
    for attribute, of_first in first.stratum_of_case.items():
        parts = [e.stratum_of_case[attribute].astype(str).add_prefix(f"seed{seed}_") for seed, e in evaluations.items()]
        strata[attribute] = pd.concat(parts).astype(of_first.dtype)
    statistics = summarise(scores, strata, metrics=first.metrics, n_resamples=0)
    return replace(
        first,
        scores=scores,
        strata=statistics,
        stratum_of_case=strata,
        worst=worst_strata(statistics),
        false_positives=false_positives(scores),
        notes=(),
    )


def _per_seed(evaluations: Mapping[str, Mapping[int, Evaluation]]) -> pd.DataFrame:
    parts = []
    for method, of_method in evaluations.items():
        for seed, evaluation in of_method.items():
            rows = evaluation.strata[["stratum", "label", "n", "n_undefined", *STATISTICS]].copy()
            rows["n"] -= rows.pop("n_undefined")
            rows.insert(0, "seed", seed)
            rows.insert(0, "method", method)
            parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def iteration_times(finished: Sequence[tuple[SeedRuns, str]]) -> pd.DataFrame:
    """Milliseconds per training iteration.

    Of the processor: all the training process did. Of the clock: the fastest epoch of nnU-Net's log, with its
    validation iterations, because other work on the machine slows some epochs and not others.

    Args:
        finished: Finished runs, those of the baseline among them, as the seed's runs and the method.

    Returns:
        A row per run, as `Results.times` has them.
    """
    rows = []
    for of_seed, method in finished:
        record, study = of_seed.record(method), of_seed.study
        cpu_ms = 1000 * float(str(record["cpu_seconds"])) / (study.epochs * study.iterations)
        epochs = record["epoch_seconds"]
        wall_ms = 1000 * min(epochs) / study.iterations if isinstance(epochs, list) and epochs else float("nan")
        rows.append({"method": method, "seed": of_seed.seed, "cpu_ms": cpu_ms, "wall_ms": wall_ms})
    times = pd.DataFrame(rows)
    baseline = times[times["method"] == BASELINE].set_index("seed")
    for clock in ("cpu", "wall"):
        times[f"{clock}_ratio"] = times[f"{clock}_ms"] / times["seed"].map(baseline[f"{clock}_ms"])
    return times


def summary_rows(results: Results) -> pd.DataFrame:
    """One row per label, stratum and method, all numbers as fractions of Dice.

    Returns:
        For each of `STATISTICS` its mean over the seeds (``mean``), the lowest and the highest of them
        (``mean_lowest``, ``mean_highest``), and the difference to the baseline over the pooled cases with its 95 %
        interval (``mean_difference``, ``mean_difference_low``, ``mean_difference_high``; empty for the baseline).
        ``seeds_better`` counts the seeds whose mean is above the baseline's.
    """
    study, per_seed = results.study, results.per_seed
    keys = ["method", "stratum", "label"]
    numbers = per_seed.groupby(keys, sort=False)
    table = numbers.agg(n_seeds=("seed", "nunique"), n_cases=("n", "sum")).reset_index()
    baseline = per_seed[per_seed["method"] == BASELINE].set_index(["seed", "stratum", "label"])["mean"]
    above = per_seed.set_index(["seed", "stratum", "label"])
    above = above.assign(better=above["mean"] > baseline.reindex(above.index)).reset_index()
    table = table.merge(above.groupby(keys)["better"].sum().rename("seeds_better").reset_index(), on=keys)
    for statistic in STATISTICS:
        of_seeds = numbers[statistic].agg(["mean", "min", "max"]).reset_index()
        of_seeds.columns = [*keys, statistic, f"{statistic}_lowest", f"{statistic}_highest"]
        table = table.merge(of_seeds, on=keys)
    columns = [f"{statistic}_difference{bound}" for statistic in STATISTICS for bound in ("", "_low", "_high")]
    table = table.merge(results.pooled[[*keys, *columns, "holm_p"]], on=keys, how="left")
    labels = [*study.labels, *(label for label in table["label"].unique() if label not in study.labels)]
    orders = {"label": labels, "stratum": study.strata, "method": results.methods}
    for column, order in orders.items():
        table[column] = pd.Categorical(table[column], order, ordered=True)
    table.insert(1, "trainer", [study.trainer(str(method)) for method in table["method"]])
    return table.sort_values(list(orders)).reset_index(drop=True).astype(dict.fromkeys(orders, str))
