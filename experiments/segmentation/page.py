"""The page of a segmentation study: what was asked, what came out in words, and the tables."""

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.nnunet_runs.runs import BATCH_SIZE
from experiments.record import markdown_table
from experiments.segmentation.results import STATISTICS, Results
from experiments.segmentation.studies import BASELINE, Study

#: A training whose mean Dice of a label is below this in every stratum has not learnt the label.
NOT_LEARNT = 0.01

#: Statistics the findings are told of.
_TOLD = ("mean", "p10")


def page_table(table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The rows of the page: the study's labels, in per cent of Dice, with the differences to the baseline in words.

    Args:
        table: From `summary_rows`.
        study: The study.
    """
    rows = table[table["label"].isin(study.labels)]
    shown = pd.DataFrame({name: rows[name] for name in ("label", "stratum", "method")})
    shown["seeds"] = rows["n_seeds"]
    for statistic in STATISTICS:
        shown[statistic] = 100 * rows[statistic]
        ends = zip(rows[f"{statistic}_lowest"], rows[f"{statistic}_highest"], strict=True)
        shown[f"{statistic}, seeds"] = [f"{100 * low:.1f} to {100 * high:.1f}" for low, high in ends]
    for statistic in STATISTICS:
        shown[f"{statistic} - {BASELINE}"] = [_difference(row, statistic) for row in rows.to_dict("records")]
    return shown.drop(columns="label") if len(study.labels) == 1 else shown


def _difference(row: Mapping[str, object], statistic: str) -> str:
    middle, low, high = (float(str(row[f"{statistic}_difference{bound}"])) for bound in ("", "_low", "_high"))
    if middle != middle:
        return ""
    return f"{100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def page_text(
    results: Results, table: pd.DataFrame, n_training: "pd.Series[int]", *, failures: Mapping[str, str], quick: bool
) -> str:
    """What the page says above the table.

    Args:
        results: The numbers of the seeds.
        table: From `summary_rows`.
        n_training: Training cases of each stratum.
        failures: Runs that failed, and why.
        quick: Whether it is a smoke run, whose numbers are not told in words.
    """
    study = results.study
    groups = [method for method in ("GroupDRO", "IW") if method in results.methods]
    parts = [
        f"Does {BASELINE} (plain nnU-Net) fail the stratum that is rare in training, and which training mends it, at "
        "what cost for the others?",
        "## Set-up",
        study.about,
        f"All methods train the same three-level 3-D U-Net (8, 16, 32 features) for {study.epochs} epochs of "
        f"{study.iterations} iterations with batch size {BATCH_SIZE}, with nnU-Net's planning, augmentation, optimiser "
        "and prediction (no mirroring in the test), on one processor core. nnU-Net has no seed: a seed draws the data, "
        "and each training starts from weights of its own, so that seeds vary both.",
    ]
    if groups:
        parts.append(
            f"{' and '.join(groups)} {'are' if len(groups) > 1 else 'is'} told the stratum of every training case; no "
            "other method is."
        )
    if not quick:
        parts += ["## What came out", findings(table, study, n_training)]
        if lines := not_learnt(results):
            parts += [
                "**Trainings that have not learnt a label at all, in any stratum, when they ended:** "
                f"{'; '.join(lines)}. A network of this size finds a small label suddenly, sooner or later depending "
                "on its first weights, and these trainings are short. Such a training says little of its method, and "
                "it moves all pooled differences: look at the seeds one by one.",
            ]
    parts += [
        "## How to read it",
        "mean, p10 and p5 are of the Dice of a stratum's test cases, averaged over the seeds; beside them is the range "
        f"of the seeds. Differences to {BASELINE} are paired over the test cases of all seeds together, with 95 % "
        "bootstrap intervals of the cases. These do not count that another training of the same method would come out "
        "differently; the seeds do (dots in the picture). "
        "No correction is made for the number of intervals. "
        f"All labels are in the picture and in [segmentation-{study.name}-all.csv](segmentation-{study.name}-all.csv).",
        "### Time of a training iteration",
        "Processor time of the whole training process over the number of iterations, and the fastest epoch of "
        f"nnU-Net's log (clock, with its validation iterations and the log of the hardness), as ratios to "
        f"{BASELINE} of the same seed. {BASELINE} is the same code with beta 0, the log of the hardness included. The "
        "runs follow each other, and what else the machine does meanwhile changes both times: differences of a tenth "
        "say nothing of a method.",
        markdown_table(time_table(results.times, results.methods, study)),
    ]
    if failures:
        lines = [f"- {run}: {reason.splitlines()[0]}" for run, reason in failures.items()]
        parts += ["### Runs that failed", "\n".join(lines)]
    return "\n\n".join(parts)


def findings(table: pd.DataFrame, study: Study, n_training: "pd.Series[int]") -> str:
    """The differences to the baseline, sorted by whether their intervals exclude 0, in sentences.

    Args:
        table: From `summary_rows`.
        study: The study.
        n_training: Training cases of each stratum.

    Returns:
        A list in markdown, an entry per label of the study and stratum.
    """
    lines = []
    for label in study.labels:
        for stratum in study.strata:
            rows = table[(table["label"] == label) & (table["stratum"] == stratum)]
            erm = rows[rows["method"] == BASELINE].iloc[0]
            values = ", ".join(f"{statistic} {100 * erm[statistic]:.1f}" for statistic in STATISTICS)
            n_total = int(n_training.sum())
            head = (
                f"- **{label}, {stratum}** ({n_training[stratum]} of {n_total} training cases): {BASELINE} has {values}"
            )
            others = rows[rows["method"] != BASELINE]
            lines.append(". ".join([head, *(_sorted_by_sign(others, statistic) for statistic in _TOLD)]) + ".")
    return "\n".join(lines)


def not_learnt(results: Results) -> list[str]:
    """The trainings that have not learnt one of the study's labels, as "ERM, seed 1 (cerebellum)"."""
    rows = results.per_seed[results.per_seed["label"].isin(results.study.labels)]
    highest = rows.groupby(["method", "seed", "label"], sort=False)["mean"].max()
    return [f"{method}, seed {seed} ({label})" for method, seed, label in highest.index[highest < NOT_LEARNT]]


def _sorted_by_sign(rows: pd.DataFrame, statistic: str) -> str:
    name = f"{statistic}_difference"
    groups = {
        "higher": rows[rows[f"{name}_low"] > 0].sort_values(name, ascending=False),
        "lower": rows[rows[f"{name}_high"] < 0].sort_values(name),
    }
    told = []
    for word, of_word in groups.items():
        names = [_named(row, statistic) for row in of_word.to_dict("records")]
        told.append(f"{word} with {', '.join(names)}" if names else f"{word} with none")
    n_open = len(rows) - sum(map(len, groups.values()))
    return f"Its {statistic} is " + ", ".join(told) + (f", not told apart with {n_open}" if n_open else "")


def _named(row: Mapping[str, object], statistic: str) -> str:
    """A method with its difference, and for the mean in how many seeds it was better."""
    text = f"{row['method']} ({100 * float(str(row[f'{statistic}_difference'])):+.1f}"
    if statistic == "mean":
        text += f"; above in {row['seeds_better']} of {row['n_seeds']} seeds"
    return text + ")"


def time_table(times: pd.DataFrame, methods: Sequence[str], study: Study) -> pd.DataFrame:
    """Time of an iteration, a row per method, mean and range of the seeds.

    Args:
        times: From `iteration_times`.
        methods: In the order of the rows.
        study: The study.
    """
    rows = []
    for method in methods:
        of_method = times[times["method"] == method]
        row: dict[str, object] = {"method": method, "trainer": study.trainer(method)}
        for clock in ("cpu", "wall"):
            ratios = of_method[f"{clock}_ratio"]
            row[f"{clock}, ms"] = of_method[f"{clock}_ms"].mean()
            row[f"{clock}, ratio"] = ratios.mean()
            row[f"{clock}, ratio in seeds"] = f"{ratios.min():.2f} to {ratios.max():.2f}"
        rows.append(row)
    return pd.DataFrame(rows)
