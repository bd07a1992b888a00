"""Requirements on the statistics of strata, such as: the p5 of the Dice of every pathology is at least 0.70."""

import operator
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nnunet_dro.evaluation.metrics import METRICS
from nnunet_dro.evaluation.statistics import INTERVALS, STATISTICS
from nnunet_dro.evaluation.strata import ALL
from nnunet_dro.naming import name_some

_COUNTS = ("n", "n_undefined")

_KNOWN_STATISTICS = (*_COUNTS, *STATISTICS, *INTERVALS)

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}

_CONDITION = re.compile(r"(\w+)(>=|<=|>|<)(.*)", re.DOTALL)

#: Up to a comment: a # at the start or after a space, outside quotes.
_BEFORE_COMMENT = re.compile(r"""(?:[^"'#]|"[^"]*"|'[^']*'|(?<=\S)\#)*""")

_EXAMPLE = 'Write, for example, pathology="spina bifida" label=cerebellum p5>=0.70.'


@dataclass(frozen=True)
class Requirement:
    """A bound that a statistic has to meet.

    Attributes:
        text: As written.
        statistic: A column of the strata frame: ``p5``, ``p5_low``, ``mean_high``, ``n`` ...
        comparison: ``>=``, ``>``, ``<=`` or ``<``.
        bound: A fraction, mm or number of cases, as written.
        attribute: Such as ``pathology`` or ``centre,pathology``. None stands for ``all`` if that is reported, and
            otherwise for every attribute.
        stratum: A stratum of that attribute; None for each of them (``*``).
        label: A label; None for each of them (``*``).
        metric: A metric; None for Dice, or for the only metric.
    """

    text: str
    statistic: str
    comparison: str
    bound: str
    attribute: str | None = None
    stratum: str | None = None
    label: str | None = None
    metric: str | None = None

    def holds_for(self, value: float) -> bool:
        """Whether a value meets the bound; NaN does not."""
        return bool(_COMPARE[self.comparison](value, float(self.bound)))


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
        passed: Whether the bound is met.
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

    @property
    def line(self) -> str:
        """One sentence: ``pathology=spina_bifida label=cerebellum: p5 0.612 is not >= 0.70 (23 cases)``."""
        where = [] if self.attribute == ALL else [f"{self.attribute}={_quoted(self.stratum)}"]
        where.append(f"label={_quoted(self.label)}")
        if self.requirement.metric or self.metric != "dice":
            where.append(f"metric={self.metric}")
        verb = "is" if self.passed else "is not"
        condition = f"{verb} {self.requirement.comparison} {self.requirement.bound}"
        cases = f"{self.n} case{'' if self.n == 1 else 's'}"
        undefined = f", {self.n_undefined} without a value" if self.n_undefined else ""
        return f"{' '.join(where)}: {self.statistic} {self._shown_value()} {condition} ({cases}{undefined})"

    def _shown_value(self) -> str:
        if self.value != self.value:
            return "(undefined)"
        if self.statistic in _COUNTS:
            return str(int(self.value))
        metric = METRICS.get(self.metric)
        unit = " mm" if metric is not None and metric.unit == "mm" else ""
        # More decimals where rounding would contradict the verdict: 0.6999 is not >= 0.70.
        shown = (f"{self.value:.{digits}f}" for digits in range(3, 18))
        agreeing = (text for text in shown if self.requirement.holds_for(float(text)) == self.passed)
        return next(agreeing, repr(self.value)) + unit


def _quoted(name: str) -> str:
    return f'"{name}"' if re.search(r"\s", name) else name


