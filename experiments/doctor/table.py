"""The table of the experiments: numbers, finding, right or wrong."""

from typing import Any

import pandas as pd

from experiments.doctor.recorded import EXPERIMENTS, Recorded
from nnunet_dro.doctor import Answer

#: What surrounds the table in docs/doctor.md.
START, END = "<!-- experiments -->", "<!-- end of experiments -->"


def row_of(experiment: Recorded, answer: Answer) -> dict[str, Any]:
    """The numbers of an experiment."""
    diagnosis = answer.diagnosis
    compared = [(s.name, "training", s.training) for s in diagnosis.strata if s.column and s.training]
    compared += [(s.name, "validation", s.validation) for s in diagnosis.strata if s.validation]
    stratum, kind, worst = max(compared, key=lambda entry: entry[2].difference)
    of_cases, of_draws = answer.share([str(c) for c in answer.cases["case"][_members(answer, stratum)]])
    return {
        "experiment": experiment.name,
        "training_cases": diagnosis.n_training,
        "validation_cases": int((~answer.is_training).sum()),
        "worst_stratum": stratum,
        "set": kind,
        "label": worst.label,
        "cases_of_it": worst.n,
        "dice": worst.mean,
        "dice_of_others": worst.others,
        "probability": worst.probability,
        "limit": 0.01 / diagnosis.n_comparisons,
        "outliers": len(diagnosis.outliers),
        "sd_between": answer.spread.between if answer.spread else float("nan"),
        "sd_within": answer.spread.within if answer.spread else float("nan"),
        "beta": answer.draws.beta if answer.draws else float("nan"),
        "effective_cases": answer.draws.effective if answer.draws else float("nan"),
        "share_of_cases": of_cases,
        "share_of_draws": of_draws,
        "finding": diagnosis.finding.value,
    }


def _members(answer: Answer, stratum: str) -> "pd.Series[bool]":
    column = next((c for c in answer.by if (answer.strata[c].astype(str) == stratum).any()), None)
    return answer.cases["case"].notna() if column is None else answer.strata[column].astype(str) == stratum


def markdown(table: pd.DataFrame) -> str:
    """The table as in docs/doctor.md, between its marks, of a row per experiment."""
    head = (
        "experiment",
        "what came out of it",
        "worst stratum",
        "its mean Dice, others",
        "p (limit)",
        "outliers",
        "SD of losses between, within cases",
        "finding",
        "agrees",
    )
    lines = [f"| {' | '.join(head)} |", "| " + " | ".join(["---"] * len(head)) + " |"]
    rows = {row["experiment"]: row for row in table.to_dict("records")}
    lines += [_line(experiment, rows[experiment.name]) for experiment in EXPERIMENTS if experiment.name in rows]
    return "\n".join([START, *lines, END])


def _line(experiment: Recorded, row: dict[Any, Any]) -> str:
    title = f"[{experiment.title}](results/{experiment.page})"
    is_right = row["finding"] in {finding.value for finding in experiment.right}
    cells = [
        title + (", left out" if experiment.left_out else ""),
        experiment.outcome,
        f"{row['worst_stratum']}, {row['cases_of_it']} of {row['training_cases']} training cases"
        if row["set"] == "training"
        else f"{row['worst_stratum']}, {row['cases_of_it']} validation",
        f"{100 * row['dice']:.0f}, {100 * row['dice_of_others']:.0f} ({row['label']})",
        f"{row['probability']:.1g} ({row['limit']:.1g})",
        f"{row['outliers']}",
        f"{row['sd_between']:.2f}, {row['sd_within']:.2f}",
        f"*{row['finding']}*",
        "yes" if is_right else "**no**",
    ]
    return f"| {' | '.join(cells)} |"
