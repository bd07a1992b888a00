"""The page of a segmentation study: what was asked, what came out in words, and the tables."""

from collections.abc import Mapping

import pandas as pd

from experiments.nnunet_runs.page import not_learnt, time_table
from experiments.nnunet_runs.plans import BATCH_SIZE
from experiments.nnunet_runs.results import Results
from experiments.nnunet_runs.study import BASELINE, Study
from experiments.record import collapse_rates, collapsed_trainings, render
from experiments.segmentation.dice_table import SHOWN, shown_table
from experiments.segmentation.results import learnt_rows

#: Statistics that the findings describe.
_TOLD = ("mean", "p10")


def page_table(table: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The table of the page: Dice of the study's labels in per cent, and the differences to the baseline as text.

    Args:
        table: From `summary_rows`.
        study: The study.
    """
    shown = shown_table(table[table["label"].isin(study.labels)])
    return shown.drop(columns="label") if len(study.labels) == 1 else shown


def shown_columns(table: pd.DataFrame) -> pd.DataFrame:
    """The columns that the page shows: no ranges over the seeds, and no p5, which is in the CSV."""
    return table[[name for name in map(str, table) if not name.endswith(", seeds") and not name.startswith("p5")]]


def page_text(
    results: Results,
    table: pd.DataFrame,
    n_training: "pd.Series[int]",
    *,
    by_seed: pd.DataFrame | None = None,
    failures: Mapping[str, str],
    quick: bool,
    seeded: bool = True,
) -> str:
    """The text of the page above its table.

    Args:
        results: The numbers of the seeds.
        table: From `summary_rows`.
        n_training: Training cases of each stratum.
        by_seed: From `seed_rows`; None for a table of an earlier version, whose seeds were not kept.
        failures: Runs that failed, and the reasons.
        quick: Whether it is a smoke run; its numbers are not described in words.
        seeded: Whether the trainings of a seed were seeded as well as its data; those of earlier pages were not.
    """
    study = results.study
    return render(
        "segmentation/page",
        baseline=BASELINE,
        study=study,
        batch_size=BATCH_SIZE,
        seeded=seeded,
        quick=quick,
        of_seeds="differences" in table,
        findings=findings(table, study, n_training),
        not_learnt=not_learnt(results.dice[results.dice["label"].isin(study.labels)]),
        **_without_collapsed(by_seed, study, n_training),
        times=time_table(results.times, results.methods, study),
        failures=failures,
    )


def _without_collapsed(by_seed: pd.DataFrame | None, study: Study, n_training: "pd.Series[int]") -> dict[str, object]:
    """How many trainings of each method have collapsed, and what the others say."""
    if by_seed is None:
        return {"rates": None, "findings_without": None}
    rates = collapse_rates(by_seed, collapsed_trainings(by_seed), labels=study.labels)
    return {"rates": rates, "findings_without": findings(learnt_rows(by_seed, study), study, n_training)}


def findings(table: pd.DataFrame, study: Study, n_training: "pd.Series[int]") -> str:
    """The differences to the baseline, sorted by whether their intervals exclude 0, in sentences.

    Args:
        table: From `summary_rows`.
        study: The study.
        n_training: Training cases of each stratum.

    Returns:
        A list in markdown, an entry per label of the study and stratum.
    """
    entries = []
    for label in study.labels:
        for stratum in study.strata:
            rows = table[(table["label"] == label) & (table["stratum"] == stratum)]
            if rows.empty:
                continue
            entry = {"label": label, "stratum": stratum, "n_training": n_training[stratum]}
            entries.append(entry | _sorted_by_sign(rows))
    n_total = n_training.sum()
    return render(
        "segmentation/findings",
        entries=entries,
        n_total=n_total,
        baseline=BASELINE,
        statistics=SHOWN,
        told=_TOLD,
    )


def _sorted_by_sign(rows: pd.DataFrame) -> dict[str, object]:
    """The baseline's row, and by statistic the rows that are higher and lower, the largest difference first."""
    others = rows[rows["method"] != BASELINE]
    higher, lower, n_open = {}, {}, {}
    for statistic in _TOLD:
        name = f"{statistic}_difference"
        above = others[others[f"{name}_low"] > 0].sort_values(name, ascending=False)
        below = others[others[f"{name}_high"] < 0].sort_values(name)
        higher[statistic], lower[statistic] = above.to_dict("records"), below.to_dict("records")
        n_open[statistic] = len(others) - len(above) - len(below)
    (of_baseline,) = rows[rows["method"] == BASELINE].to_dict("records")
    return {"baseline": of_baseline, "higher": higher, "lower": lower, "n_open": n_open}
