"""The page of the experiment with wrong labels."""

from collections.abc import Mapping

import pandas as pd

from experiments.label_noise.data import KINDS
from experiments.label_noise.results import ALL_LABELS, N_FIRST, SHOWN, Results
from experiments.nnunet_runs.runs import BATCH_SIZE
from experiments.record import markdown_table
from experiments.segmentation.page import NOT_LEARNT, time_table
from experiments.segmentation.studies import BASELINE, Study


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the page, in per cent of Dice, with the differences to the baseline in words.

    Args:
        table: From `dice_table`.
    """
    shown = table[["label", "method"]].assign(seeds=table["n_seeds"])
    for name in SHOWN:
        shown[name] = 100 * table[name]
    ends = zip(table["mean_lowest"], table["mean_highest"], strict=True)
    shown["mean, seeds"] = [f"{100 * low:.1f} to {100 * high:.1f}" for low, high in ends]
    for name in SHOWN:
        shown[f"{name} - {BASELINE}"] = [_difference(row, name) for row in table.to_dict("records")]
    return shown


def _difference(row: Mapping[str, object], name: str) -> str:
    middle, low, high = (100 * float(str(row[f"{name}_difference{bound}"])) for bound in ("", "_low", "_high"))
    return "" if middle != middle else f"{middle:+.1f} [{low:+.1f}, {high:+.1f}]"


def separation_rows(separation: pd.DataFrame) -> pd.DataFrame:
    """The page's table of how well trainings tell wrong from right: the mean of the seeds, and their range.

    Args:
        separation: From `separation_table`.
    """
    rows = []
    for (method, signal), of_seeds in separation.groupby(["method", "signal"], sort=False):
        row: dict[str, object] = {"method": method, "by": signal, "AUC": of_seeds["auc"].mean()}
        row["AUC, seeds"] = f"{of_seeds['auc'].min():.2f} to {of_seeds['auc'].max():.2f}"
        row |= {f"AUC, {kind}": of_seeds[f"auc_{kind}"].mean() for kind in KINDS}
        if "auc_rare" in of_seeds:
            row["AUC, right but rare"] = of_seeds["auc_rare"].mean()
        for column, what in (("found", "wrong"), ("found_rare", "right but rare")):
            if column in of_seeds:
                found = of_seeds[column].dropna().astype(int)
                row[f"{what} of the first {N_FIRST}, by seed"] = ", ".join(map(str, found)) if len(found) else "–"
        shares = of_seeds["share"].dropna()
        row["share of wrong cases in the training"] = f"{100 * shares.mean():.0f} %" if len(shares) else "–"
        unseen = of_seeds["right_unseen"].dropna().astype(int)
        row["right cases not seen, by seed"] = ", ".join(map(str, unseen)) if len(unseen) else "–"
        rows.append(row)
    return pd.DataFrame(rows)


def page_text(
    results: Results,
    table: pd.DataFrame,
    separation: pd.DataFrame,
    *,
    failures: Mapping[str, str],
    name: str,
    quick: bool,
) -> str:
    """What the page says above the table.

    Args:
        results: The numbers.
        table: From `dice_table`.
        separation: From `separation_table`.
        failures: Runs that failed, and why.
        name: Of the page's files.
        quick: Whether it is a smoke run, whose numbers are not told in words.
    """
    study = results.study
    parts = [
        "A share of the training labels is wrong. What does it cost each training on right test cases, and can the "
        "training say which labels are wrong?",
        "## Set-up",
        study.about,
        _methods_told(study),
    ]
    if not quick:
        parts += [
            "## What came out",
            "\n".join(f"- {line}" for line in (*_dice_told(table), *_separation_told(separation))),
        ]
        if missed := not_learnt(results.dice):
            parts.append(
                f"**Trainings that had not learnt a label at all when they ended:** {'; '.join(missed)}. The trainings "
                "are short, and a network of this size finds a small label suddenly, sooner or later: this moves the "
                "mean over the labels more than anything else here. Look at the labels one by one."
            )
    parts += [
        "## Which labels are wrong: what the trainings say",
        _detection_told(results, separation, name),
        markdown_table(separation_rows(separation)),
        "## How to read it",
        f"Statistics of Dice are over the test cases of all seeds together (*{ALL_LABELS}*: the mean over the labels "
        f"of a case). Differences to {BASELINE} are paired over the cases, with 95 % bootstrap intervals of the cases; "
        "these do not count that another training of the same method would come out differently, so look at the "
        "seeds, too. No correction is made for the number of intervals.",
        "### Time of a training iteration",
        "Processor time of the whole training process over the number of iterations, and the fastest epoch of "
        f"nnU-Net's log, as ratios to {BASELINE} of the same seed. What else the machine does meanwhile changes both.",
        markdown_table(time_table(results.times, results.methods, study)),
    ]
    if failures:
        lines = [f"- {run}: {reason.splitlines()[0]}" for run, reason in failures.items()]
        parts += ["### Runs that failed", "\n".join(lines)]
    return "\n\n".join(parts)


def _methods_told(study: Study) -> str:
    return (
        f"All methods train the same three-level 3-D U-Net (8, 16, 32 features) for {study.epochs} epochs of "
        f"{study.iterations} iterations with batch size {BATCH_SIZE}, on one processor core, and differ in nothing but "
        f"the trainer. {BASELINE} is plain nnU-Net. DRO draws the hardest cases most. DORO sets the hardest 30 % "
        "aside, the share that is wrong, and draws from the worse half of the rest: of a smaller part, more would be "
        "wrong cases that were not set aside. DORO_warm does so after three epochs of uniform draws; it was added when "
        "the first run of DORO had shown that it keeps the losses of its first epochs. L2RW weighs each case by "
        "whether it helps the trusted ones. A seed draws the data and what is wrong with them; nnU-Net's own start is "
        "not seeded. There is no training on right labels alone to compare with."
    )


def _detection_told(results: Results, separation: pd.DataFrame, name: str) -> str:
    return (
        f"AUC is the chance that a wrong case has a lower mean weight (L2RW, weights.csv), or a higher mean stale loss "
        "(hardness.csv), than a right one, after the first third of the epochs, trusted cases left out: 0.5 is chance. "
        f"The first {N_FIRST} are those of `nnunet-dro suspects`, trusted cases left in; chance would find "
        f"{_by_chance(results)} wrong ones there. It ranks stale losses by their mean rank over the epochs. The share "
        "in the training is that of the draws of these epochs which went to wrong cases; for L2RW, that of the weight "
        "given. Right cases not seen are those which were not drawn at all in these epochs: their stale loss is of the "
        f"time before. {_of_rare(separation)}[{name}-cases.csv]({name}-cases.csv) has every training case."
    )


def not_learnt(dice: pd.DataFrame) -> list[str]:
    """The trainings that have not learnt a label, as "ERM, seed 1 (cerebellum)".

    Args:
        dice: As `Results.dice`.
    """
    means = dice.groupby(["method", "seed", "label"], sort=False)["dice"].mean()
    return [f"{method}, seed {seed} ({label})" for method, seed, label in means.index[means < NOT_LEARNT]]


def _of_rare(separation: pd.DataFrame) -> str:
    if "auc_rare" not in separation:
        return ""
    return "*Right but rare* is the chance that a right case of the rare pathology looks worse than another right one. "


def _by_chance(results: Results) -> str:
    of_run = results.cases[results.cases["method"] == BASELINE]
    return f"{N_FIRST * float((of_run['kind'] != 'clean').mean()):.0f}"


def _dice_told(table: pd.DataFrame) -> list[str]:
    """A sentence per method: its Dice, mean over the labels, and whether it differs from the baseline's."""
    lines = []
    of_labels = table[table["label"] != ALL_LABELS]
    for row in table[table["label"] == ALL_LABELS].to_dict("records"):
        values = ", ".join(f"{name} {100 * row[name]:.1f}" for name in SHOWN)
        line = f"**{row['method']}** has a Dice of {values}"
        if row["method"] != BASELINE:
            line += f": its mean is {_verdict(row, 'mean')}, its p10 {_verdict(row, 'p10')}"
            line += f"; the mean is above {BASELINE}'s in {row['seeds_better']} of {row['n_seeds']} seeds"
            own = of_labels[of_labels["method"] == row["method"]].to_dict("records")
            line += "; by label, the mean differs by " + ", ".join(
                f"{_difference(of_label, 'mean')} ({of_label['label']})" for of_label in own
            )
        lines.append(line + ".")
    return lines


def _verdict(row: Mapping[str, object], name: str) -> str:
    low, high = (float(str(row[f"{name}_difference_{bound}"])) for bound in ("low", "high"))
    word = "higher than" if low > 0 else "lower than" if high < 0 else "not told apart from"
    return f"{word} {BASELINE}'s ({_difference(row, name)})"


def _separation_told(separation: pd.DataFrame) -> list[str]:
    lines = []
    for row in separation_rows(separation).to_dict("records"):
        kinds = ", ".join(f"{kind} {row[f'AUC, {kind}']:.2f}" for kind in KINDS)
        by = "its weights tell" if row["by"] == "weight" else "its stale losses tell"
        line = f"**{row['method']}**: {by} wrong from right with an AUC of {row['AUC']:.2f} ({kinds})"
        if (found := row[f"wrong of the first {N_FIRST}, by seed"]) != "–":
            line += f"; of the first {N_FIRST} suspects {found} are wrong (by seed)"
            line += f"; {row['share of wrong cases in the training']} of the "
            line += ("weight" if row["by"] == "weight" else "draws") + " went to wrong cases, and "
            line += f"{row['right cases not seen, by seed']} right cases were not drawn (by seed)"
        lines.append(line + ".")
    return lines
