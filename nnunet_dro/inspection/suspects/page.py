"""The files of the suspects.

Suspects.csv, and one self-contained page with the pictures and curves of the cases.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from nnunet_dro.inspection.images import Slice
from nnunet_dro.inspection.suspects.curves import CASE, MEDIAN, curves_of
from nnunet_dro.inspection.suspects.ranking import DICE, FEW, LOSS, WEIGHT
from nnunet_dro.inspection.suspects.search import Suspects
from nnunet_dro.inspection.suspects.terminal import is_few, ordering, score_text, score_title
from nnunet_dro.naming import count, written
from nnunet_dro.pages.document import Block, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, gallery, page
from nnunet_dro.pages.pictures import Picture, Plane
from nnunet_dro.pages.svg import N_COLOURS, legend_line


def suspects_files(suspects: Suspects, steps: Sequence[str] = ()) -> dict[str, str]:
    """The files by name: ``suspects.csv`` with a row per case, and the page.

    ``steps`` say what to do next.
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
    dataset = suspects.folds[0].dataset
    blocks: list[Block] = [
        *map(Note, suspects.notes),
        Heading(f"The first {len(suspects.shown)}", anchor="pictures", short="Pictures"),
        *_pictures(suspects),
    ]
    if steps:
        blocks.append(Heading("What to do next", anchor="next", short="To do next"))
        blocks.append(Prose(steps, kind="steps"))

    cases = count(len(suspects.table), "case")
    return page(
        blocks,
        _methods(suspects),
        about=_about(suspects),
        table=_case_table(suspects),
        kind="nnunet-dro · cases to look at",
        title=f"Cases to look at, {dataset}",
        heading=f"Cases to look at in {dataset}",
        lede=f"{cases}, starting with those whose {ordering(suspects)}.",
    )


def _pictures(suspects: Suspects) -> Iterator[Block]:
    """What the pictures and curves show, their legends, and the first cases."""
    about = _about_pictures(suspects)
    if about:
        yield Prose(about)
    if suspects.log is not None:
        yield Figure(
            legend=[
                ([legend_line(*CASE)], "the case"),
                ([legend_line(*MEDIAN)], "median of all cases"),
            ]
        )

    labels: Sequence[str] = ()
    if suspects.labels and suspects.pictures:
        labels = list(suspects.labels.values)
    legend = [(f"label s{n % N_COLOURS}", label) for n, label in enumerate(labels)]
    yield gallery(_entries(suspects), legend, kind="slices")


def _about_pictures(suspects: Suspects) -> str:
    """What the pictures and curves show; empty if there are none."""
    curves = ""
    if suspects.log is not None:
        curve = "stale loss at the end of each epoch"
        if suspects.by == WEIGHT:
            curve = "mean weight of each epoch"
        curves = (
            f"{curve}. The shaded first third of the epochs does not count. All curves have the "
            "same axes; values beyond them are drawn at the edge."
        )
        if len(suspects.folds) > 1:
            curves += " A curve is the mean over the folds that trained on the case."
    if not suspects.pictures:
        return f"The {curves}" if curves else ""

    about = "The slice that shows most of the reference, with its outlines"
    if any(picture.predicted is not None for picture in suspects.pictures.values()):
        about += (
            ", with those of the prediction by the network that was trained without the case "
            "(dashed),"
        )
    about += " and without"
    return f"{about}, and the {curves}" if curves else f"{about}."


def _methods(suspects: Suspects) -> list[Block]:
    """The definitions of the words and columns of the page."""
    by = suspects.by
    has_log = suspects.log is not None
    terms = {}
    if by == WEIGHT:
        terms["Mean weight"] = (
            "over the iterations that used the case, in the epochs that count. Weights are "
            "relative: plain training gives every case 1. The lowest comes first."
        )
    elif by == LOSS:
        terms["Stale loss"] = "the loss of the case when it was last seen, on an augmented patch."
        terms["Mean rank"] = (
            "over the epochs that count, the share of the other cases with a smaller stale loss at "
            "the end of the epoch; equal losses count half. The highest comes first. A single hard "
            "epoch does not keep a case at the top: in each epoch the hardest case has 100 %, "
            "however large its loss."
        )
    terms["Validation Dice"] = (
        "of the network that was trained without the case, averaged over the labels that have one, "
        "from nnU-Net's validation/summary.json."
    )
    if has_log:
        terms["Epochs that count"] = (
            "all but the first third, in which the network still knows little."
        )
    if len(suspects.folds) > 1 and by != DICE:
        terms["Several folds"] = (
            "are ranked one by one, because the losses of one network may lie above those of "
            "another. Rank, gap and loss are means over the folds that trained on the case; visits "
            "are added."
        )

    score = "validation Dice" if by == DICE else f"mean {by}"
    terms["Gap"] = (
        f"from the median of all cases to the {score}, in standard deviations (1.4826 times the "
        "median absolute deviation)."
    )
    if has_log:
        terms["Seen"] = "number of visits in the epochs that count."
        if by != DICE:
            terms["Seen"] += f" † Fewer than {FEW} visits: the rank says little."
    terms["Trusted"] = "the case has yes in the column trusted of the dataset's case table."
    return [
        Heading("Definitions", anchor="methods", short="Definitions"),
        Table.of_pairs("Definitions", terms.items(), kind="terms"),
    ]


