"""The files of the suspects.

Suspects.csv, and one self-contained page with the pictures and curves of the cases.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from nnunet_dro.files.case_log import WEIGHTS, EpochLog
from nnunet_dro.naming import count, written
from nnunet_dro.pages.document import Block, Figure, Heading, Note, Prose, Table
from nnunet_dro.pages.html import SortableColumn, SortableTable, gallery, page
from nnunet_dro.pages.pictures import Picture, Plane
from nnunet_dro.pages.svg import N_COLOURS, at, axes, curve, figure, legend_line, scales
from nnunet_dro.suspects.images import Slice
from nnunet_dro.suspects.ranking import FEW
from nnunet_dro.suspects.search import DICE, LOSS, WEIGHT, Suspects
from nnunet_dro.suspects.terminal import is_few, ordering, score_text, score_title

FloatArray = npt.NDArray[np.float64]

_HEIGHT = 176.0  # Height of the curves of a case.
_MOST_POINTS = 120  # Most points of a curve; with more epochs, a point stands for several.
# Colour and dashes of the curve of a case, and of the median.
CASE = ("s1", "")
MEDIAN = ("s6", "5 3")


def curves_of(log: EpochLog, cases: Sequence[str]) -> dict[str, Markup]:
    """A figure for each of some cases.

    All have the same axes, whose range follows from these cases.
    """
    n_epochs = len(log.epochs)
    bins = np.arange(n_epochs) * min(n_epochs, _MOST_POINTS) // n_epochs
    middle = pd.Series(log.epochs).groupby(bins).mean().to_numpy()
    once = 1 + 0 * log.times_seen
    median = _binned(log.values.median(axis=1), once.iloc[:, 0], bins)
    # Weights are means over visits, stale losses are not.
    visits = log.times_seen if log.kind == WEIGHTS else once
    curves = {case: _binned(log.values[case], visits[case], bins) for case in cases}
    # The first epochs, in which the network knows nothing yet, may leave the axis: they would
    # flatten the rest.
    counted = middle >= log.epochs[log.first_counted]
    drawn = np.concatenate([values[counted] for values in (median, *curves.values())])
    finite = drawn[np.isfinite(drawn)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    low = min(low, 0.0) if log.kind == WEIGHTS or low > 0 else low
    margin = 0.05 * (high - low) or 0.5
    first = float(log.epochs[0])
    last = float(log.epochs[-1])
    alone = first == last
    y_limits = (low - (margin if low < 0 else 0), high + margin)
    x, y = scales((first - alone, last + alone), y_limits, height=_HEIGHT)

    def drawn_curve(values: FloatArray, looks: tuple[str, str]) -> Markup:
        # Epochs without a value are bridged. A single point becomes a short line, or it would be
        # invisible.
        known = np.flatnonzero(np.isfinite(values))
        places = [(x(middle[i]), y(float(np.clip(values[i], y.low, y.high)))) for i in known]
        if len(places) == 1:
            ((px, py),) = places
            places = [(px - 3, py), (px + 3, py)]
        return curve(places, *looks)

    parts = []
    if log.first_counted:
        form = Markup('<rect class="uncounted" x="{}" y="{}" width="{}" height="{}"/>')
        width = x(float(log.epochs[log.first_counted])) - x.start
        parts.append(form.format(at(x.start), at(y.end), at(width), at(y.start - y.end)))
    what = "mean weight of the epoch" if log.kind == WEIGHTS else "stale loss"
    whole = [tick for tick in x.ticks(8) if tick == int(tick) and first <= tick <= last]
    parts += [*axes(x, y, "epoch", what, x_ticks=whole), drawn_curve(median, MEDIAN)]
    figures = {}
    for case, values in curves.items():
        label = f"{what} of {case} over the epochs, and the median of all cases"
        figures[case] = figure([*parts, drawn_curve(values, CASE)], label=label, height=_HEIGHT)
    return figures


def _binned(
    values: "pd.Series[float]", counts: "pd.Series[int]", bins: npt.NDArray[np.intp]
) -> FloatArray:
    """The mean of each bin, in which a value counts as often as ``counts`` says.

    NaN without any.
    """
    counted = counts.where(values.notna(), 0)
    n = counted.groupby(bins).sum()
    return np.asarray((values * counted).groupby(bins).sum() / n.where(n > 0), dtype=np.float64)


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
    to_do: list[Block] = [
        Heading("What to do next", anchor="next", short="To do next"),
        Prose(steps, kind="steps"),
    ]
    return page(
        [
            *map(Note, suspects.notes),
            Heading(f"The first {len(suspects.shown)}", anchor="pictures", short="Pictures"),
            *_pictures(suspects),
            *(to_do if steps else []),
        ],
        _methods(suspects),
        about=_about(suspects),
        table=_case_table(suspects),
        kind="nnunet-dro · cases to look at",
        title=f"Cases to look at, {dataset}",
        heading=f"Cases to look at in {dataset}",
        lede=f"{count(len(suspects.table), 'case')}, starting with those whose {ordering(suspects)}.",
    )


def _pictures(suspects: Suspects) -> Iterator[Block]:
    """What the pictures and curves show, their legends, and the first cases."""
    curve = (
        "mean weight of each epoch"
        if suspects.by == WEIGHT
        else "stale loss at the end of each epoch"
    )
    on_curves = (
        "The shaded first third of the epochs does not count. All curves have the same axes; values beyond them are "
        "drawn at the edge."
    )
    if len(suspects.folds) > 1:
        on_curves += " A curve is the mean over the folds that trained on the case."
    has_curves = suspects.log is not None
    if suspects.pictures:
        about = "The slice that shows most of the reference, with its outlines"
        if any(one.predicted is not None for one in suspects.pictures.values()):
            about += ", with those of the prediction by the network that was trained without the case (dashed),"
        yield Prose(
            f"{about} and without{f', and the {curve}. {on_curves}' if has_curves else '.'}"
        )
    elif has_curves:
        yield Prose(f"The {curve}. {on_curves}")
    if has_curves:
        yield Figure(
            legend=[
                ([legend_line(*CASE)], "the case"),
                ([legend_line(*MEDIAN)], "median of all cases"),
            ]
        )
    names = suspects.labels.values if suspects.labels and suspects.pictures else ()
    yield gallery(
        _entries(suspects),
        [(f"label s{n % N_COLOURS}", one) for n, one in enumerate(names)],
        kind="slices",
    )


def _methods(suspects: Suspects) -> list[Block]:
    by = suspects.by
    has_curves = suspects.log is not None
    terms = {}
    if by == WEIGHT:
        terms["Mean weight"] = (
            "over the iterations that used the case, in the epochs that count. Weights are relative: plain training "
            "gives every case 1. The lowest comes first."
        )
    elif by == LOSS:
        terms["Stale loss"] = "the loss of the case when it was last seen, on an augmented patch."
        terms["Mean rank"] = (
            "over the epochs that count, the share of the other cases with a smaller stale loss at the end of the "
            "epoch; equal losses count half. The highest comes first. A single hard epoch does not keep a case at "
            "the top: in each epoch the hardest case has 100 %, however large its loss."
        )
    terms["Validation Dice"] = (
        "of the network that was trained without the case, averaged over the labels that have one, from nnU-Net's "
        "validation/summary.json."
    )
    if has_curves:
        terms["Epochs that count"] = (
            "all but the first third, in which the network still knows little."
        )
    if len(suspects.folds) > 1 and by != DICE:
        terms["Several folds"] = (
            "are ranked one by one, because the losses of one network may lie above those of another. Rank, gap and "
            "loss are means over the folds that trained on the case; visits are added."
        )
    score = "validation Dice" if by == DICE else f"mean {by}"
    terms["Gap"] = (
        f"from the median of all cases to the {score}, in standard deviations (1.4826 times the median absolute "
        "deviation)."
    )
    if has_curves:
        few = f" † Fewer than {FEW} visits: the rank says little." if by != DICE else ""
        terms["Seen"] = f"number of visits in the epochs that count.{few}"
    terms["Trusted"] = "the case has yes in the column trusted of the dataset's case table."
    heading = Heading("Definitions", anchor="methods", short="Definitions")
    return [heading, Table.of_pairs("Definitions", terms.items(), kind="terms")]


def _about(suspects: Suspects) -> dict[str, str]:
    log = suspects.log
    folds = suspects.folds
    return {
        **folds[0].about,
        "Folds" if len(folds) > 1 else "Fold": ", ".join(fold.number for fold in folds),
        "Log": f"{log.kind.file}, {count(len(log.epochs), 'epoch')}" if log else "none",
    }


def _entries(suspects: Suspects) -> list[Picture]:
    shown = suspects.shown
    log = suspects.log
    drawn = [case for case in shown["case"] if log and case in log.values]
    charts = curves_of(log, drawn) if log else {}
    entries = []
    for row in shown.to_dict("records"):
        case = str(row["case"])
        strata = "; ".join(f"{name}: {of_case[case]}" for name, of_case in suspects.strata.items())
        entries.append(
            Picture(
                case,
                f": {', '.join(_facts(row, suspects))}",
                [strata, suspects.reasons.get(case, "")],
                list(_planes(suspects.pictures[case])) if case in suspects.pictures else [],
                rank=f"{row['rank']}. ",
                chart=charts.get(case, Markup("")),
            )
        )
    return entries


def _planes(shown: Slice) -> Iterator[tuple[Plane, str, Sequence[tuple[str, str]], str]]:
    """The slice with the outlines of the reference, with those of the prediction if there is one, and without any."""
    plane = shown.plane
    name = f"{plane.name}{', the reference is empty' * shown.is_empty}"
    yield plane, name, plane.outlines, name
    if shown.predicted is not None:
        yield (
            plane,
            "prediction",
            [(f"{kind} dashed", path) for kind, path in shown.predicted],
            "prediction",
        )
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
    if suspects.by != DICE and not pd.isna(row["validation_dice"]):
        facts.append(f"validation Dice {written(row['validation_dice'], '.3f')}")
    if row["times_seen"] or suspects.by != DICE:
        few = suspects.by != DICE and is_few(row)
        facts.append(f"seen {count(row['times_seen'], 'time')}{'†' if few else ''}")
    return [*facts, "trusted"] if row["trusted"] else facts


def _case_table(suspects: Suspects) -> SortableTable:
    table = suspects.table
    by = suspects.by
    scores = 100 * table["score"] if by == LOSS else table["score"]
    columns = [SortableColumn("Case", "text", table["case"])]
    if by != DICE:
        evidence = np.where(
            table["times_seen"] < FEW, f"fewer than {FEW} visits", f"{FEW} visits or more"
        ).tolist()
        columns.append(SortableColumn("Evidence", "text", evidence, filtered=True))
    columns += [
        SortableColumn("Rank", "count", table["rank"].astype(float)),
        SortableColumn(
            score_title(suspects).replace("mean", "Mean"),
            "number" if by == LOSS else "decimal",
            scores,
        ),
        SortableColumn("Gap (SD)", "difference", table["gap"]),
    ]
    if table["loss"].notna().any():
        columns.append(SortableColumn("Mean loss", "decimal", table["loss"]))
    if by != DICE and table["validation_dice"].notna().any():
        columns.append(SortableColumn("Validation Dice", "decimal", table["validation_dice"]))
    if suspects.log is not None:
        columns.append(SortableColumn("Seen", "count", table["times_seen"]))
        columns.append(SortableColumn("Seen in all", "count", table["times_seen_in_all"]))
    if table["trusted"].any():
        trusted = ["trusted" if is_trusted else "not trusted" for is_trusted in table["trusted"]]
        columns.append(SortableColumn("Trusted", "text", trusted, filtered=True))
    for name, of_case in suspects.strata.items():
        columns.append(
            SortableColumn(name, "text", [of_case[case] for case in table["case"]], filtered=True)
        )
    rank = [column.title for column in columns].index("Rank")
    about = f"All cases of the {'folds' if len(suspects.folds) > 1 else 'fold'}."
    names = ("Every case", "suspects.csv")
    pictures = {case: f"picture-{n}" for n, case in enumerate(suspects.shown["case"])}
    return SortableTable(
        tuple(columns), table["case"].tolist(), rank, False, about, "", *names, pictures
    )
