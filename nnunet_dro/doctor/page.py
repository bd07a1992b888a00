"""The page of the answer: one self-contained file, offline."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nnunet_dro.doctor import rules
from nnunet_dro.doctor.answer import Answer, duration
from nnunet_dro.doctor.figure import dice_figure
from nnunet_dro.doctor.measurements import CASES_FILE, DICE, LOSS
from nnunet_dro.doctor.rules import State, Stratum
from nnunet_dro.doctor.words import advice, command, heading, members, notes, points, probability, why
from nnunet_dro.pages.html import page_assets, page_environment
from nnunet_dro.pages.sortable_table import Column, SortableTable
from nnunet_dro.pages.svg import legend_mark
from nnunet_dro.pages.wording import NO_VALUE, count

_ASSETS = Path(__file__).parent / "assets"

#: The sections by their places in the page.
_CONTENTS = {
    "answer": "Answer",
    "strata": "Who is hard",
    "spread": "Spread",
    "cost": "Cost",
    "cases": "Cases",
    "methods": "Rules",
}

#: More outliers than this are in the table of cases only.
_MOST_OUTLIERS = 20

#: Figures of more columns than this are left out; their strata are in the table.
_MOST_FIGURES = 4


def doctor_html(answer: Answer) -> str:
    """The page, in which all names from files are escaped."""
    fold, diagnosis = answer.fold, answer.diagnosis
    n_validation = int((~answer.is_training).sum())
    sets = f"{count(diagnosis.n_training, 'training case')} and {count(n_validation, 'validation case')}"
    content = {
        "kind": "nnunet-dro · doctor",
        "title": f"Would robust training help? {fold.dataset}",
        "heading": "Would robust training help?",
        "lede": f"{fold.trainer} on {fold.dataset}, {fold.configuration}, {fold.folder.name}: {sets}.",
        "contents": list(_CONTENTS.items()),
        "finding": heading(answer),
        "why": why(answer),
        "advice": advice(answer),
        "command": command(answer),
        "notes": notes(answer),
        "strata": [_stratum_row(answer, stratum) for stratum in diagnosis.strata],
        "figures": _figures(answer),
        "figure_legend": [((legend_mark(0),), "training case"), ((legend_mark(1),), "validation case")],
        "outliers": [
            {"case": o.case, "label": o.label, "dice": points(o.dice), "limit": points(o.limit)}
            for o in diagnosis.outliers[:_MOST_OUTLIERS]
        ],
        "n_outliers": len(diagnosis.outliers),
        "spread": _spread(answer),
        "cost": _cost(answer),
        "limits": _limits(answer),
        "about": _about(answer),
        "cases": {
            "about": "All training and validation cases of the fold, hardest first.",
            "caption": "Every case",
            "file": CASES_FILE,
        },
        "payload": _case_table(answer).payload({}),
    }
    template = page_environment(_ASSETS).get_template("doctor.html")
    return template.render({**page_assets(), **content})


def _stratum_row(answer: Answer, stratum: Stratum) -> dict[str, Any]:
    of_cases, of_draws = answer.share(members(answer, stratum))
    return {
        "column": stratum.column,
        "name": stratum.name,
        "n_training": stratum.n_training,
        "n_validation": stratum.n_validation,
        "training": _compared(stratum.training),
        "validation": _compared(stratum.validation),
        "cases": f"{100 * of_cases:.0f}",
        "draws": NO_VALUE if of_draws != of_draws else f"{100 * of_draws:.0f}",
        "state": stratum.state.value,
        "is_worse": stratum.state in (State.BEHIND, State.NOT_CARRIED_OVER),
    }


def _compared(comparison: rules.Comparison | None) -> dict[str, str]:
    if comparison is None:
        return {"label": "", "mean": NO_VALUE, "others": "", "p": ""}
    return {
        "label": comparison.label,
        "mean": points(comparison.mean),
        "others": points(comparison.others),
        "p": probability(comparison),
    }


def _figures(answer: Answer) -> list[dict[str, Any]]:
    """A figure for each column, of the label in which a stratum of it is furthest behind."""
    if not answer.has_predictions:
        return []
    found = []
    for column in answer.by[:_MOST_FIGURES] or ("",):
        compared = [
            comparison
            for stratum in answer.diagnosis.strata
            if stratum.column == column
            for comparison in (stratum.training, stratum.validation)
            if comparison is not None
        ]
        worst = max(compared, key=lambda comparison: comparison.difference, default=None)
        label = worst.label if worst else min(answer.diagnosis.medians, key=lambda name: answer.diagnosis.medians[name])
        found.append({"title": f"{label}, by {column}" if column else label, "svg": dice_figure(answer, column, label)})
    return found


def _spread(answer: Answer) -> list[tuple[str, str]]:
    if answer.spread is None:
        return []
    spread = answer.spread
    rows = [
        ("Between cases", f"{spread.between:.3f}"),
        ("From patch to patch of a case", _known(spread.within, ".3f")),
        ("Share of the variance of one loss that is between cases", _known(spread.share_between, ".0%")),
    ]
    if answer.draws is not None:
        effective = f"{answer.draws.effective:.0f} of {answer.diagnosis.n_training}"
        rows += [(f"Effective cases of {answer.trainer}", effective), ("Its beta", f"{answer.draws.beta:.2g}")]
    return rows


def _known(value: float, form: str) -> str:
    return NO_VALUE if value != value else f"{value:{form}}".replace("%", " %")


def _cost(answer: Answer) -> list[tuple[str, str]]:
    cases = answer.cases
    patches, prediction = float(cases["seconds_patches"].mean()), float(cases["seconds_prediction"].mean())
    total = float(cases["seconds_patches"].sum() + cases["seconds_prediction"].sum())
    rows = [
        (
            f"{answer.n_patches} patch{'' if answer.n_patches == 1 else 'es'} of a case",
            f"{patches:.2g} s",
        ),
        ("Prediction of a case, without mirroring", f"{prediction:.2g} s"),
        ("All measurements", duration(total)),
    ]
    if answer.training_seconds:
        rows.append(("The plain training, and a robust one of the same length", duration(answer.training_seconds)))
    return rows


def _limits(answer: Answer) -> Mapping[str, str]:
    return {
        "behind": f"{100 * rules.BEHIND:.0f}",
        "level": f"{rules.LEVEL:g}",
        "n_comparisons": str(answer.diagnosis.n_comparisons),
        "suspicion": f"{rules.SUSPICION:g}",
        "outlier": f"{100 * rules.OUTLIER:.0f}",
        "outlier_sd": f"{rules.OUTLIER_SD:g}",
        "fewest_outliers": str(rules.FEWEST_OUTLIERS),
        "outlier_share": f"{100 * rules.OUTLIER_SHARE:g}",
        "fewest_cases": str(rules.FEWEST_CASES),
        "learnt": f"{100 * rules.LEARNT:.0f}",
        "low": f"{100 * rules.LOW:.0f}",
        "fewest_iterations": f"{rules.FEWEST_ITERATIONS:,}",
    }


def _about(answer: Answer) -> list[tuple[str, str]]:
    fold = answer.fold
    return [
        ("Dataset", fold.dataset),
        ("Trainer", fold.trainer),
        ("Plans", fold.plans),
        ("Configuration", fold.configuration),
        ("Fold", fold.folder.name.removeprefix("fold_")),
        ("Strata", f"{', '.join(answer.by)} of {answer.strata_from}" if answer.by else "none"),
        ("Losses", answer.spread_from),
    ]


def _case_table(answer: Answer) -> SortableTable:
    cases = answer.cases
    losses = [name for name in cases.columns if str(name).startswith(LOSS)]
    mean = cases[losses].mean(axis=1) if losses else cases["share"] * np.nan
    deviation = cases[losses].std(axis=1, ddof=1) if len(losses) > 1 else mean * np.nan
    often = cases["share"] * answer.diagnosis.n_training
    columns = [
        Column("Case", "text", cases["case"].tolist()),
        Column("Set", "text", cases["set"].tolist(), filtered=True),
        *(Column(name, "text", answer.strata[name].astype(str).tolist(), filtered=True) for name in answer.by),
        *(
            Column(f"Dice of {str(name).removeprefix(DICE)}", "number", (100 * cases[name]).tolist())
            for name in cases.columns
            if str(name).startswith(DICE)
        ),
        Column("Mean loss", "decimal", mean.tolist()),
        Column("SD of loss", "decimal", deviation.tolist()),
        Column("Draws, times as often", "decimal", often.tolist()),
    ]
    return SortableTable(tuple(columns), cases["case"].tolist(), sorted_by=len(columns) - 3, descending=True)