def _about(suspects: Suspects) -> dict[str, str]:
    numbers = [fold.number for fold in suspects.folds]
    log = "none"
    if suspects.log is not None:
        log = f"{suspects.log.kind.file}, {count(len(suspects.log.epochs), 'epoch')}"
    return {
        **suspects.folds[0].about,
        "Folds" if len(numbers) > 1 else "Fold": ", ".join(numbers),
        "Log": log,
    }


def _entries(suspects: Suspects) -> list[Picture]:
    """The first cases, each with what there is of a slice, a curve, and reasons."""
    shown = suspects.shown
    log = suspects.log
    curves: dict[str, Markup] = {}
    if log is not None:
        curves = curves_of(log, [case for case in shown["case"] if case in log.values])

    entries = []
    for row in shown.to_dict("records"):
        case = str(row["case"])
        strata = [f"{name}: {entries[case]}" for name, entries in suspects.strata.items()]
        planes = []
        if case in suspects.pictures:
            planes = list(_planes(suspects.pictures[case]))
        entries.append(
            Picture(
                case,
                f": {', '.join(_facts(row, suspects))}",
                ["; ".join(strata), suspects.reasons.get(case, "")],
                planes,
                rank=f"{row['rank']}. ",
                chart=curves.get(case, Markup("")),
            )
        )
    return entries


def _planes(picture: Slice) -> Iterator[tuple[Plane, str, Sequence[tuple[str, str]], str]]:
    """The slice with the outlines of the reference, with those of a prediction, and without any."""
    plane = picture.plane
    name = plane.name
    if picture.is_empty:
        name += ", the reference is empty"
    yield plane, name, plane.outlines, name

    if picture.predicted is not None:
        dashed = [(f"{kind} dashed", path) for kind, path in picture.predicted]
        yield plane, "prediction", dashed, "prediction"
    yield plane, "without outlines", (), "without outlines"


def _facts(row: Mapping[Hashable, Any], suspects: Suspects) -> list[str]:
    """What is known about a case, in words."""
    score = score_text(row["score"], suspects)
    words = {
        WEIGHT: f"mean weight {score}",
        DICE: f"validation Dice {score}",
        LOSS: f"mean rank {score} %",
    }

    facts = [words[suspects.by]]
    if not pd.isna(row["gap"]):
        facts.append(f"{written(row['gap'], '+.1f')} SD from the median")
    if not pd.isna(row["loss"]):
        facts.append(f"mean loss {written(row['loss'], '.3f')}")

    is_by_dice = suspects.by == DICE
    if not is_by_dice and not pd.isna(row["validation_dice"]):
        facts.append(f"validation Dice {written(row['validation_dice'], '.3f')}")
    if row["times_seen"] or not is_by_dice:
        mark = "†" if is_few(row) and not is_by_dice else ""
        facts.append(f"seen {count(row['times_seen'], 'time')}{mark}")

    if row["trusted"]:
        facts.append("trusted")
    return facts


def _case_table(suspects: Suspects) -> SortableTable:
    """Every case with its rank, score and strata."""
    table = suspects.table
    by = suspects.by
    columns = [SortableColumn("Case", "text", table["case"])]
    if by != DICE:
        is_rare = table["times_seen"] < FEW
        evidence = is_rare.map({True: f"fewer than {FEW} visits", False: f"{FEW} visits or more"})
        columns.append(SortableColumn("Evidence", "text", evidence, filtered=True))

    place_of_rank = len(columns)
    columns.append(SortableColumn("Rank", "count", table["rank"].astype(float)))
    title = score_title(suspects).replace("mean", "Mean")
    if by == LOSS:
        columns.append(SortableColumn(title, "number", 100 * table["score"]))
    else:
        columns.append(SortableColumn(title, "decimal", table["score"]))
    columns.append(SortableColumn("Gap (SD)", "difference", table["gap"]))

    if table["loss"].notna().any():
        columns.append(SortableColumn("Mean loss", "decimal", table["loss"]))
    if by != DICE and table["validation_dice"].notna().any():
        columns.append(SortableColumn("Validation Dice", "decimal", table["validation_dice"]))
    if suspects.log is not None:
        columns.append(SortableColumn("Seen", "count", table["times_seen"]))
        columns.append(SortableColumn("Seen in all", "count", table["times_seen_in_all"]))

    if table["trusted"].any():
        trusted = table["trusted"].map({True: "trusted", False: "not trusted"})
        columns.append(SortableColumn("Trusted", "text", trusted, filtered=True))
    for name, entries in suspects.strata.items():
        strata = [entries[case] for case in table["case"]]
        columns.append(SortableColumn(name, "text", strata, filtered=True))

    folds = "folds" if len(suspects.folds) > 1 else "fold"
    return SortableTable(
        tuple(columns),
        table["case"].tolist(),
        place_of_rank,
        False,
        about=f"All cases of the {folds}.",
        hint="",
        caption="Every case",
        file="suspects.csv",
        pictures={case: f"picture-{n}" for n, case in enumerate(suspects.shown["case"])},
    )
