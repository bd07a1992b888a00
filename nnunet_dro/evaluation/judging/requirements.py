"""Requirements, such as: the p5 of the Dice of every pathology is at least 0.70.

Those on strata are about the columns of their table. Those on a comparison are about the columns of
its table, such as: the mean difference is surely at least 0.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from nnunet_dro.bad_input import InputError, bad_input
from nnunet_dro.evaluation.judging.bounds import Bound, parse_bound
from nnunet_dro.evaluation.judging.requirement_parts import (
    EXAMPLE,
    Numbers,
    cut,
    refusal,
    sort_conditions,
)
from nnunet_dro.evaluation.judging.subjects import (
    COMPARISON,
    STRATA,
    Subject,
    bound_of_difference,
    column_of,
)
from nnunet_dro.evaluation.scoring.failures import meets
from nnunet_dro.evaluation.statistics.columns import PERCENTILES, confidence_column

#: Up to a comment: a # at the start or after a space, outside quotes.
_BEFORE_COMMENT = re.compile(r"""(?:[^"'#]|"[^"]*"|'[^']*'|(?<=\S)\#)*""")

_PERCENT = re.compile(r"\d+\.?\d*", re.ASCII)

#: The identifier of a requirement in the user's own documents: ``REQ-12: label=tumour p5>=0.70``.
_IDENTIFIER = re.compile(r"\s*([\w./-]+):\s")

#: What a difference has to be asked for with: each end of its interval holds in so many per cent.
CONFIDENCE_OF_DIFFERENCES = 97.5
#: The same of differences whose ends are made of two bounds of percentiles, or of four. Each of
#: these is wrong in at most 2.5 per cent of samples, which need not be the same samples (Boole).
CONFIDENCE_OF_MADE_DIFFERENCES = {**dict.fromkeys(PERCENTILES, 95.0), "iqr": 90.0}


@dataclass(frozen=True)
class Requirement:
    """A bound that a statistic has to meet."""

    text: str  # as written
    statistic: str  # a column of the strata frame: ``p5``, ``p5_low``, ``mean_high``, ``n``
    comparison: str  # ``>=``, ``>``, ``<=`` or ``<``
    #: A fraction, mm or number of cases, perhaps with a unit: ``0.70``, ``70%``, ``-0.5pt``.
    bound: Bound
    #: Such as ``pathology`` or ``centre,pathology``. None stands for every attribute.
    attribute: str | None = None
    stratum: str | None = None  # a stratum of that attribute; None for each of them (``*``)
    label: str | None = None  # a label; None for each of them (``*``)
    metric: str | None = None  # a metric; None for Dice, or for the only metric
    #: The most missed and invented labels, by kind (``missed``, ``invented``), that the requirement
    #: names beside its condition. Of a kind that it does not name, none may be left out of the
    #: statistic.
    allowed: Numbers = ()
    #: The least numbers (of ``n``, the cases with a value, or of ``n_patients``) that it names
    #: beside its condition. That many are enough for any statistic.
    least: Numbers = ()
    #: The confidence in per cent with which a percentile, or a difference, has to meet the bound;
    #: None for that of the cases as it is.
    confidence: float | None = None
    #: In a comparison, the method that is compared with the baseline; None for each of them
    #: (``*``).
    method: str | None = None
    identifier: str = ""  # what the user calls it; empty without any
    #: What it is about: the strata of an evaluation, or the differences of a comparison.
    subject: Subject = field(default=STRATA, compare=False, repr=False)

    @property
    def end(self) -> str:
        """The end of an interval that has to meet the bound: ``low`` or ``high``."""
        return "low" if self.comparison.startswith(">") else "high"

    @property
    def column(self) -> str:
        """The column of the table that is compared."""
        if self.confidence is None:
            return column_of(self.statistic)
        if self.statistic.endswith("_difference"):
            return bound_of_difference(self.statistic, self.end)
        return confidence_column(self.statistic, self.end, self.confidence)

    def holds_for(self, value: float) -> bool:
        """Whether a value meets the bound; NaN does not."""
        return bool(meets(value, self.comparison, self.bound.value))


def parse_requirement(text: str, subject: Subject = STRATA) -> Requirement:
    """Read a requirement.

    Args:
        text: One condition on a statistic (``p5>=0.70``; >=, >, <= or <; of a percentile with
            confidence in per cent, ``p5>=0.70@95``) and, each at most once, ``label=NAME``,
            ``metric=NAME`` and ``ATTRIBUTE=STRATUM`` (the attribute ends at the first equals sign;
            ``*`` is every stratum, or every label), and beside the condition ``n_missed<=2`` or
            ``n_invented<=1`` (that many labels may be missed or invented), ``n>=8`` (that many
            cases with a value are needed, and enough), and ``n_patients>=8``. Bounds may have a
            unit: ``70%``, ``-0.5pt`` (percentage points), ``4mm``, ``5ml``. Quotes go around what
            holds spaces. An identifier may stand first, ``REQ-12: ``. Without a label every label
            has to pass; without an attribute every stratum of every attribute has to, and all cases
            together.
        subject: `STRATA`, or `COMPARISON` for the differences of methods; then also
            ``method=NAME``, and confidence is that of an end of the interval of a difference,
            ``mean_difference>=0@97.5``.

    Returns:
        The requirement. Only `outcomes.check_requirements` knows whether its stratum, label and
        metric are reported.

    Raises:
        ValueError: If it is written in another way, or the statistic is not in strata.csv.

    Example:
        >>> requirement = parse_requirement("pathology=spina_bifida label=cerebellum p5>=0.70")
        >>> requirement.stratum, requirement.statistic, requirement.holds_for(0.75)
        ('spina_bifida', 'p5', True)
    """
    identifier, content = _cut_identifier(text)
    conditions, names = cut(content, kinds=subject.names)
    condition, allowed, least = sort_conditions(conditions, text, counts=subject.counts)
    statistic = condition.statistic
    number, at, percent = condition.right.partition("@")

    subject.check(statistic, text)
    if allowed and subject is COMPARISON:
        raise refusal(
            "allow no missed or invented labels in a comparison",
            text,
            "Failures of one method count as the worst there.",
        )

    bound = _read_bound(number, statistic, text, subject)
    confidence = _read_confidence(percent, statistic, text, subject) if at else None
    return Requirement(
        text=text.strip(),
        statistic=statistic,
        comparison=condition.comparison,
        bound=bound,
        allowed=allowed,
        least=least,
        confidence=confidence,
        identifier=identifier,
        subject=subject,
        **names,
    )


def read_requirement(text: str) -> Requirement:
    """Read a requirement on strata or on differences: its statistic tells what it is about.

    Raises:
        ValueError: If it is neither; the error is that of what it looks like.
    """
    try:
        return parse_requirement(text, STRATA)
    except ValueError as error:
        try:
            return parse_requirement(text, COMPARISON)
        except ValueError as other:
            raise (other if "_difference" in text else error) from None


def _cut_identifier(text: str) -> tuple[str, str]:
    """The identifier of a requirement, empty without any, and what follows it."""
    match = _IDENTIFIER.match(text)
    if match is None:
        return "", text
    return match[1], text[match.end() :]


def _read_bound(number: str, statistic: str, text: str, subject: Subject) -> Bound:
    bound = parse_bound(number)
    if bound is None:
        raise refusal(
            f"compare with a number, not {number!r}",
            text,
            "Write 0.70, 70%, 4mm, 5ml, or points: -0.5pt.",
        )

    is_count = statistic in subject.counts
    is_p_value_not_in_per_cent = statistic.endswith("_p") and bound.unit != "%"
    if bound.unit and (is_count or is_p_value_not_in_per_cent):
        raise refusal(
            f"compare {statistic} with a plain number, not {number!r}",
            text,
            f"Write {bound.number}.",
        )
    return bound


def _read_confidence(percent: str, statistic: str, text: str, subject: Subject) -> float:
    is_number = _PERCENT.fullmatch(percent) is not None
    if "_difference" in statistic:
        subject.check(bound_of_difference(statistic, "low"), text)
        confidence = CONFIDENCE_OF_MADE_DIFFERENCES.get(
            statistic.removesuffix("_difference"), CONFIDENCE_OF_DIFFERENCES
        )
        if not is_number or float(percent) != confidence:
            raise refusal(
                f"have a confidence of {confidence:g} per cent in this difference, not {percent!r}",
                text,
                f"Each end of its interval holds with that: write @{confidence:g}.",
            )
        return confidence

    if statistic not in PERCENTILES:
        raise refusal(
            f"ask for confidence in a percentile, not in {statistic!r}",
            text,
            f"Only these have an exact bound: {', '.join(PERCENTILES)}.",
        )
    if not is_number or not 50 <= float(percent) < 100:
        raise refusal(
            f"have a confidence from 50 to below 100 per cent, not {percent!r}",
            text,
            "Write p5>=0.70@95.",
        )
    return float(percent)


def read_requirements(path: Path, subject: Subject | None = STRATA) -> list[Requirement]:
    """Read a file of requirements, on whatever each is about if no subject is given."""
    read = partial(parse_requirement, subject=subject) if subject else read_requirement
    requirements: list[Requirement] = []
    for number, text in requirement_lines(path):
        try:
            requirements.append(read(text))
        except ValueError as error:
            raise ValueError(f"Line {number} of {str(path)!r}: {error}") from error

    if not requirements:
        raise InputError(
            "requirements",
            must="hold at least one requirement",
            got=f"none in {str(path)!r}",
            cure=EXAMPLE,
        )
    return requirements


def requirement_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file of requirements with their numbers, without blank lines and comments."""
    if not path.is_file():
        raise FileNotFoundError(
            bad_input(
                "requirements",
                must="be a text file",
                got=f"{str(path)!r}, which does not exist",
                cure="Write one with a requirement per line.",
            )
        )

    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(
            "requirements",
            must="be a text file",
            got=repr(str(path)),
            cure="Save it as UTF-8.",
        ) from error

    for number, line in enumerate(lines, 1):
        before = _BEFORE_COMMENT.match(line)
        end = before.end() if before else 0
        # A line that stops at neither a comment nor its end has an open quote, which parsing
        # refuses.
        text = line
        if line[end:].startswith("#"):
            text = line[:end]
        if text.strip():
            yield number, text


def one_sided_of(requirements: Sequence[Requirement]) -> list[tuple[str, str, float]]:
    """The one-sided bounds that requirements are about, each once: statistic, end, confidence.

    The confidence is in per cent.
    """
    bounds = (
        (requirement.statistic, requirement.end, requirement.confidence)
        for requirement in requirements
        if requirement.confidence is not None
    )
    return list(dict.fromkeys(bounds))
