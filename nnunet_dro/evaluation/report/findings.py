"""The findings of an evaluation in sentences, the worst strata first."""

from collections.abc import Hashable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.comparing.comparison import Comparison
from nnunet_dro.evaluation.evaluation_result import Evaluation
from nnunet_dro.evaluation.report import formatting as fmt
from nnunet_dro.evaluation.report.strata_tables import MOST_LISTED, values_of_few
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
from nnunet_dro.pages.document import Note


def findings(evaluation: Evaluation) -> list[Note]:
    """The worst stratum of every attribute and label by the first metric's tail, or mean where cases are few."""
    metric = fmt.metric_named(evaluation.metrics[0], evaluation.scores)
    of_metric = evaluation.worst[evaluation.worst["metric"] == metric.name]
    rows = evaluation.strata[evaluation.strata["metric"] == metric.name].to_dict("records")
    of_stratum = {(str(r["attribute"]), str(r["stratum"]), str(r["label"])): r for r in rows}
    found: list[tuple[float, Note]] = []
    divided = (evaluation.worst["attribute"] != ALL).any()
    for (attribute, label), group in of_metric.groupby(
        ["attribute", "label"], sort=False, observed=True
    ):
        attribute = str(attribute)
        label = str(label)
        # All cases together are not the worst stratum of anything.
        if attribute == ALL and divided:
            continue
        by_statistic = {str(record["statistic"]): record for record in group.to_dict("records")}
        worst = by_statistic[metric.tail]
        if not enough_cases(
            metric.tail, n_units(of_stratum[attribute, str(worst["worst_stratum"]), label])
        ):
            worst = by_statistic["mean"]
        row = of_stratum[attribute, str(worst["worst_stratum"]), label]
        reference = evaluation.options.reference_stratum
        other = "reference" if str(worst["best_stratum"]) == reference else "best"
        found.append(
            (
                metric.goodness(float(worst["worst"])),
                _finding(metric, attribute, label, worst, row, other),
            )
        )
    return [finding for _, finding in sorted(found, key=itemgetter(0))]


def finding_of(
    attribute: str, title: str, text: str, value: str, caption: str, *, tone: str
) -> Note:
    """A finding in strata of an attribute, which needs no name where there is only one stratum."""
    where = "" if attribute == ALL else fmt.attribute_title(attribute)
    return Note(text, "finding", title, where=where, value=value, caption=caption, tone=tone)


def requirement_notes(about: Mapping[str, Any]) -> list[Note]:
    """The requirements of a run, and whether they are met."""
    # Evaluations of earlier versions only say whether one passed.
    return [
        Note(one["line"], "requirement", "met" if one["passed"] else one.get("verdict", "not met"))
        for one in about.get("requirements", [])
    ]


def share_in_words(metric: Metric, statistic: str, value: float) -> str:
    """The mean or a percentile in words, such as ``one case in twenty scores below 61.2 % Dice``."""
    written = fmt.quantity(value, metric)
    if statistic == "mean":
        return f"the mean {metric.title} is {written}"
    share = STATISTICS[statistic].share
    if statistic == "p5" and value <= 0:
        return f"{share} scores {written} {metric.title}, the lowest possible value"
    if statistic == "p75":
        return f"{share} has {metric.title} above {written}"
    return f"{share} scores below {written} {metric.title}"


def all_notes(given: Sequence[str], strata: pd.DataFrame) -> list[str]:
    """The notes of the run, and those on percentiles of too few cases, but for strata whose values are listed."""
    not_listed = (n_values(strata) > MOST_LISTED) | (strata.get("n_trainings", 0) > 0)
    own = percentile_notes(strata)
    # A comparison prefixes the notes of its evaluations with the method.
    others = [note for note in given if not any(note.endswith(one) for one in own)]
    return [*others, *percentile_notes(strata[not_listed])]


def comparison_notes(comparison: Comparison) -> list[str]:
    """As `all_notes`, and what one training of each method cannot tell."""
    notes = all_notes(comparison.notes, comparison.strata)
    if comparison.trainings is not None:
        return notes
    alone = "Each method is one training here, which cannot tell the method from its random seed: a second training of "
    return [
        *notes,
        f"{alone}the same method would differ, too. Give several (NAME=FOLDER,FOLDER) to see by how much.",
    ]


def _finding(
    metric: Metric,
    attribute: str,
    label: str,
    worst: "dict[Hashable, Any]",
    row: "dict[Hashable, Any]",
    other: str,
) -> Note:
    statistic = str(worst["statistic"])
    value = float(worst["worst"])
    best = float(worst["best"])
    names = [
        fmt.stratum_title(attribute, str(worst[f"{which}_stratum"])) for which in ("worst", "best")
    ]
    written = fmt.quantity(value, metric)
    _, low, high = fmt.estimate(row, statistic)
    words = share_in_words(metric, statistic, value)
    # Patients count once.
    words = words.replace("case in", "patient in") if whole(row, "n_patients") else words
    sentence = words[0].upper() + words[1:]
    if few := values_of_few(row):
        sentence += f" ({', '.join(fmt.number(one, metric) for one in few)})"
    elif ends := fmt.bounds(low, high, metric):
        sentence += f" (95 % {'interval' if ends.startswith('[') else 'bound'} {ends})"
    sentence += f", among {counted_units(row)} with a value."
    if not enough_cases(metric.tail, n_units(row)):
        rare = STATISTICS[metric.tail].share.removeprefix("one ")
        sentence += f" The mean is given because so few cases cannot show the worst {rare}."
    among = "of the others " * (
        float(worst["gap"]) < 0
    )  # The reference, which is the other one, is worse.
    alone = attribute == ALL or str(worst["worst_stratum"]) == str(worst["best_stratum"])
    if not alone:
        gap = f"{fmt.number(float(worst['gap']), metric)} {fmt.difference_unit(metric)}"
        sentence += (
            f" The {other} stratum is {names[1]} with {fmt.quantity(best, metric)}: a gap of {gap}"
        )
        _, low, high = fmt.estimate(worst, "gap")
        if between := fmt.interval(low, high, metric, signed=True):
            sentence += f" ({between} for two strata chosen beforehand; the largest gap of several is biased upwards)"
        sentence += "."
    title = (
        f"{fmt.at_start(label)}, {names[0]}"
        if alone
        else f"{fmt.at_start(label)} is worst {among}in {names[0]}"
    )
    caption = f"{metric.title}, {STATISTICS[statistic].phrase}"
    return finding_of(attribute, title, sentence, written, caption, tone="worse")
