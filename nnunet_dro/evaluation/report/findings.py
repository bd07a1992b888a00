"""The findings of an evaluation in sentences, the worst strata first."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.formatting import Record
from nnunet_dro.evaluation.report.statistic_columns import MOST_LISTED, values_of_few
from nnunet_dro.evaluation.scoring.metrics import Metric
from nnunet_dro.evaluation.statistics.columns import (
    STATISTICS,
    counted_units,
    enough_cases,
    n_units,
    whole,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import n_values, percentile_notes
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count
from nnunet_dro.pages.document import Note, Prose


def findings(evaluation: Evaluation) -> list[Note]:
    """The worst stratum of every attribute and label by the first metric, worst first.

    The statistic is the metric's tail (of Dice, the 5th percentile) where the worst stratum has
    enough cases for it, and else the mean. Labels without any value have no finding.
    """
    metric = fmt.metric_named(evaluation.metrics[0], evaluation.scores)
    reference = evaluation.options.reference_stratum

    strata = evaluation.strata[evaluation.strata["metric"] == metric.name]
    rows = {}
    for row in strata.to_dict("records"):
        rows[_stratum_key(row, row["stratum"])] = row

    worst_strata = evaluation.worst
    is_divided = worst_strata["attribute"] != ALL
    # All cases together are not the worst stratum of anything.
    if is_divided.any():
        worst_strata = worst_strata[is_divided]
    worst_strata = worst_strata[worst_strata["metric"] == metric.name]

    ranked = []
    groups = worst_strata.groupby(["attribute", "label"], sort=False, observed=True)
    for _, group in groups:
        by_statistic = {}
        for worst in group.to_dict("records"):
            by_statistic[str(worst["statistic"])] = worst

        worst = by_statistic[metric.tail]
        row = rows[_stratum_key(worst, worst["worst_stratum"])]
        if not enough_cases(metric.tail, n_units(row)):
            worst = by_statistic["mean"]
            row = rows[_stratum_key(worst, worst["worst_stratum"])]

        goodness = metric.goodness(float(worst["worst"]))
        finding = _finding(worst, row, metric, reference)
        ranked.append((goodness, finding))

    ranked.sort(key=itemgetter(0))
    return [finding for _, finding in ranked]


def _stratum_key(row: Record, stratum: Any) -> tuple[str, str, str]:
    """What tells a stratum and label from others."""
    return (
        str(row["attribute"]),
        str(row["label"]),
        str(stratum),
    )


def finding_of(
    attribute: str,
    title: str,
    text: str,
    value: str,
    caption: str,
    *,
    tone: str,
) -> Note:
    """A finding in strata of an attribute, which needs no name where there is only one stratum."""
    where = ""
    if attribute != ALL:
        where = fmt.attribute_title(attribute)

    return Note(
        text,
        "finding",
        title,
        where=where,
        value=value,
        caption=caption,
        tone=tone,
    )


def requirement_notes(about: Mapping[str, Any]) -> list[Note]:
    """The requirements of a run, and whether they are met."""
    notes = []
    for outcome in about.get("requirements", []):
        # Evaluations of earlier versions only say whether a requirement passed.
        verdict = outcome.get("verdict", "not met")
        if outcome["passed"]:
            verdict = "met"
        notes.append(Note(outcome["line"], "requirement", verdict))
    return notes


def requirement_count(about: Mapping[str, Any]) -> list[Prose]:
    """How many requirements are met, in a sentence; nothing without any."""
    words = [note.title for note in requirement_notes(about)]
    if not words:
        return []

    n = count(len(words), "requirement")
    if set(words) == {"met"}:
        return [Prose(f"All of {n} met." if len(words) > 1 else "1 requirement met.", kind="first")]

    n_open = words.count("cannot tell")
    n_unmet = len(words) - words.count("met") - n_open
    text = f"{n_unmet} of {n} not met"
    if n_open:
        text += f", and one cannot tell of {n_open}"
    return [Prose(f"{text}.", kind="first")]


def share_in_words(metric: Metric, statistic: str, value: float) -> str:
    """The mean or a percentile in words.

    An example is ``one case in twenty scores below 61.2 % Dice``.
    """
    written = fmt.quantity(value, metric)
    if statistic == "mean":
        return f"the mean {metric.title} is {written}"

    share = STATISTICS[statistic].share
    if statistic == "p5" and value <= 0:
        return f"{share} scores {written} {metric.title}, the lowest possible value"
    if statistic == "p75":
        return f"{share} has {metric.title} above {written}"
    return f"{share} scores below {written} {metric.title}"


def all_notes(notes: Sequence[str], strata: pd.DataFrame) -> list[str]:
    """The notes of the run, and those on percentiles that rest on too few cases.

    Strata whose values are listed need no such note: they show all that there is.
    """
    notes_on_percentiles = tuple(percentile_notes(strata))
    # A comparison prefixes the notes of its evaluations with the method.
    others = [note for note in notes if not note.endswith(notes_on_percentiles)]

    is_unlisted = (n_values(strata) > MOST_LISTED) | (strata.get("n_trainings", 0) > 0)
    return [*others, *percentile_notes(strata[is_unlisted])]


def comparison_notes(comparison: Comparison) -> list[str]:
    """As `all_notes`, and what one training of each method cannot tell."""
    notes = all_notes(comparison.notes, comparison.strata)
    if comparison.trainings is None:
        notes.append(
            "Each method is one training here, which cannot tell the method from its random seed: "
            "a second training of the same method would differ, too. "
            "Give several (NAME=FOLDER,FOLDER) to see by how much."
        )
    return notes


def _finding(worst: Record, row: Record, metric: Metric, reference: str | None) -> Note:
    """The worst stratum of an attribute and label.

    Args:
        worst: Its row of the table of worst strata, by one statistic.
        row: Its row of the table of strata.
        metric: The metric.
        reference: The stratum that it is compared with; None for the best one.
    """
    attribute = str(row["attribute"])
    statistic = str(worst["statistic"])
    label = fmt.at_start(str(row["label"]))
    stratum = fmt.stratum_title(attribute, str(worst["worst_stratum"]))
    is_alone = attribute == ALL or str(worst["worst_stratum"]) == str(worst["best_stratum"])

    sentences = [_value_sentence(worst, row, metric)]
    if not enough_cases(metric.tail, n_units(row)):
        share = STATISTICS[metric.tail].share.removeprefix("one ")
        sentences.append(f"The mean is given because so few cases cannot show the worst {share}.")
    if not is_alone:
        sentences.append(_gap_sentence(worst, attribute, metric, reference))

    if is_alone:
        title = f"{label}, {stratum}"
    elif float(worst["gap"]) < 0:
        # The reference, with which it is compared, is worse.
        title = f"{label} is worst of the others in {stratum}"
    else:
        title = f"{label} is worst in {stratum}"

    return finding_of(
        attribute,
        title,
        text=" ".join(sentences),
        value=fmt.quantity(float(worst["worst"]), metric),
        caption=f"{metric.title}, {STATISTICS[statistic].phrase}",
        tone="worse",
    )


def _value_sentence(worst: Record, row: Record, metric: Metric) -> str:
    """The value of the worst stratum, with the few values that it rests on or its interval."""
    statistic = str(worst["statistic"])
    words = share_in_words(metric, statistic, float(worst["worst"]))
    # Patients count once.
    if whole(row, "n_patients"):
        words = words.replace("case in", "patient in")
    text = words[0].upper() + words[1:]

    _, low, high = fmt.estimate(row, statistic)
    ends = fmt.bounds(low, high, metric)
    values = values_of_few(row)
    if values:
        listed = ", ".join(fmt.number(value, metric) for value in values)
        text += f" ({listed})"
    elif ends.startswith("["):
        text += f" (95 % interval {ends})"
    elif ends:
        text += f" (95 % bound {ends})"

    return f"{text}, among {counted_units(row)} with a value."


def _gap_sentence(worst: Record, attribute: str, metric: Metric, reference: str | None) -> str:
    """How far the worst stratum lies from the best one, or from the reference."""
    stratum = str(worst["best_stratum"])
    which = "reference" if stratum == reference else "best"
    title = fmt.stratum_title(attribute, stratum)
    value = fmt.quantity(float(worst["best"]), metric)
    gap = fmt.number(float(worst["gap"]), metric)
    unit = fmt.difference_unit(metric)
    text = f"The {which} stratum is {title} with {value}: a gap of {gap} {unit}"

    _, low, high = fmt.estimate(worst, "gap")
    interval = fmt.interval(low, high, metric, signed=True)
    if interval:
        text += (
            f" ({interval} for two strata chosen beforehand; "
            "the largest gap of several is biased upwards)"
        )
    return f"{text}."
