"""Verdicts that are known beforehand.

They are numbers here: 1 is met, 0 not met, and 0.5 that one cannot tell.
"""

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from nnunet_dro.evaluation.judging.outcomes import check_requirements
from nnunet_dro.evaluation.judging.requirements import one_sided_of, parse_requirement
from nnunet_dro.evaluation.judging.subjects import COMPARISON, STRATA, Subject
from nnunet_dro.evaluation.judging.verdicts import (
    BETTER,
    CANNOT_TELL,
    MET,
    NOT_MET,
    NOT_WORSE,
    WORSE,
    margin_verdicts,
)
from nnunet_dro.evaluation.statistics.stratum_statistics import summarise
from nnunet_dro.evaluation.stratifying.division import with_absent
from nnunet_dro.selfcheck.differences import made_comparison
from nnunet_dro.selfcheck.made_scores import made_scores
from nnunet_dro.selfcheck.number import Number
from nnunet_dro.selfcheck.statistics import HUNDREDTHS

_NUMBERS = {MET: 1.0, NOT_MET: 0.0, CANNOT_TELL: 0.5}

#: Requirements on 0, 0.01, ..., 1, whose exact bounds are known, see `statistics`.
_OF_HUNDREDTHS = {
    "median>=0.5": MET,
    "median>0.5": NOT_MET,
    "median<=0.5": MET,
    "median<0.5": NOT_MET,
    "p75>=75%": MET,
    "p75>=76%": NOT_MET,
    # The lower bound is 0.01, with 97.5 % it is 0.
    "p5>=0.01@95": MET,
    "p5>=0.02@95": NOT_MET,
    "p5_low>=0.01": NOT_MET,
    # The upper one of P75 is 0.83, with 97.5 % it is 0.84.
    "p75<=0.83@95": MET,
    "p75<=0.82@95": NOT_MET,
    "p75_high<=0.83": NOT_MET,
    # From 0.40540 and 0.44184.
    "mean_low_guaranteed>=0.405": MET,
    "mean_low_guaranteed>=0.406": NOT_MET,
    "mean_low_t>=0.441": MET,
    "mean_low_t>=0.442": NOT_MET,
    "n>=101": MET,
    "n>=102": NOT_MET,
    # 50 of 101 are below 0.5; up to 0.5810908 of all such cases may be.
    "n_failed<=50": MET,
    "n_failed<=49": NOT_MET,
    "failure_high<=58.2%": MET,
    "failure_high<=58.1%": NOT_MET,
}

#: Number of cases without a fault to requirements on them.
_OF_PERFECT = {
    58: {"p5>=0.7@95": CANNOT_TELL},
    59: {"p5>=0.7@95": MET},
    19: {"p5>=0.7": CANNOT_TELL, "p5>=0.7 n>=19": MET, "p5>=0.7 n>=20": NOT_MET},
    20: {"p5>=0.7": MET},
}

#: Requirements on distances of 4 mm, of which one was missed.
_OF_DISTANCES = {
    "metric=hd95 p75<=4mm": NOT_MET,
    "metric=hd95 p75<=4mm n_missed<=1": MET,
    "metric=hd95 p75<=3.9mm n_missed<=1": NOT_MET,
    "metric=hd95 mean_high_guaranteed<=5mm n_missed<=1": CANNOT_TELL,
}

#: Requirements on the made-up comparison, see `differences`.
_OF_DIFFERENCES = {
    "group=six metric=dice mean_difference_low_guaranteed>=-48.2pt": MET,
    "group=six metric=dice mean_difference_low_guaranteed>=-48.1pt": NOT_MET,
    "group=six metric=dice mean_difference_low_t>=1.5pt": MET,
    "group=six metric=dice mean_difference_low_t>=1.6pt": NOT_MET,
    "group=six metric=dice typical_difference_low>=1.1pt": NOT_MET,
    "group=six metric=dice typical_difference_low>=0.9pt": MET,
    "group=six metric=hd95 typical_difference_high<=-1mm": MET,
    "group=six metric=hd95 mean_difference<=-3.6mm": NOT_MET,
    "group=many metric=dice new_failures<=7": MET,
    "group=many metric=dice new_failures<=6": NOT_MET,
    "group=many metric=dice new_failures_high<=27.9%": MET,
    "group=many metric=dice new_failures_high<=27.8%": NOT_MET,
}

