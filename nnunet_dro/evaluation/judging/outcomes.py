"""Whether the statistics of strata, or the differences of methods, meet their requirements."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nnunet_dro.evaluation.judging.bounds import parse_bound
from nnunet_dro.evaluation.judging.requirements import Requirement, refusal
from nnunet_dro.evaluation.judging.verdicts import (
    MET,
    NUMBERS,
    Verdict,
    is_share,
    unit_of,
    verdict_of,
)
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import whole
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count, name_some


@dataclass(frozen=True)
class Outcome:
    """The outcome of a requirement in one stratum, for one label."""

    requirement: Requirement
    attribute: str  # the attribute of the row of the strata frame
    stratum: str  # the stratum of that row
    label: str  # the label of that row
    metric: str  # the metric of that row
    statistic: str  # the statistic that had to meet the bound
    verdict: Verdict  # what that row says, and why
    n: int  # number of cases in the stratum
    n_undefined: int  # number of them without a value
    n_patients: int = 0  # number of patients; 0 where cases were taken for independent
    method: str = ""  # in a comparison, the method of that row
    in_pixels: bool = False  # whether distances are in pixels

    @property
    def passed(self) -> bool:
        """Whether the requirement is met."""
        return self.verdict.word == MET

    @property
    def value(self) -> float:
        """What was compared with the bound; NaN if there is none."""
        return self.verdict.value

    @property
    def record(self) -> dict[str, Any]:
        """The outcome as files have it: ``passed``, ``verdict`` and ``line``."""
        return {"passed": self.passed, "verdict": self.verdict.word, "line": self.line}

    @property
    def line(self) -> str:
        """One sentence: ``pathology=spina_bifida label=cerebellum.

        P5 0.612 is not >= 0.70 (23 cases)``.
        """
        where = [f"method={_quoted(self.method)}"] if self.method else []
        where += [] if self.attribute == ALL else [f"{self.attribute}={_quoted(self.stratum)}"]
        where.append(f"label={_quoted(self.label)}")
        if self.requirement.metric or self.metric != "dice":
            where.append(f"metric={self.metric}")
        asked = self.requirement
        statistic = self.statistic
        if asked.confidence is not None:
            statistic += (
                f"'s {'lower' if asked.end == 'low' else 'upper'} {asked.confidence:g} % bound"
            )
        cases = count(self.n, "case")
        cases = (
            f"{self.n - self.n_undefined} of {cases} with a value" if self.n_undefined else cases
        )
        cases += f", {count(self.n_patients, 'patient')}" if self.n_patients else ""
        holds = asked.holds_for(self.value)
        condition = f"{'is' if holds else 'is not'} {asked.comparison} {asked.bound}"
        found = f"{statistic} {self._shown_value(holds)} {condition} ({cases})"
        return f"{' '.join(where)}: {'; '.join((found, *self.verdict.reasons))}"

    def _shown_value(self, holds: bool) -> str:
        if self.value != self.value:
            return "(undefined)"
        if self.statistic in NUMBERS:
            return str(int(self.value))
        limit = self.requirement.bound
        unit = unit_of(self.metric, in_pixels=self.in_pixels)
        unit = limit.unit if unit == "fraction" or is_share(self.statistic) else f" {unit}"
        # More decimals where rounding would contradict the verdict: 0.6999 is not >= 0.70.
        scaled = self.value * limit.scale
        shown = (f"{scaled:.{digits}f}" for digits in range(1 if limit.scale > 1 else 3, 18))
        read = ((text, parse_bound(text + limit.unit)) for text in shown)
        agreeing = (
            text
            for text, bound in read
            if bound and self.requirement.holds_for(bound.value) == holds
        )
        return next(agreeing, repr(scaled)) + unit


def _quoted(name: str) -> str:
    return f'"{name}"' if re.search(r"\s", name) else name


def check_requirements(
    strata: pd.DataFrame, requirements: Sequence[Requirement], *, in_pixels: bool = False
) -> list[Outcome]:
    """Check the statistics of strata against requirements.

    Args:
        strata: The strata frame, or the table of a comparison: a row per attribute, stratum, label,
            metric (and method), a column per statistic.
        requirements: From `parse_requirement` or `read_requirements`.
        in_pixels: Whether distances are in pixels, because no voxel size is known.

    Returns:
        An outcome per requirement and row that it applies to, in the order of both; see
        `verdict_of`.

    Raises:
        ValueError: If a requirement names an attribute, stratum, label, metric or statistic that is
            not reported, or has a bound that cannot be meant for the metric; the message names what
            is reported.
    """
    return [
        Outcome(
            requirement=requirement,
            **{name: str(row[name]) for name in ("attribute", "stratum", "label", "metric")},
            statistic=requirement.statistic,
            verdict=verdict_of(row, requirement, in_pixels=in_pixels),
            n=int(row["n"]),
            n_undefined=int(row["n_undefined"]),
            n_patients=whole(row, "n_patients"),
            method=str(row.get("method", "")),
            in_pixels=in_pixels,
        )
        for requirement in requirements
        for _, row in rows_of(strata, requirement).iterrows()
    ]


def without_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """A table as it is where no intervals were asked for, so that requirements on them are refused."""
    return table.drop(
        columns=[c for c in table.columns if c.endswith(("_low", "_high", "_guaranteed"))]
    )


def rows_of(
    strata: pd.DataFrame, requirement: Requirement, *, planned: bool = False
) -> pd.DataFrame:
    """The rows that a requirement applies to; at least one."""
    metric = metric_meant(requirement, list(dict.fromkeys(strata["metric"].astype(str))))
    rows = strata[strata["metric"].astype(str) == metric]
    if not planned and requirement.column not in rows.columns:
        cure = "It needs bootstrap intervals, so do not switch them off."
        if requirement.column.startswith("n_trainings") or requirement.column.endswith("est"):
            cure = "It needs several trainings of a method: DRO=seed0,seed1,seed2."
        if requirement.column == "n_patients":
            cure = "Name the column of the patients: --patient COLUMN."
        raise refusal(
            f"be about a reported statistic, not {requirement.statistic!r}", requirement.text, cure
        )
    if requirement.attribute is None:
        # Only a requirement that names an attribute is about strata without any case.
        rows = rows[rows["n"] > 0]
    for column, cure in (
        ("attribute", f"Add --by {_quoted(requirement.attribute or '')}, or choose from: {{}}."),
        ("stratum", "Choose from: {}, or * for each of them."),
        ("method", "Choose from: {}, or * for each of them."),
        ("label", "Choose from: {}."),
    ):
        if (name := getattr(requirement, column)) is not None:
            names = rows[column].astype(str)
            _check_name(name, list(dict.fromkeys(names)), column, requirement, cure)
            rows = rows[names == name]
    return rows


def metric_meant(requirement: Requirement, metrics: Sequence[str]) -> str:
    """The metric that a requirement is about: the one that it names, Dice, or the only one."""
    metric = requirement.metric or (
        "dice" if "dice" in metrics else metrics[0] if len(metrics) == 1 else None
    )
    if metric is None:
        raise refusal(
            f"name one of the metrics {name_some(metrics)}", requirement.text, "Add metric=NAME."
        )
    _check_name(
        metric, metrics, "metric", requirement, "Compute it with --metrics, or choose from: {}."
    )
    statistic = requirement.statistic
    if statistic in NUMBERS or (metric not in METRICS and not is_share(statistic)):
        return metric
    name, unit = (statistic, "fraction") if is_share(statistic) else (metric, METRICS[metric].unit)
    is_difference = "_difference" in statistic
    is_bounded = is_share(statistic) or METRICS[metric].is_bounded
    doubt = requirement.bound.doubt(
        name, unit, is_difference=is_difference, end=requirement.end, is_bounded=is_bounded
    )
    if doubt:
        raise refusal(doubt[0], requirement.text, doubt[1])
    return metric


def _check_name(
    name: str, names: Sequence[str], kind: str, requirement: Requirement, cure: str
) -> None:
    if name not in names:
        cure = cure.replace("{}", name_some(list(names), at_most=20))
        raise refusal(f"name a reported {kind}, not {name!r}", requirement.text, cure)
