"""The numbers of the experiment with few data: Dice of the test cases, and the time of the trainings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from experiments.few_data.studies import LONG, LONG_GILS, FewDataRuns, FewDataStudy
from experiments.label_noise.results import ALL_LABELS, dice_table
from experiments.label_noise.results import Results as DiceResults
from experiments.segmentation.studies import BASELINE

#: The group of all test cases.
ALL_CASES = "all"


@dataclass(frozen=True)
class Results:
    """What came out, from the finished runs.

    Attributes:
        study: The study.
        methods: Those with a finished run on a seed that the baseline has finished, too; the baseline first.
        dice: A row per method, seed and test case: ``stratum``, and ``dice``, the mean over the labels, a fraction.
        cpu_seconds: A row per method and seed: ``seconds`` of the processor for the whole training, and their ``ratio``
            to the baseline's.
    """

    study: FewDataStudy
    methods: tuple[str, ...]
    dice: pd.DataFrame
    cpu_seconds: pd.DataFrame


def collect(runs: Sequence[FewDataRuns], methods: Sequence[str]) -> Results:
    """Read the finished runs.

    Args:
        runs: The seeds.
        methods: The methods to show, finished or not, the baseline first.

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
    times = pd.DataFrame(
        [
            {"method": method, "seed": of_seed.seed, "seconds": float(str(of_seed.record(method)["cpu_seconds"]))}
            for of_seed, method in finished
        ]
    )
    baseline = times[times["method"] == BASELINE].set_index("seed")["seconds"]
    times["ratio"] = times["seconds"] / times["seed"].map(baseline)
    dice = pd.concat([_dice(*run) for run in finished], ignore_index=True)
    return Results(runs[0].study, names, dice, times)


def _dice(of_seed: FewDataRuns, method: str) -> pd.DataFrame:
    evaluation = of_seed.evaluation(method)
    of_cases = evaluation.scores.groupby("case", as_index=False)["dice"].mean()
    stratum = evaluation.stratum_of_case[of_seed.study.by].astype(str)
    of_cases["stratum"] = of_cases["case"].map(stratum)
    return of_cases.assign(method=method, seed=of_seed.seed)


def groups(study: FewDataStudy) -> Mapping[str, tuple[str, ...]]:
    """The groups of test cases that are looked at: a name, and its strata."""
    (seen,) = study.common
    unseen = f"{', '.join(study.rare)} (in no training)"
    return {ALL_CASES: study.strata, f"{seen} (as in training)": (seen,), unseen: study.rare}


def summary(results: Results) -> pd.DataFrame:
    """Statistics of Dice with their paired differences to the baseline, of all seeds together and of each.

    Returns:
        The rows of `dice_table` (mean over the labels) for each of `groups`, with the columns ``cases`` and ``seed``
        ("0, 1, 2" for all together, where there is more than one) before them.
    """
    parts = []
    seeds = sorted(results.dice["seed"].unique())
    for name, strata in groups(results.study).items():
        of_group = results.dice[results.dice["stratum"].isin(strata)]
        for of_seeds in [seeds, *([seed] for seed in seeds if len(seeds) > 1)]:
            table = _table(results, of_group[of_group["seed"].isin(of_seeds)])
            table.insert(0, "seed", ", ".join(map(str, of_seeds)))
            table.insert(0, "cases", name)
            parts.append(table)
    return pd.concat(parts, ignore_index=True)


def long_pair(results: Results) -> pd.DataFrame:
    """`summary` of the two long trainings alone, the differences to the plain one of them.

    Returns:
        The rows of GI-LS; none where one of the two has not finished on any seed.
    """
    if not {LONG, LONG_GILS} <= set(results.methods):
        return pd.DataFrame()
    dice = results.dice[results.dice["method"].isin((LONG, LONG_GILS))].replace({"method": {LONG: BASELINE}})
    seeds = dice.groupby("method")["seed"].unique()
    common = set(seeds[BASELINE]) & set(seeds[LONG_GILS])
    pair = replace(results, methods=(BASELINE, LONG_GILS), dice=dice[dice["seed"].isin(common)])
    table = summary(pair)
    return table[table["method"] == LONG_GILS]


def _table(results: Results, dice: pd.DataFrame) -> pd.DataFrame:
    methods = tuple(method for method in results.methods if (dice["method"] == method).any())
    without_labels = replace(results.study, labels=())
    empty = pd.DataFrame()
    table = dice_table(DiceResults(without_labels, methods, dice.assign(label=ALL_LABELS), empty, empty))
    return table.drop(columns="label")
