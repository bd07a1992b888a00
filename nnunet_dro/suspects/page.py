"""The files of the suspects: suspects.csv, and one self-contained page with the pictures."""

from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from nnunet_dro.pages.html import page_assets, page_environment
from nnunet_dro.pages.sortable_table import Column, SortableTable
from nnunet_dro.pages.svg import N_COLOURS
from nnunet_dro.pages.wording import count
from nnunet_dro.suspects.curves import Curves, curve_icon
from nnunet_dro.suspects.ranking import FEW
from nnunet_dro.suspects.search import DICE, LOSS, WEIGHT, Suspects
from nnunet_dro.suspects.terminal import decimals, is_few, ordering, score_text, score_title

_ASSETS = Path(__file__).parent / "assets"


def suspects_files(suspects: Suspects, steps: Sequence[str] = ()) -> dict[str, str]:
    """The files by name.

    Args:
        suspects: From `find_suspects`.
        steps: What to do next, in sentences.

    Returns:
        ``suspects.csv``, with a row per case in the order of the ranking: the columns of `Suspects.table`, and
        ``picture``, the reason why one of the first cases has no picture. And ``suspects.html``.
    """
    table = suspects.table.assign(
        trusted=suspects.table["trusted"].map({True: "yes", False: ""}),
        picture=[suspects.reasons.get(case, "") for case in suspects.table["case"]],
    )
    return {
        "suspects.csv": table.to_csv(index=False, float_format="%.6g", lineterminator="\n"),
        "suspects.html": suspects_html(suspects, steps),
    }


def suspects_html(suspects: Suspects, steps: Sequence[str] = ()) -> str:
    """The page, in which all names from files are escaped."""
    table = _case_table(suspects)
    pictures = {case: f"picture-{n}" for n, case in enumerate(suspects.shown["case"])}
    fold, log = suspects.fold, suspects.log
    folds = ", ".join(one.folder.name.removeprefix("fold_") for one in suspects.folds)
    content = {
        "kind": "nnunet-dro · cases to look at",
        "title": f"Cases to look at, {fold.dataset}",
        "heading": f"Cases to look at in {fold.dataset}",
        "lede": f"{count(len(suspects.table), 'case')}, starting with those whose {ordering(suspects)}.",
        "contents": [
            *[("pictures", "Pictures"), ("next", "What to do next")][: 2 if steps else 1],
            *[("cases", "Cases"), ("methods", "Definitions")],
        ],
        "notes": list(suspects.notes),
        "steps": list(steps),
        "entries": _entries(suspects),
        "has_pictures": bool(suspects.pictures),
        "has_predictions": any(slice_.predicted is not None for slice_ in suspects.pictures.values()),
        "has_curves": log is not None,
        "labels": [(n % N_COLOURS, name) for n, name in enumerate(suspects.labels.values)] if suspects.labels else [],
        "curve_icons": [(curve_icon(median=False), "the case"), (curve_icon(median=True), "median of all cases")],
        "curve_name": "mean weight of each epoch" if suspects.by == WEIGHT else "stale loss at the end of each epoch",
        "by": suspects.by,
        "n_folds": len(suspects.folds),
        "few": FEW,
        "about": [
            ("Dataset", fold.dataset),
            ("Trainer", fold.trainer),
            ("Plans", fold.plans),
            ("Configuration", fold.configuration),
            ("Folds" if len(suspects.folds) > 1 else "Fold", folds),
            ("Log", f"{log.kind.file}, {count(len(log.epochs), 'epoch')}" if log else "none"),
        ],
        "cases": {
            "about": "All cases of the folds." if len(suspects.folds) > 1 else "All cases of the fold.",
            "hint": "",
            "caption": "Every case",
            "file": "suspects.csv",
        },
        "payload": table.payload(pictures),
    }
    template = page_environment(_ASSETS).get_template("suspects.html")
    return template.render({**page_assets(), **content})


def _entries(suspects: Suspects) -> list[dict[str, Any]]:
    shown, log = suspects.shown, suspects.log
    position = {case: n for n, case in enumerate(log.cases)} if log else {}
    curves = Curves(log, [position[case] for case in shown["case"] if case in position]) if log else None
    entries = []
    for row in shown.to_dict("records"):
        drawn = curves is not None and row["case"] in position
        entry = {
            "rank": row["rank"],
            "case": row["case"],
            "facts": ", ".join(_facts(row, suspects)),
            "strata": "; ".join(f"{name}: {of_case[row['case']]}" for name, of_case in suspects.strata.items()),
            "slice": suspects.pictures.get(row["case"]),
            "reason": suspects.reasons.get(row["case"], ""),
            "curve": Markup(curves.figure(position[row["case"]])) if curves and drawn else "",
        }
        entries.append(entry)
    return entries


def _facts(row: Mapping[Hashable, Any], suspects: Suspects) -> list[str]:
    """What is known about a case, in words."""
    score = score_text(row["score"], suspects)
    facts = [
        {WEIGHT: f"mean weight {score}", DICE: f"validation Dice {score}"}.get(suspects.by, f"mean rank {score} %")
    ]
    if not pd.isna(row["gap"]):
        facts.append(f"{decimals(row['gap'], 1, signed=True)} SD from the median")
    if not pd.isna(row["loss"]):
        facts.append(f"mean loss {decimals(row['loss'], 3)}")
    if suspects.by != DICE and not pd.isna(row["validation_dice"]):
        facts.append(f"validation Dice {decimals(row['validation_dice'], 3)}")
    if row["times_seen"] or suspects.by != DICE:
        few = suspects.by != DICE and is_few(row)
        facts.append(f"seen {count(row['times_seen'], 'time')}{'†' if few else ''}")
    return [*facts, "trusted"] if row["trusted"] else facts


def _case_table(suspects: Suspects) -> SortableTable:
    table, by = suspects.table, suspects.by
    scores = 100 * table["score"] if by == LOSS else table["score"]
    columns = [Column("Case", "text", table["case"].tolist())]
    if by != DICE:
        columns.append(Column("Evidence", "text", [_evidence(seen) for seen in table["times_seen"]], filtered=True))
    columns += [
        Column("Rank", "count", table["rank"].astype(float).tolist()),
        Column(score_title(suspects).replace("mean", "Mean"), "number" if by == LOSS else "decimal", scores.tolist()),
        Column("Gap (SD)", "difference", table["gap"].tolist()),
    ]
    if table["loss"].notna().any():
        columns.append(Column("Mean loss", "decimal", table["loss"].tolist()))
    if by != DICE and table["validation_dice"].notna().any():
        columns.append(Column("Validation Dice", "decimal", table["validation_dice"].tolist()))
    if suspects.log is not None:
        columns.append(Column("Seen", "count", table["times_seen"].tolist()))
        columns.append(Column("Seen in all", "count", table["times_seen_in_all"].tolist()))
    if table["trusted"].any():
        trusted = ["trusted" if is_trusted else "not trusted" for is_trusted in table["trusted"]]
        columns.append(Column("Trusted", "text", trusted, filtered=True))
    for name, of_case in suspects.strata.items():
        columns.append(Column(name, "text", [of_case[case] for case in table["case"]], filtered=True))
    rank = [column.title for column in columns].index("Rank")
    return SortableTable(tuple(columns), table["case"].tolist(), sorted_by=rank, descending=False)


def _evidence(times_seen: int) -> str:
    return f"fewer than {FEW} visits" if times_seen < FEW else f"{FEW} visits or more"
