"""The files of the suspects: suspects.csv, and one self-contained page with the pictures."""

from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from nnunet_dro.pages.page import page_assets, page_environment
from nnunet_dro.pages.sortable_table import Column, SortableTable
from nnunet_dro.pages.svg import N_COLOURS
from nnunet_dro.pages.wording import count
from nnunet_dro.suspects.curves import Curves, curve_icon
from nnunet_dro.suspects.epoch_log import WEIGHTS
from nnunet_dro.suspects.ranking import FEW
from nnunet_dro.suspects.search import Suspects
from nnunet_dro.suspects.terminal import decimals, is_few, ordering, score_text, score_title

_ASSETS = Path(__file__).parent / "assets"


def suspects_files(suspects: Suspects) -> dict[str, str]:
    """The files by name.

    Args:
        suspects: From `find_suspects`.

    Returns:
        ``suspects.csv``, with a row per case in the order of the ranking: the columns of `rank_cases`, and ``picture``,
        the reason why one of the first cases has no picture. And ``suspects.html``.
    """
    table = suspects.table.assign(picture=[suspects.reasons.get(case, "") for case in suspects.table["case"]])
    return {
        "suspects.csv": table.to_csv(index=False, float_format="%.6g", lineterminator="\n"),
        "suspects.html": suspects_html(suspects),
    }


def suspects_html(suspects: Suspects) -> str:
    """The page, in which all names from files are escaped."""
    table = _case_table(suspects)
    pictures = {case: f"picture-{n}" for n, case in enumerate(suspects.shown["case"])}
    fold, log = suspects.fold, suspects.log
    content = {
        "kind": "nnunet-dro · cases to look at",
        "title": f"Cases to look at, {fold.dataset}",
        "heading": f"Cases to look at in {fold.dataset}",
        "lede": f"{count(len(suspects.table), 'training case')}, starting with those whose {ordering(log)}.",
        "contents": [("pictures", "Pictures"), ("cases", "Cases"), ("methods", "Definitions")],
        "notes": list(suspects.notes),
        "entries": _entries(suspects),
        "has_pictures": bool(suspects.pictures),
        "labels": [(n % N_COLOURS, name) for n, name in enumerate(suspects.labels.values)] if suspects.labels else [],
        "curve_icons": [(curve_icon(median=False), "the case"), (curve_icon(median=True), "median of all cases")],
        "curve_name": "mean weight of each epoch" if log.kind == WEIGHTS else "stale loss at the end of each epoch",
        "by_weight": log.kind == WEIGHTS,
        "few": FEW,
        "about": [
            ("Dataset", fold.dataset),
            ("Trainer", fold.trainer),
            ("Plans", fold.plans),
            ("Configuration", fold.configuration),
            ("Fold", fold.folder.name.removeprefix("fold_")),
            ("Log", f"{log.kind.file}, {count(len(log.epochs), 'epoch')}"),
        ],
        "cases_about": "All training cases of the fold.",
        "cases_hint": "",
        "cases_caption": "Every training case",
        "cases_file": "suspects.csv",
        "payload": table.payload(pictures),
    }
    template = page_environment(_ASSETS).get_template("suspects.html")
    return template.render({**page_assets(), **content})


def _entries(suspects: Suspects) -> list[dict[str, Any]]:
    shown, log = suspects.shown, suspects.log
    position = {case: n for n, case in enumerate(log.cases)}
    curves = Curves(log, [position[case] for case in shown["case"]])
    entries = []
    for row in shown.to_dict("records"):
        by_weight = log.kind == WEIGHTS
        facts = [f"mean {'weight' if by_weight else 'rank'} {score_text(row['score'], log)}{'' if by_weight else ' %'}"]
        if not pd.isna(row["gap"]):
            facts.append(f"{decimals(row['gap'], 1, signed=True)} SD from the median")
        if not pd.isna(row["loss"]):
            facts.append(f"mean loss {decimals(row['loss'], 3)}")
        facts.append(f"seen {count(row['times_seen'], 'time')}{'†' if is_few(row) else ''}")
        entry = {
            "rank": row["rank"],
            "case": row["case"],
            "facts": ", ".join(facts),
            "slice": suspects.pictures.get(row["case"]),
            "reason": suspects.reasons.get(row["case"], ""),
            "curve": Markup(curves.figure(position[row["case"]])),
        }
        entries.append(entry)
    return entries


def _case_table(suspects: Suspects) -> SortableTable:
    table, by_weight = suspects.table, suspects.log.kind == WEIGHTS
    scores = table["score"] if by_weight else 100 * table["score"]
    title = score_title(suspects.log)
    columns = [
        Column("Case", "text", table["case"].tolist()),
        Column("Evidence", "text", [_evidence(seen) for seen in table["times_seen"]], filtered=True),
        Column("Rank", "count", table["rank"].astype(float).tolist()),
        Column(title.capitalize(), "decimal" if by_weight else "number", scores.tolist()),
        Column("Gap (SD)", "difference", table["gap"].tolist()),
    ]
    if table["loss"].notna().any():
        columns.append(Column("Mean loss", "decimal", table["loss"].tolist()))
    columns.append(Column("Seen", "count", table["times_seen"].tolist()))
    columns.append(Column("Seen in all", "count", table["times_seen_in_all"].tolist()))
    return SortableTable(tuple(columns), table["case"].tolist(), sorted_by=2, descending=False)


def _evidence(times_seen: int) -> str:
    return f"fewer than {FEW} visits" if times_seen < FEW else f"{FEW} visits or more"