#: Bounds of a difference of Dice in points and of HD95 in mm, and the verdict on a margin of 1.
_OF_MARGIN = (
    ("dice", 0.001, 0.02, BETTER),
    ("dice", -0.009, 0.02, NOT_WORSE),
    ("dice", -0.011, 0.02, CANNOT_TELL),
    ("dice", -0.03, -0.02, WORSE),
    ("hd95", -2.0, -0.1, BETTER),
    ("hd95", -2.0, 0.9, NOT_WORSE),
    ("hd95", -2.0, 1.1, CANNOT_TELL),
    ("hd95", 0.1, 2.0, WORSE),
    ("hd95", math.nan, math.nan, CANNOT_TELL),
)

#: What a margin of 1 says of the six cases of the made-up comparison: bound, metric and verdict.
_OF_MARGIN_BOUNDS = (
    (None, "dice", CANNOT_TELL),
    ("t", "dice", BETTER),
    ("typical", "dice", BETTER),
    (None, "hd95", CANNOT_TELL),
    ("typical", "hd95", BETTER),
)


def verdicts() -> Iterator[Number]:
    """The verdicts on requirements and margins."""
    yield from _of_scores(made_scores(dice=HUNDREDTHS), _OF_HUNDREDTHS, "0, 0.01, ..., 1")
    for n, words in _OF_PERFECT.items():
        yield from _of_scores(made_scores(dice=[1.0] * n), words, f"{n} values of 1")

    distances = made_scores(hd95=[4.0] * 8 + [math.nan], n_prediction=[1.0] * 8 + [0.0])
    name = "8 distances of 4 mm and a missed label"
    yield from _of_scores(distances, _OF_DISTANCES, name)

    table = with_absent(summarise(made_scores(dice=[1.0] * 20)), {"all": {"all": 1}})
    name = "20 of 21 cases with a prediction"
    yield from _of_table(table, STRATA, {"mean>=0.5": CANNOT_TELL}, name)

    comparison = made_comparison().table
    yield from _of_table(comparison, COMPARISON, _OF_DIFFERENCES, "two methods")
    yield from _on_margins(comparison)


def _of_scores(scores: pd.DataFrame, words: Mapping[str, str], name: str) -> Iterator[Number]:
    """The verdicts on requirements on made-up scores."""
    metrics = [metric for metric in ("dice", "hd95") if metric in scores]
    one_sided = one_sided_of([parse_requirement(text) for text in words])
    table = summarise(scores, metrics=metrics, one_sided=one_sided)
    yield from _of_table(table, STRATA, words, name)


def _of_table(
    table: pd.DataFrame, subject: Subject, words: Mapping[str, str], name: str
) -> Iterator[Number]:
    """The verdicts on requirements on a table, each of which is about one of its rows."""
    requirements = [parse_requirement(text, subject) for text in words]
    outcomes = check_requirements(table, requirements)
    for (text, word), outcome in zip(words.items(), outcomes, strict=True):
        label = f"verdict on {text} of {name} (1 met, 0 not met, 0.5 cannot tell)"
        record = outcome.record
        computed = _NUMBERS[record["verdict"]]
        # Files say it twice.
        if record["passed"] != (record["verdict"] == MET):
            computed = math.nan
        yield Number("verdicts", label, _NUMBERS[word], computed)


def _on_margins(comparison: pd.DataFrame) -> Iterator[Number]:
    """Verdicts on a margin as numbers: better, not worse, worse, cannot tell."""
    words = [BETTER, NOT_WORSE, WORSE, CANNOT_TELL]
    ends = ["metric", "mean_difference_low_guaranteed", "mean_difference_high_guaranteed"]
    rows = [row[:3] for row in _OF_MARGIN]
    computed = margin_verdicts(pd.DataFrame(rows, columns=ends).assign(n_left_out=0), 1)

    for (metric, low, high, word), verdict in zip(_OF_MARGIN, computed, strict=True):
        name = f"verdict on a margin of 1, {metric} {low:g} to {high:g} (0 better, 1 not worse, "
        name += "2 worse, 3 cannot tell)"
        yield Number("verdicts", name, words.index(word), words.index(verdict))

    six = comparison[comparison["stratum"] == "six"]
    for bound, metric, word in _OF_MARGIN_BOUNDS:
        (verdict,) = margin_verdicts(six[six["metric"] == metric], 1, bound=bound)
        name = f"verdict on a margin of 1, {metric} of six cases, bound {bound or 'guaranteed'}"
        yield Number("verdicts", name, words.index(word), words.index(verdict))
