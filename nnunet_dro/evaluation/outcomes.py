"""Whether the statistics of strata, or the differences of methods, meet their requirements."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.failures import IN_WORDS, KINDS
from nnunet_dro.evaluation.metrics import METRICS
from nnunet_dro.evaluation.planning import cases_needed
from nnunet_dro.evaluation.requirements import COMPARISON_COUNTS, Requirement, refusal
from nnunet_dro.evaluation.statistics import COUNTS, PERCENTILES
from nnunet_dro.evaluation.strata import ALL
from nnunet_dro.naming import name_some

#: The statistics that are numbers of things; the others are fractions, p values or mm.
_NUMBERS = frozenset((*COUNTS, *COMPARISON_COUNTS))


@dataclass(frozen=True)
class Outcome:
    """The outcome of a requirement in one stratum, for one label.

    Attributes:
        requirement: The requirement.
        attribute: The attribute of the row of the strata frame.
        stratum: The stratum of that row.
        label: The label of that row.
        metric: The metric of that row.
        statistic: The statistic that had to meet the bound.
        value: The statistic; NaN if no case has a value.
        n: Number of cases in the stratum.
        n_undefined: Number of them without a value.
        passed: Whether the bound is met, and no more labels were missed or invented than the requirement allows.
        n_failed: The number of cases in which the label was missed, and of those in which it was invented, by kind.
        hidden: The kinds of failures that the statistic leaves out and the requirement does not allow.
        method: In a comparison, the method of that row.
    """

    requirement: Requirement
    attribute: str
    stratum: str
    label: str
    metric: str
    statistic: str
    value: float
    n: int
    n_undefined: int
    passed: bool
    n_failed: tuple[tuple[str, int], ...] = ()
    hidden: tuple[str, ...] = ()
    method: str = ""

    @property
    def line(self) -> str:
        """One sentence: ``pathology=spina_bifida label=cerebellum: p5 0.612 is not >= 0.70 (23 cases)``."""
        where = [f"method={_quoted(self.method)}"] if self.method else []
        where += [] if self.attribute == ALL else [f"{self.attribute}={_quoted(self.stratum)}"]
        where.append(f"label={_quoted(self.label)}")
        if self.requirement.metric or self.metric != "dice":
            where.append(f"metric={self.metric}")
        verb = "is" if self._holds else "is not"
        condition = f"{verb} {self.requirement.comparison} {self.requirement.bound}"
        cases = f"{self.n} case{'' if self.n == 1 else 's'}"
        undefined = f", {self.n_undefined} without a value" if self.n_undefined else ""
        found = f"{self._shown_statistic()} {self._shown_value()} {condition} ({cases}{undefined})"
        return f"{' '.join(where)}: {'; '.join((found, *self._failures()))}"

    @property
    def _holds(self) -> bool:
        return self.requirement.holds_for(self.value)

    def _shown_statistic(self) -> str:
        if self.requirement.confidence is None:
            return self.statistic
        end = "lower" if self.requirement.end == "low" else "upper"
        return f"{self.statistic}'s {end} {self.requirement.confidence:g} % bound"

    def _failures(self) -> Iterator[str]:
        """What missed and invented labels have to do with the outcome."""
        n_failed = dict(self.n_failed)
        if self.requirement.confidence is not None and self.statistic in PERCENTILES and self.value != self.value:
            yield f"there is a bound from {cases_needed(self.requirement)} cases on"
        for kind, most in self.requirement.allowed:
            verb = "is" if n_failed[kind] <= most else "is not"
            yield f"n_{kind} {n_failed[kind]} {verb} <= {most}"
        for kind in self.hidden:
            cases = f"{n_failed[kind]} case{'' if n_failed[kind] == 1 else 's'}"
            distance = ", or give them a distance with --empty diagonal" if self._in_mm else ""
            cure = f"allow that with n_{kind}<={n_failed[kind]}{distance}"
            yield f"it leaves out {cases} in which the label was {IN_WORDS[kind]} ({cure})"

    @property
    def _in_mm(self) -> bool:
        return self.metric in METRICS and METRICS[self.metric].unit == "mm"

    def _shown_value(self) -> str:
        if self.value != self.value:
            return "(undefined)"
        if self.statistic in _NUMBERS:
            return str(int(self.value))
        unit = " mm" if self._in_mm and not self.statistic.endswith("_p") else ""
        # More decimals where rounding would contradict the verdict: 0.6999 is not >= 0.70.
        shown = (f"{self.value:.{digits}f}" for digits in range(3, 18))
        agreeing = (text for text in shown if self.requirement.holds_for(float(text)) == self._holds)
        return next(agreeing, repr(self.value)) + unit


def _quoted(name: str) -> str:
    return f'"{name}"' if re.search(r"\s", name) else name


def check_requirements(strata: pd.DataFrame, requirements: Sequence[Requirement]) -> list[Outcome]:
    """Check the statistics of strata against requirements.

    Args:
        strata: The strata frame, or the table of a comparison: a row per attribute, stratum, label, metric (and
            method), a column per statistic.
        requirements: From `parse_requirement` or `read_requirements`.

    Returns:
        An outcome per requirement and row that it applies to, in the order of both. A statistic that is NaN does not
        pass, nor does one that leaves out cases whose label was missed or invented, unless the requirement allows it.

    Raises:
        ValueError: If a requirement names an attribute, stratum, label, metric or statistic that is not reported, or
            compares a fraction with a percentage; the message names what is reported.
    """
    outcomes: list[Outcome] = []
    for requirement in requirements:
        rows = rows_of(strata, requirement)
        outcomes += [_outcome(rows.iloc[position], requirement) for position in range(len(rows))]
    return outcomes


def _outcome(row: "pd.Series[Any]", requirement: Requirement) -> Outcome:
    value = float(row[requirement.column])
    n_failed = {kind: _count(row, f"n_{kind}") for kind in KINDS}
    allowed = dict(requirement.allowed)
    metric = METRICS.get(str(row["metric"]))
    hides = metric.undefined_if if metric and _count(row, "n_left_out") and requirement.statistic not in COUNTS else ()
    hidden = tuple(kind for kind in hides if n_failed[kind] and kind not in allowed)
    within = all(n_failed[kind] <= most for kind, most in allowed.items())
    return Outcome(
        requirement=requirement,
        attribute=str(row["attribute"]),
        stratum=str(row["stratum"]),
        label=str(row["label"]),
        metric=str(row["metric"]),
        statistic=requirement.statistic,
        value=value,
        n=int(row["n"]),
        n_undefined=int(row["n_undefined"]),
        passed=requirement.holds_for(value) and within and not hidden,
        n_failed=tuple(n_failed.items()),
        hidden=hidden,
        method=str(row.get("method", "")),
    )


def _count(row: "pd.Series[Any]", column: str) -> int:
    """A number of cases; 0 where it is not known."""
    value = float(row.get(column, 0))
    return 0 if value != value else int(value)


def rows_of(strata: pd.DataFrame, requirement: Requirement, *, planned: bool = False) -> pd.DataFrame:
    """The rows that a requirement applies to; at least one.

    Args:
        strata: The strata frame.
        requirement: The requirement.
        planned: Whether the statistic itself need not be there.

    Raises:
        ValueError: As `check_requirements`.
    """
    metrics = _names(strata, "metric")
    metric = requirement.metric or ("dice" if "dice" in metrics else metrics[0] if len(metrics) == 1 else None)
    if metric is None:
        raise refusal(f"name one of the metrics {name_some(metrics)}", requirement.text, "Add metric=NAME.")
    rows = _matching(strata, "metric", metric, requirement, "Compute it with --metrics, or choose from: {}.")
    if not planned and requirement.column not in rows.columns:
        cure = "It needs bootstrap intervals, so do not switch them off."
        if requirement.column.startswith("n_trainings") or requirement.column.endswith("est"):
            cure = "It needs several trainings of a method: DRO=seed0,seed1,seed2."
        raise refusal(f"be about a reported statistic, not {requirement.statistic!r}", requirement.text, cure)
    known = METRICS.get(metric)
    is_fraction = known is not None and known.unit == "fraction" and requirement.statistic not in _NUMBERS
    if is_fraction and abs(float(requirement.bound)) > 1:
        raise refusal(f"compare {metric} with a fraction", requirement.text, "Write 0.70 for 70 %.")
    attribute = requirement.attribute
    if attribute is not None:
        cure = f"Add --by {_quoted(attribute)}, or choose from: {{}}."
        rows = _matching(rows, "attribute", attribute, requirement, cure)
    if requirement.stratum is not None:
        rows = _matching(rows, "stratum", requirement.stratum, requirement, "Choose from: {}, or * for each of them.")
    if requirement.method is not None:
        rows = _matching(rows, "method", requirement.method, requirement, "Choose from: {}, or * for each of them.")
    if requirement.label is not None:
        rows = _matching(rows, "label", requirement.label, requirement, "Choose from: {}.")
    return rows


def _matching(rows: pd.DataFrame, column: str, name: str, requirement: Requirement, cure: str) -> pd.DataFrame:
    names = _names(rows, column)
    if name not in names:
        cure = cure.replace("{}", name_some(names, at_most=20))
        raise refusal(f"name a reported {column}, not {name!r}", requirement.text, cure)
    return rows[rows[column].astype(str) == name]


def _names(rows: pd.DataFrame, column: str) -> list[str]:
    return list(dict.fromkeys(rows[column].astype(str)))
