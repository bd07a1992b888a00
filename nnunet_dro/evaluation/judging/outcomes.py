"""Whether the statistics of strata, or the differences of methods, meet their requirements."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.judging.estimands import estimand_of
from nnunet_dro.evaluation.judging.requirement_parts import refusal
from nnunet_dro.evaluation.judging.requirements import Requirement
from nnunet_dro.evaluation.judging.verdicts import (
    MET,
    NUMBERS,
    Verdict,
    is_share,
    shown_value,
    unit_of_metric,
    verdict_of,
)
from nnunet_dro.evaluation.judging.words import say
from nnunet_dro.evaluation.scoring.metrics import METRICS
from nnunet_dro.evaluation.statistics.columns import whole
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import name_some, spelt_like


@dataclass(frozen=True)
class Outcome:
    """The outcome of a requirement in one stratum, for one label."""

    requirement: Requirement
    attribute: str  # the attribute of the row of the strata frame
    stratum: str  # the stratum of that row
    label: str  # the label of that row
    metric: str  # the metric of that row
    verdict: Verdict  # what that row says, and why
    n: int  # number of cases in the stratum
    n_undefined: int  # number of them without a value
    n_patients: int = 0  # number of patients; 0 where cases were taken for independent
    method: str = ""  # in a comparison, the method of that row
    in_pixels: bool = False  # whether distances are in pixels
    identifier: str = ""  # of the requirement: the user's, or one by its position

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
        """The outcome as files have it, see `verdict_files`; an undefined value is None."""
        requirement = self.requirement
        value = None if math.isnan(self.value) else self.value
        over = "patients" if self.n_patients else "cases"
        return {
            "identifier": self.identifier,
            "requirement": requirement.text,
            "attribute": self.attribute,
            "stratum": self.stratum,
            "label": self.label,
            "metric": self.metric,
            "method": self.method,
            "estimand": estimand_of(requirement, self.metric, over=over),
            "value": value,
            "comparison": requirement.comparison,
            "bound": requirement.bound.value,
            "unit": self._unit(),
            "n": self.n - self.n_undefined,
            "n_patients": self.n_patients or None,
            "passed": self.passed,
            "verdict": self.verdict.word,
            "line": self.line,
        }

    def _unit(self) -> str:
        """The unit of value and bound; empty for numbers of things."""
        statistic = self.requirement.statistic
        if statistic in NUMBERS:
            return ""
        if is_share(statistic):
            return "fraction"
        return unit_of_metric(self.metric, in_pixels=self.in_pixels)

    @property
    def line(self) -> str:
        """One sentence, such as ``label=liver p5 0.612 is not >= 0.70 (23 cases)``.

        The stratum comes first, unless it is all cases; before it stands what the user calls the
        requirement.
        """
        shown = shown_value(self.value, self.requirement, self.metric, in_pixels=self.in_pixels)
        statement = say("statement", outcome=self, shown=shown)
        reasons = "; ".join((statement, *map(str, self.verdict.reasons)))
        name = f"{self.requirement.identifier}: " if self.requirement.identifier else ""
        return f"{name}{self._place()}: {reasons}"

    def _place(self) -> str:
        """The row, in the words of a requirement: ``pathology=tumour label='left kidney'``."""
        names = []
        if self.method:
            names.append(f"method={shlex.quote(self.method)}")
        if self.attribute != ALL:
            names.append(f"{shlex.quote(self.attribute)}={shlex.quote(self.stratum)}")
        names.append(f"label={shlex.quote(self.label)}")
        if self.requirement.metric or self.metric != "dice":
            names.append(f"metric={self.metric}")
        return " ".join(names)


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
    # Those on a comparison have numbers of their own.
    letter = "C" if "baseline" in strata else "R"

    outcomes = []
    for position, requirement in enumerate(requirements, 1):
        for _, row in rows_of(strata, requirement).iterrows():
            outcome = Outcome(
                requirement=requirement,
                attribute=str(row["attribute"]),
                stratum=str(row["stratum"]),
                label=str(row["label"]),
                metric=str(row["metric"]),
                verdict=verdict_of(row, requirement, in_pixels=in_pixels),
                n=int(row["n"]),
                n_undefined=int(row["n_undefined"]),
                n_patients=whole(row, "n_patients"),
                method=str(row.get("method", "")),
                in_pixels=in_pixels,
                identifier=requirement.identifier or f"{letter}{position}",
            )
            outcomes.append(outcome)
    return outcomes


def without_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """A table without the columns of its intervals, so that requirements on them are refused."""
    ends = ("_low", "_high", "_guaranteed")
    return table.drop(columns=[column for column in table.columns if column.endswith(ends)])


def rows_of(
    strata: pd.DataFrame, requirement: Requirement, *, planned: bool = False
) -> pd.DataFrame:
    """The rows that a requirement applies to; at least one."""
    metrics = strata["metric"].astype(str)
    metric = metric_meant(requirement, list(dict.fromkeys(metrics)))
    rows = strata[metrics == metric]
    if not planned and requirement.column not in rows.columns:
        raise refusal(
            f"be about a reported statistic, not {requirement.statistic!r}",
            requirement.text,
            _cure_of_missing(requirement.column),
        )

    if requirement.attribute is None:
        # Only a requirement that names an attribute is about strata without any case.
        rows = rows[rows["n"] > 0]

    attribute = shlex.quote(requirement.attribute or "")
    after_attributes = ""
    if rows["attribute"].astype(str).str.contains("=").any():
        after_attributes = (
            ". In a requirement, an attribute ends at the first equals sign: rename the column"
        )
    # What is said before and after the names that there are.
    cures = {
        "attribute": (f"Add --by {attribute}, or choose from", after_attributes),
        "stratum": ("Choose from", ", or * for each of them"),
        "method": ("Choose from", ", or * for each of them"),
        "label": ("Choose from", ""),
    }

    for column, cure in cures.items():
        name = getattr(requirement, column)
        if name is not None:
            names = rows[column].astype(str)
            (spelt,) = spelt_like({name: None}, names.unique())
            _check_name(spelt, names.unique().tolist(), column, requirement, cure)
            rows = rows[names == spelt]

    return rows


def _cure_of_missing(column: str) -> str:
    """What to do so that a column of the statistics is reported."""
    if column == "n_patients":
        return "Name the column of the patients: --patient COLUMN."
    # The lowest and the highest difference of two trainings.
    if column.startswith("n_trainings") or column.endswith(("_lowest", "_highest")):
        return "It needs several trainings of a method: DRO=seed0,seed1,seed2."
    return "It needs bootstrap intervals, so do not switch them off."


def metric_meant(requirement: Requirement, metrics: Sequence[str]) -> str:
    """The metric that a requirement is about: the one that it names, Dice, or the only one."""
    metric = requirement.metric or _default_metric(metrics)
    if metric is None:
        raise refusal(
            f"name one of the metrics {name_some(metrics)}",
            requirement.text,
            "Add metric=NAME.",
        )

    cure = ("Compute it with --metrics, or choose from", "")
    _check_name(metric, metrics, "metric", requirement, cure)
    _check_bound(metric, requirement)
    return metric


def _default_metric(metrics: Sequence[str]) -> str | None:
    if "dice" in metrics:
        return "dice"
    if len(metrics) == 1:
        return metrics[0]
    return None


def _check_bound(metric: str, requirement: Requirement) -> None:
    """Check that the bound can be meant for the metric, where the limits of that are known."""
    statistic = requirement.statistic
    if statistic in NUMBERS:
        return
    if is_share(statistic):
        name = statistic
        unit = "fraction"
        is_bounded = True
    elif metric in METRICS:
        name = metric
        unit = METRICS[metric].unit
        is_bounded = METRICS[metric].is_bounded
    else:
        return

    requirement.bound.check(
        (name, unit),
        partial(InputError, "requirement", got=repr(requirement.text)),
        is_difference="_difference" in statistic,
        end=requirement.end,
        is_bounded=is_bounded,
    )


def _check_name(
    name: str, names: Sequence[str], kind: str, requirement: Requirement, cure: tuple[str, str]
) -> None:
    if name not in names:
        before, after = cure
        raise refusal(
            f"name a reported {kind}, not {name!r}",
            requirement.text,
            f"{before}: {name_some(names, at_most=20)}{after}.",
        )
