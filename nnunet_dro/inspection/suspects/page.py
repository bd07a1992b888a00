"""The suspects on the terminal, in suspects.csv, and on one self-contained page.

The page has pictures and curves of the first cases.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup
from rich.console import RenderableType

from nnunet_dro.inspection.images import CaseSlice
from nnunet_dro.inspection.suspects.curves import CASE, MEDIAN, curves_of
from nnunet_dro.inspection.suspects.ranking import DICE, FEW, LOSS, WEIGHT
from nnunet_dro.inspection.suspects.search import Suspects
from nnunet_dro.inspection.suspects.words import WORDS
from nnunet_dro.naming import count, written
from nnunet_dro.pages.document import Block, Cell, Column, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, gallery, page
from nnunet_dro.pages.pictures import Picture, Plane
from nnunet_dro.pages.svg import N_COLOURS, legend_line
from nnunet_dro.pages.terminal import printed

_Row = Mapping[Hashable, Any]


@dataclass(frozen=True)
class _Measure:
    """A number of every case, with what it is called wherever it is shown."""

    name: str  # column of the ranking
    head: str  # heading on the terminal
    title: str  # heading on the page
    kind: str  # of the column on the page
    fact: str  # beside a picture, in words
    form: str = ".3f"
    unit: float = 1  # what is shown of a value of 1

    def text(self, row: _Row) -> str:
        """What the case of a row has, as it is written."""
        return written(self.unit * row[self.name], self.form)


#: What a case is ranked by, and by what else one can judge it.
_SCORES = {
    LOSS: _Measure(
        "score", "mean rank (%)", "Mean rank (%)", "number", "mean rank {} %", ".1f", 100
    ),
    WEIGHT: _Measure("score", "mean weight", "Mean weight", "decimal", "mean weight {}"),
    DICE: _Measure("score", "validation Dice", "validation Dice", "decimal", "validation Dice {}"),
}
_GAP = _Measure("gap", "gap (SD)", "Gap (SD)", "difference", "{} SD from the median", "+.1f")
_MEAN_LOSS = _Measure("loss", "loss", "Mean loss", "decimal", "mean loss {}")
_DICE = _Measure("validation_dice", "Dice", "Validation Dice", "decimal", "validation Dice {}")

#: What the first cases have, by what they are ranked by.
_EXTREMES = {
    LOSS: "loss stays highest",
    WEIGHT: "weight stays lowest",
    DICE: "validation Dice is lowest",
}


def _measures(suspects: Suspects, rows: pd.DataFrame) -> list[_Measure]:
    """The measures that some rows of the ranking have."""
    measures = [_SCORES[suspects.by], _GAP]
    if suspects.table["loss"].notna().any():
        measures.append(_MEAN_LOSS)
    if suspects.by != DICE and rows["validation_dice"].notna().any():
        measures.append(_DICE)
    return measures


def suspects_table(suspects: Suspects, steps: Sequence[str] = ()) -> RenderableType:
    """The first cases of the ranking, with notes and what to do next, for rich's console.

    Rarely seen cases are dim.
    """
    shown = suspects.shown
    records = shown.to_dict("records")
    title = f"Cases to look at: {_ordering(suspects)}"
    kinds = ["few" if suspects.is_few(row["times_seen"]) else "" for row in records]

    def times_seen(row: _Row) -> Cell:
        marks = {"†": ""} if suspects.is_few(row["times_seen"]) else {}
        return Cell(f"{row['times_seen']:,}", marks=marks)

    def picture(row: _Row) -> str:
        # The page and suspects.csv give the whole reason.
        return suspects.reasons.get(row["case"], "").split(":")[0]

    columns: list[Any] = [
        (Column("rank"), lambda row: str(row["rank"])),
        (Column("case", "name"), lambda row: row["case"]),
        *((Column(measure.head), measure.text) for measure in _measures(suspects, shown)),
    ]
    if suspects.log is not None:
        columns.append((Column("seen"), times_seen))
        columns.append((Column("in all"), lambda row: f"{row['times_seen_in_all']:,}"))
    if shown["trusted"].any():
        columns.append((Column("trusted", "text"), lambda row: "yes" if row["trusted"] else ""))
    if suspects.reasons:
        columns.append((Column("picture", "text"), picture))

    return printed(
        [
            Table.of(title, columns, records, row_kinds=kinds),
            *map(Note, suspects.notes),
            *(Prose(f"Next: {step}", kind="") for step in steps),
        ]
    )


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
    definitions = WORDS.definitions("definitions", suspects=suspects)
    return page(
        blocks,
        [
            Heading("Definitions", anchor="methods", short="Definitions"),
            Table.of_pairs("Definitions", definitions, kind="terms"),
        ],
        about=_about(suspects),
        table=_case_table(suspects),
        kind="nnunet-dro · cases to look at",
        title=f"Cases to look at, {dataset}",
        heading=f"Cases to look at in {dataset}",
        lede=f"{cases}, starting with those whose {_ordering(suspects)}.",
    )


def _pictures(suspects: Suspects) -> Iterator[Block]:
    """What the pictures and curves show, their legends, and the first cases."""
    pictures = suspects.pictures.values()
    has_predictions = any(picture.predicted is not None for picture in pictures)
    for sentence in WORDS.sentences(
        "about_pictures", suspects=suspects, has_predictions=has_predictions
    ):
        yield Prose(sentence)
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


def _ordering(suspects: Suspects) -> str:
    """The order of the ranking, with the epochs that count."""
    log = suspects.log
    about = []
    if log is not None and suspects.by != DICE:
        first = log.epochs[log.first_counted]
        last = log.epochs[-1]
        about.append(f"epoch {last}" if first == last else f"epochs {first} to {last}")
    if len(suspects.folds) > 1:
        about.append(f"{len(suspects.folds)} folds")

    extreme = _EXTREMES[suspects.by]
    return f"{extreme} ({', '.join(about)})" if about else extreme


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


def _planes(picture: CaseSlice) -> Iterator[tuple[Plane, str, Sequence[tuple[str, str]], str]]:
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


def _facts(row: _Row, suspects: Suspects) -> list[str]:
    """What is known about a case, in words."""
    measures = _measures(suspects, suspects.shown)
    facts = [
        measure.fact.format(measure.text(row))
        for measure in measures
        if not pd.isna(row[measure.name])
    ]

    if row["times_seen"] or suspects.by != DICE:
        mark = "†" if suspects.is_few(row["times_seen"]) else ""
        facts.append(f"seen {count(row['times_seen'], 'time')}{mark}")
    if row["trusted"]:
        facts.append("trusted")
    return facts


def _case_table(suspects: Suspects) -> SortableTable:
    """Every case with its rank, score and strata."""
    table = suspects.table
    columns = [SortableColumn("Case", "text", table["case"])]

    def add(title: str, kind: str, values: Any, *, filtered: bool = False) -> None:
        columns.append(SortableColumn(title, kind, values, filtered=filtered))

    if suspects.by != DICE:
        evidence = suspects.is_few(table["times_seen"]).map(
            {True: f"fewer than {FEW} visits", False: f"{FEW} visits or more"}
        )
        add("Evidence", "text", evidence, filtered=True)

    place_of_rank = len(columns)
    add("Rank", "count", table["rank"].astype(float))
    for measure in _measures(suspects, table):
        add(measure.title, measure.kind, measure.unit * table[measure.name])
    if suspects.log is not None:
        add("Seen", "count", table["times_seen"])
        add("Seen in all", "count", table["times_seen_in_all"])
    if table["trusted"].any():
        trusted = table["trusted"].map({True: "trusted", False: "not trusted"})
        add("Trusted", "text", trusted, filtered=True)
    for name, entries in suspects.strata.items():
        add(name, "text", table["case"].map(entries), filtered=True)

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