def parse_requirement(text: str) -> Requirement:
    """Read a requirement.

    Args:
        text: One condition on a statistic (``p5>=0.70``; >=, >, <= or <) and, each at most once, ``label=NAME``,
            ``metric=NAME`` and ``ATTRIBUTE=STRATUM`` (the attribute ends at the first equals sign; ``*`` is every
            stratum, or every label). Quotes go around what holds spaces. Without a label every label has to pass;
            without an attribute the stratum of all cases or, if it is not reported, every stratum has to.

    Returns:
        The requirement. Only `check_requirements` knows whether its stratum, label and metric are reported.

    Raises:
        ValueError: If it is written in another way, or the statistic is not in strata.csv.

    Example:
        >>> requirement = parse_requirement("pathology=spina_bifida label=cerebellum p5>=0.70")
        >>> requirement.stratum, requirement.statistic, requirement.holds_for(0.75)
        ('spina_bifida', 'p5', True)
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise _refusal("have a closing quote for every quote", text) from error
    conditions: list[re.Match[str]] = []
    selected: dict[str, tuple[str, str]] = {}
    for word in _joined(words):
        name, equals, value = word.partition("=")
        if condition := _CONDITION.fullmatch(word):
            conditions.append(condition)
        elif not equals or not name or not value:
            raise _refusal(f"consist of NAME=VALUE and a condition, not {word!r}", text)
        else:
            kind = name if name in ("label", "metric") else "attribute"
            if kind in selected:
                cure = "Write centre,pathology=A,tumour for an intersection, and one requirement for each of several."
                raise _refusal(f"name one {kind} at most", text, cure)
            selected[kind] = (name, value)
    if len(conditions) != 1:
        raise _refusal("have one condition on a statistic", text)
    statistic, comparison, bound = conditions[0].groups()
    if statistic not in _KNOWN_STATISTICS:
        cure = f"Choose from: {', '.join((*_COUNTS, *STATISTICS))}, or one of them with _low or _high."
        raise _refusal(f"be about a statistic of strata.csv, not {statistic!r}", text, cure)
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", bound, re.ASCII):
        raise _refusal(f"compare with a number, not {bound!r}", text, "Write fractions (0.70, not 70 %), or mm.")
    attribute, stratum = selected.get("attribute", (None, None))
    _, label = selected.get("label", (None, None))
    _, metric = selected.get("metric", (None, None))
    return Requirement(
        text=text.strip(),
        statistic=statistic,
        comparison=comparison,
        bound=bound,
        attribute=attribute,
        stratum=None if stratum == "*" else stratum,
        label=None if label == "*" else label,
        metric=metric,
    )


def _joined(words: list[str]) -> list[str]:
    """The words, with a condition such as ``p5 >= 0.70`` joined into one."""
    joined: list[str] = []
    for word in words:
        opened = joined and re.fullmatch(r"\w+(>=|<=|>|<)", joined[-1])
        continued = joined and re.fullmatch(r"\w+", joined[-1]) and re.match(r"[<>]", word)
        if opened or continued:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def _refusal(rule: str, text: str, cure: str = _EXAMPLE) -> ValueError:
    return ValueError(f"`requirement` must {rule}, got {text.strip()!r}. {cure}")


def read_requirements(path: Path) -> list[Requirement]:
    """Read a file of requirements.

    Args:
        path: A text file in UTF-8 with a requirement per line; blank lines and comments (from # to the end of the line)
            are ignored.

    Returns:
        The requirements, in the order of the file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file cannot be read, holds no requirement, or holds one that `parse_requirement` refuses; the
            message names the file and the line.
    """
    if not path.is_file():
        cure = "Write one with a requirement per line."
        raise FileNotFoundError(f"`requirements` must be a text file, got {str(path)!r}, which does not exist. {cure}")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"`requirements` must be a text file, got {str(path)!r}. Save it as UTF-8.") from error
    requirements: list[Requirement] = []
    for number, line in enumerate(lines, 1):
        before = _BEFORE_COMMENT.match(line)
        end = before.end() if before else 0
        # A line that stops at neither a comment nor its end has an open quote, which parsing refuses.
        text = line[:end] if line[end : end + 1] == "#" else line
        if text.strip():
            try:
                requirements.append(parse_requirement(text))
            except ValueError as error:
                raise ValueError(f"Line {number} of {str(path)!r}: {error}") from error
    if not requirements:
        raise ValueError(f"`requirements` must hold at least one requirement, got none in {str(path)!r}. {_EXAMPLE}")
    return requirements


def check_requirements(strata: pd.DataFrame, requirements: Sequence[Requirement]) -> list[Outcome]:
    """Check the statistics of strata against requirements.

    Args:
        strata: The strata frame: a row per attribute, stratum, label and metric, a column per statistic.
        requirements: From `parse_requirement` or `read_requirements`.

    Returns:
        An outcome per requirement and row that it applies to, in the order of both. A statistic that is NaN, because no
        case has a value, does not pass.

    Raises:
        ValueError: If a requirement names an attribute, stratum, label, metric or statistic that is not reported, or
            compares a fraction with a percentage; the message names what is reported.
    """
    outcomes: list[Outcome] = []
    for requirement in requirements:
        rows = _rows_of(strata, requirement)
        for position in range(len(rows)):
            row = rows.iloc[position]
            value = float(row[requirement.statistic])
            outcomes.append(
                Outcome(
                    requirement=requirement,
                    attribute=str(row["attribute"]),
                    stratum=str(row["stratum"]),
                    label=str(row["label"]),
                    metric=str(row["metric"]),
                    statistic=requirement.statistic,
                    value=value,
                    n=int(row["n"]),
                    n_undefined=int(row["n_undefined"]),
                    passed=requirement.holds_for(value),
                )
            )
    return outcomes


def _rows_of(strata: pd.DataFrame, requirement: Requirement) -> pd.DataFrame:
    """The rows that a requirement applies to; at least one."""
    metrics = _names(strata, "metric")
    metric = requirement.metric or ("dice" if "dice" in metrics else metrics[0] if len(metrics) == 1 else None)
    if metric is None:
        raise _refusal(f"name one of the metrics {name_some(metrics)}", requirement.text, "Add metric=NAME.")
    rows = _matching(strata, "metric", metric, requirement, "Compute it with --metrics, or choose from: {}.")
    if requirement.statistic not in rows.columns:
        cure = "It needs bootstrap intervals, so do not switch them off."
        raise _refusal(f"be about a reported statistic, not {requirement.statistic!r}", requirement.text, cure)
    known = METRICS.get(metric)
    is_fraction = known is not None and known.unit == "fraction" and requirement.statistic not in _COUNTS
    if is_fraction and abs(float(requirement.bound)) > 1:
        raise _refusal(f"compare {metric} with a fraction", requirement.text, "Write 0.70 for 70 %.")
    attribute = requirement.attribute or (ALL if ALL in _names(rows, "attribute") else None)
    if attribute is not None:
        cure = f"Add --by {_quoted(attribute)}, or choose from: {{}}."
        rows = _matching(rows, "attribute", attribute, requirement, cure)
    if requirement.stratum is not None:
        rows = _matching(rows, "stratum", requirement.stratum, requirement, "Choose from: {}, or * for each of them.")
    if requirement.label is not None:
        rows = _matching(rows, "label", requirement.label, requirement, "Choose from: {}.")
    return rows


def _matching(rows: pd.DataFrame, column: str, name: str, requirement: Requirement, cure: str) -> pd.DataFrame:
    names = _names(rows, column)
    if name not in names:
        cure = cure.replace("{}", name_some(names, at_most=20))
        raise _refusal(f"name a reported {column}, not {name!r}", requirement.text, cure)
    return rows[rows[column].astype(str) == name]


def _names(rows: pd.DataFrame, column: str) -> list[str]:
    return list(dict.fromkeys(rows[column].astype(str)))
