"""The page of the experiment with few data."""

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.few_data.cost import PLAIN, cost_line
from experiments.few_data.results import ALL_CASES, Results, groups, long_pair
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
from experiments.label_noise.results import SHOWN
from experiments.record import markdown_table
from experiments.segmentation.studies import BASELINE

_CHANGE = (
    "*Change of the images*: root mean square over the voxels of what the inner maximisation adds to them, in standard "
    "deviations of an image, mean of the epochs."
)


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the page, in per cent of Dice, with the differences to the baseline in words.

    Args:
        table: From `summary`. Of single seeds, the groups of all test cases alone are shown.
    """
    pooled = table["seed"] == table["seed"].iloc[0]
    table = table[pooled | (table["cases"] == ALL_CASES)]
    shown = table[["cases", "seed", "method"]].assign(n=table["n_cases"])
    for name in SHOWN:
        shown[name] = 100 * table[name]
    for name in SHOWN:
        shown[f"{name} - {BASELINE}"] = [_difference(row, name) for row in table.to_dict("records")]
    return shown


def _difference(row: Mapping[str, object], name: str) -> str:
    middle, low, high = (100 * float(str(row[f"{name}_difference{bound}"])) for bound in ("", "_low", "_high"))
    return "" if middle != middle else f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"


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
    """What the page says above the table.

    Args:
        results: The numbers of the seeds.
        table: From `summary`.
        tunings: What was tuned.
        cost: From `cost_table`.
        failures: Runs that failed, and why.
        name: Of the page's files.
        quick: Whether it is a smoke run, whose numbers are not told in words.
    """
    study = results.study
    parts = [
        f"With {N_TRAINING} training cases, what is gained by label smoothing, and by GI-LS: label smoothing, and a "
        "step on the worst neighbours of every batch?",
        *_set_up(results, tunings),
    ]
    if not quick:
        parts += ["## What came out", "\n".join(f"- {line}" for line in findings(results, table))]
    for tuning in tunings:
        parts += [
            f"## Tuning {tuning.method}",
            *([tuning_told(tuning)] if not quick else []),
            markdown_table(trials_table(tuning)),
            *([_CHANGE] if tuning.trials["image_change"].notna().any() else []),
        ]
    parts += [
        *_cost_told(cost),
        "### Time of the trainings",
        "Processor time of the whole training process (nnU-Net's start, its validation and its curves included), as "
        f"mean of the seeds, and as ratio to {BASELINE} of the same seed.",
        markdown_table(_time_table(results)),
        "## How to read it",
        "Statistics are of the Dice of a test case (mean over the labels), over the cases of the seeds that are named. "
        f"Differences to {BASELINE} are paired over these cases, with 95 % bootstrap intervals of the cases. These do "
        "not count that another training of the same method would come out differently, which the spread of the seeds "
        "shows: with three seeds, an interval that excludes 0 is not yet a difference of the methods. No correction is "
        "made for the number of intervals.",
        f"The trainings are very short, {study.epochs * study.iterations} iterations where nnU-Net has 250,000, and "
        f"those of the tuning shorter still: what learns slowly loses here, also where it would be better in the end. "
        f"Look at {LONG} and {LONG_GILS}. And options that {N_HELD_OUT} cases have chosen, from one training each, are "
        "chosen by chance in part.",
        f"All digits, and the trials, are in [{name}-all.csv]({name}-all.csv), "
        f"[{name}-trials.csv]({name}-trials.csv) and [{name}-cost.csv]({name}-cost.csv).",
    ]
    if failures:
        lines = [f"- {run}: {reason.splitlines()[0]}" for run, reason in failures.items()]
        parts += ["### Runs that failed", "\n".join(lines)]
    return "\n\n".join(parts)


def _set_up(results: Results, tunings: Sequence[Tuning]) -> list[str]:
    study = results.study
    ranges = "; ".join(f"{method}: `{'`, `'.join(options)}`" for method, options in OPTIONS.items())
    trainers = [f"- {method}: `{study.trainer(method)}`" for method in results.methods]
    trials = ", ".join(f"{len(one.trials)} of `{_trial_length(one)}` for {one.method}" for one in tunings)
    seed, patch = results.dice["seed"].min(), " x ".join(map(str, PATCH_SIZE))
    return [
        "## Set-up",
        study.about,
        f"All methods train a three-level 3-D U-Net (8, 16, 32 features; patches of {patch} voxels, batch size "
        f"{BATCH_SIZE}) for {study.epochs} epochs of {study.iterations} iterations with nnU-Net's augmentation, "
        f"optimiser and prediction (no mirroring in the test), on one processor core. {BASELINE} is plain nnU-Net. An "
        f"iteration of GI-LS makes two optimiser steps, so {TWICE} is {BASELINE} with twice the iterations. {DEFAULT} "
        "has the trainer's own options (alpha 0.1, T 5, eta 0.03), whose steps are shorter than those of the ranges. "
        f"{LONG} and {LONG_GILS} are {BASELINE} and GI-LS with {FACTORS[LONG]} times the iterations. "
        "These three were added after the others had been seen. "
        "nnU-Net has no seed: a seed draws the data, and each training starts from weights of its own.",
        f"`nnunet-dro tune` chose the options of LS and GI-LS with the data of seed {seed}. Its objective is the mean "
        f"Dice of {N_HELD_OUT} of the {N_TRAINING} training cases; its trials, by nnU-Net's own command with a thread "
        f"for every core, are shorter trainings on the other "
        f"{N_TRAINING - N_HELD_OUT}: {trials}, which are about as many optimiser steps. Whoever has {N_TRAINING} cases "
        "has no more to tune on, and no test case has a part in it. Ranges, those of Wang et al. 2024: "
        f"{ranges}; gamma is fixed at 0.001. The best options were trained with all {N_TRAINING} cases, on every seed:",
        "\n".join(trainers),
    ]


def _trial_length(tuning: Tuning) -> str:
    """The end of the trials' names, as 4epochs_25iters."""
    return "_".join(str(tuning.trials["trainer"].iloc[0]).split("_")[-2:])


