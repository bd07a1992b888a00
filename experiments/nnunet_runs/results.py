"""The numbers of the finished runs of a study: Dice of every test case, and the time of an iteration."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from experiments.nnunet_runs.runs import SeedRuns
from experiments.nnunet_runs.study import BASELINE, Study
from nnunet_dro.evaluation.statistics.columns import STATISTICS
from nnunet_dro.evaluation.statistics.stratum_statistics import describe

#: Stands for the mean over the labels of a case, in the place of a label.
ALL_LABELS = "all labels"


@dataclass(frozen=True)
class Results:
    """The numbers of the finished runs.

    Attributes:
        study: The study.
        methods: Methods with a finished run on a seed on which the baseline has finished as well; the baseline first.
        dice: A row per method, seed, test case and label, `ALL_LABELS` among them: ``stratum`` of the case, and
            ``dice``, a fraction.
        times: A row per method and seed; see `iteration_times`.
    """

    study: Study
    methods: tuple[str, ...]
    dice: pd.DataFrame
    times: pd.DataFrame


def finished_runs(runs: Sequence[SeedRuns], methods: Sequence[str]) -> list[tuple[SeedRuns, str]]:
    """The finished runs on the seeds on which the baseline is finished, method by method, the baseline first.

    Args:
        runs: The seeds.
        methods: The methods to show, finished or not.

    Raises:
        ValueError: If there is no method to compare with the baseline.
    """
    methods = (BASELINE, *(method for method in methods if method != BASELINE))
    usable = [of_seed for of_seed in runs if of_seed.is_finished(BASELINE)]
    finished = [(of_seed, method) for method in methods for of_seed in usable if of_seed.is_finished(method)]
    if {method for _, method in finished} <= {BASELINE}:
        cure = "failures.json in the work folder says why others failed."
        raise ValueError(f"`methods` must have finished on a seed that {BASELINE} has finished, got none. {cure}")
    return finished


def collect(runs: Sequence[SeedRuns], methods: Sequence[str]) -> Results:
    """Collect the numbers of the finished runs.

    Args:
        runs: The seeds.
        methods: The methods to show, finished or not.

    Returns:
        The numbers of the seeds on which the baseline is finished.

    Raises:
        ValueError: If there is no method to compare with the baseline.
    """
    finished = finished_runs(runs, methods)
    return Results(
        study=runs[0].study,
        methods=tuple(dict.fromkeys(method for _, method in finished)),
        dice=pd.concat([_dice(*run) for run in finished], ignore_index=True),
        times=iteration_times(finished),
    )


def _dice(of_seed: SeedRuns, method: str) -> pd.DataFrame:
    evaluation = of_seed.evaluation(method)
    scores = evaluation.scores[["case", "label", "dice"]].astype({"label": str})
    of_cases = scores.groupby("case", as_index=False)["dice"].mean().assign(label=ALL_LABELS)
    rows = pd.concat([scores, of_cases])
    stratum = evaluation.stratum_of_case[of_seed.study.by].astype(str)
    return rows.assign(stratum=rows["case"].map(stratum), method=method, seed=of_seed.seed)


def seed_rows(results: Results) -> pd.DataFrame:
    """Dice by seed: a row per seed, method, stratum and label.

    Args:
        results: The numbers of the finished runs.

    Returns:
        ``seed``, ``method``, ``trainer``, ``stratum``, ``label``, ``n`` and ``n_undefined`` (test cases), and all
        statistics of their Dice, fractions.
    """
    keys = ["seed", "method", "stratum", "label"]
    rows: list[dict[str, object]] = []
    for names, group in results.dice.groupby(keys, sort=False):
        key = dict(zip(keys, names, strict=True))
        key["trainer"] = results.study.trainer(str(key["method"]))
        rows.append(key | describe(group["dice"].to_numpy(dtype=np.float64)))
    table: pd.DataFrame = pd.DataFrame(rows)
    return table[["seed", "method", "trainer", "stratum", "label", "n", "n_undefined", *STATISTICS]]


def iteration_times(finished: Sequence[tuple[SeedRuns, str]]) -> pd.DataFrame:
    """The time of the trainings, and of their iterations.

    Of the processor: all the training process did. Of the clock: the fastest epoch of nnU-Net's log, with its
    validation iterations, because other work on the machine slows some epochs and not others.

    Args:
        finished: Finished runs, those of the baseline among them, as the seed's runs and the method.

    Returns:
        A row per ``method`` and ``seed``: ``cpu_seconds`` of the training, ``cpu_ms`` and ``wall_ms`` of an iteration,
        and their ratios to the baseline of the seed, ``cpu_ratio`` and ``wall_ratio``.
    """
    rows = []
    for of_seed, method in finished:
        record, iterations = of_seed.record(method), of_seed.study.iterations_of(method)
        cpu_seconds = float(str(record["cpu_seconds"]))
        cpu_ms = 1000 * cpu_seconds / (of_seed.study.epochs * iterations)
        epochs = record["epoch_seconds"]
        wall_ms = 1000 * min(epochs) / iterations if isinstance(epochs, list) and epochs else float("nan")
        row = {"method": method, "seed": of_seed.seed, "cpu_seconds": cpu_seconds}
        rows.append(row | {"cpu_ms": cpu_ms, "wall_ms": wall_ms})
    times = pd.DataFrame(rows)
    baseline = times[times["method"] == BASELINE].set_index("seed")
    for clock in ("cpu", "wall"):
        times[f"{clock}_ratio"] = times[f"{clock}_ms"] / times["seed"].map(baseline[f"{clock}_ms"])
    return times
