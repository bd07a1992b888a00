"""The page of the experiment with few data."""

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.few_data.cost import PLAIN, cost_line
from experiments.few_data.results import ALL_CASES, groups, long_pair, training_times
from experiments.few_data.studies import (
    BATCH_SIZE,
    DEFAULT,
    FACTORS,
    LONG,
    LONG_GILS,
    N_HELD_OUT,
    N_TRAINING,
    PATCH_SIZE,
    TWICE,
)
from experiments.few_data.tuning import OPTIONS, Tuning
from experiments.nnunet_runs.dice_table import SHOWN, shown_table, told_rows
from experiments.nnunet_runs.results import Results
from experiments.nnunet_runs.study import BASELINE
from experiments.record import render


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """The table of the page: Dice in per cent, and the differences to the baseline as text.

    Args:
        table: From `summary`. Of single seeds, the groups of all test cases alone are shown.
    """
    pooled = table["seed"] == table["seed"].iloc[0]
    keys = {"cases": "cases", "seed": "seed", "method": "method", "n_cases": "n"}
    return shown_table(table[pooled | (table["cases"] == ALL_CASES)], keys, SHOWN)


def trials_table(tuning: Tuning) -> pd.DataFrame:
    """The trials of a tuning, best first, then the pruned and the failed ones.

    Args:
        tuning: The tuning.
    """
    names = [option.split(":")[0] for option in OPTIONS[tuning.method]]
    trials = tuning.trials.sort_values(["value", "number"], ascending=[False, True], na_position="last")
    shown = pd.DataFrame({"trial": trials["number"], "state": trials["state"]})
    shown["Dice of the held-out cases"] = 100 * trials["value"]
    shown["last pseudo Dice"] = 100 * trials["pseudo_dice"]
    for name in names:
        shown[name] = trials[name]
    if trials["image_change"].notna().any():
        shown["change of the images"] = trials["image_change"]
    shown["minutes"] = trials["minutes"]
    return shown


def page_text(
    results: Results,
    table: pd.DataFrame,
    tunings: Sequence[Tuning],
    cost: pd.DataFrame,
    *,
    failures: Mapping[str, str],
    name: str,
    quick: bool,
) -> str:
    """The text of the page above its table.

    Args:
        results: The numbers of the seeds.
        table: From `summary`.
        tunings: The tunings of the methods with options.
        cost: From `cost_table`.
        failures: Runs that failed, and the reasons.
        name: Name of the page's files, without suffix.
        quick: Whether it is a smoke run; its numbers are not described in words.
    """
    start, slope = cost_line(cost)
    return render(
        "few_data/page",
        study=results.study,
        baseline=BASELINE,
        twice=TWICE,
        default=DEFAULT,
        long=LONG,
        long_gils=LONG_GILS,
        long_factor=FACTORS[LONG],
        methods=results.methods,
        n_training=N_TRAINING,
        n_held_out=N_HELD_OUT,
        patch_size=PATCH_SIZE,
        batch_size=BATCH_SIZE,
        ranges=OPTIONS,
        tuning_seed=results.dice["seed"].min(),
        tunings=[
            {
                "method": tuning.method,
                "n_trials": len(tuning.trials),
                "length": _trial_length(tuning),
                "told": tuning_told(tuning),
                "trials": trials_table(tuning),
            }
            for tuning in tunings
        ],
        findings=findings(results, table),
        cost=_shown_cost(cost),
        cost_start=start,
        cost_slope=slope,
        times=training_times(results),
        failures=failures,
        name=name,
        quick=quick,
    )


def _trial_length(tuning: Tuning) -> str:
    """The end of the trials' names, as 4epochs_25iters."""
    return "_".join(str(tuning.trials["trainer"].iloc[0]).split("_")[-2:])


def findings(results: Results, table: pd.DataFrame) -> str:
    """A sentence per group of test cases and method: its Dice of all seeds, and whether it differs from the baseline's.

    Args:
        results: The numbers of the seeds.
        table: From `summary`.

    Returns:
        A list in markdown.
    """
    long = long_pair(results)
    seconds = results.times.groupby("method")["cpu_seconds"].mean()
    return render(
        "few_data/findings",
        groups={group: told_rows(_pooled(table[table["cases"] == group])) for group in groups(results.study)},
        all_cases=ALL_CASES,
        shown=SHOWN,
        baseline=BASELINE,
        long=LONG,
        long_gils=LONG_GILS,
        long_rows=told_rows(_pooled(long), ["mean"]) if len(long) else [],
        long_time_ratio=seconds[LONG_GILS] / seconds[LONG] if len(long) else float("nan"),
    )


def _pooled(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of all seeds together, which are the first ones."""
    return table[table["seed"] == table["seed"].iloc[0]]


def tuning_told(tuning: Tuning) -> str:
    """What a tuning found, in sentences: counts, the best trainer, the spread, and what the options were worth.

    Args:
        tuning: The tuning.
    """
    counts = tuning.trials["state"].value_counts()
    values = tuning.trials["value"].dropna()
    return render(
        "few_data/tuning",
        n_trials=len(tuning.trials),
        n_different=tuning.trials["trainer"].nunique(),
        states={state: counts.get(state, 0) for state in ("complete", "pruned", "failed")},
        lowest=values.min(),
        highest=values.max(),
        median=values.median(),
        trainer=tuning.trainer,
        importance=tuning.importance,
    )


def _shown_cost(cost: pd.DataFrame) -> pd.DataFrame:
    shown = cost.assign(T=["plain" if steps == PLAIN else str(steps) for steps in cost["T"]])
    quartiles = zip(cost["ratio_p25"], cost["ratio_p75"], strict=True)
    shown["ratio, quartiles"] = [f"{low:.2f} to {high:.2f}" for low, high in quartiles]
    shown = shown.rename(columns={"ratio_with_batch": "ratio, batch included"})
    return shown[["T", "ms", "ratio", "ratio, quartiles", "ratio, batch included"]]