def findings(results: Results, table: pd.DataFrame) -> list[str]:
    """A sentence per group of test cases and method: its Dice of all seeds, and whether it differs from the baseline's.

    Args:
        results: The numbers of the seeds.
        table: From `summary`.
    """
    lines = []
    for group in groups(results.study):
        of_group = table[table["cases"] == group]
        # The first rows are those of all seeds.
        pooled = of_group[of_group["seed"] == of_group["seed"].iloc[0]]
        title = "All test cases" if group == ALL_CASES else f"Test cases: {group}"
        told = [_told(row) for row in pooled.to_dict("records")]
        lines.append(f"**{title}.** " + ". ".join(told) + ".")
    long = long_pair(results)
    if len(long):
        pooled, first = long[long["seed"] == long["seed"].iloc[0]], long.iloc[0]
        told = [f"{row['cases']} {_difference(row, 'mean')}" for row in pooled.to_dict("records")]
        lines.append(
            f"**{LONG_GILS} against {LONG}**, mean of Dice: {'; '.join(told)}. Of all test cases the mean is higher in "
            f"{first['seeds_better']} of {first['n_seeds']} seeds. Its trainings took {_time_ratio(results)} times the "
            "processor time."
        )
    return lines


def _time_ratio(results: Results) -> str:
    seconds = results.cpu_seconds.groupby("method")["seconds"].mean()
    return f"{seconds[LONG_GILS] / seconds[LONG]:.1f}"


def _told(row: Mapping[str, object]) -> str:
    values = ", ".join(f"{name} {100 * float(str(row[name])):.1f}" for name in SHOWN)
    line = f"{row['method']} has {values}"
    if row["method"] != BASELINE:
        line += f": its mean is {_verdict(row, 'mean')}, its p10 {_verdict(row, 'p10')}"
        line += f"; the mean is above {BASELINE}'s in {row['seeds_better']} of {row['n_seeds']} seeds"
    return line


def _verdict(row: Mapping[str, object], name: str) -> str:
    low, high = (float(str(row[f"{name}_difference_{bound}"])) for bound in ("low", "high"))
    word = "higher than" if low > 0 else "lower than" if high < 0 else "not told apart from"
    return f"{word} {BASELINE}'s ({_difference(row, name)})"


def tuning_told(tuning: Tuning) -> str:
    """What a tuning found, in sentences: counts, the best trainer, the spread, and what the options were worth.

    Args:
        tuning: The tuning.
    """
    states = tuning.trials["state"].value_counts()
    values = 100 * tuning.trials["value"].dropna()
    counts = ", ".join(f"{states.get(state, 0)} {state}" for state in ("complete", "pruned", "failed"))
    n_different = tuning.trials["trainer"].nunique()
    told = (
        f"{len(tuning.trials)} trials ({n_different} different): {counts}. Their Dice goes from {values.min():.1f} to "
        f"{values.max():.1f} (median {values.median():.1f}). The best options: `{tuning.trainer}`."
    )
    # Of one option it is all.
    if len(tuning.importance) > 1:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in tuning.importance.items())
        told += f" Importance of the options (PED-ANOVA, complete trials): {shares}."
    return told


def _cost_told(cost: pd.DataFrame) -> list[str]:
    start, slope = cost_line(cost)
    shown = cost.assign(T=["plain" if steps == PLAIN else str(steps) for steps in cost["T"]])
    quartiles = zip(cost["ratio_p25"], cost["ratio_p75"], strict=True)
    shown["ratio, quartiles"] = [f"{low:.2f} to {high:.2f}" for low, high in quartiles]
    shown = shown.rename(columns={"ratio_with_batch": "ratio, batch included"})
    return [
        "## Cost of an iteration against T",
        "Processor time of an iteration of GI-LS and of a plain one on the same batch, in turn in one process (medians "
        f"of the rounds). The ratios lie near {start:.1f} + {slope:.2f} T: two optimiser steps and a look at the "
        "original images, and for each step of the inner maximisation a pass forward and back through the network. "
        "*Batch included*: with drawing and augmenting the batch on both sides.",
        markdown_table(shown[["T", "ms", "ratio", "ratio, quartiles", "ratio, batch included"]]),
    ]


def _time_table(results: Results) -> pd.DataFrame:
    rows = []
    for method, of_method in results.cpu_seconds.groupby("method", sort=False):
        ratios = of_method["ratio"]
        row = {"method": method, "trainer": results.study.trainer(str(method)), "cpu, s": of_method["seconds"].mean()}
        rows.append(row | {"ratio": ratios.mean(), "ratio in seeds": f"{ratios.min():.2f} to {ratios.max():.2f}"})
    return pd.DataFrame(rows)
