"""Requirements on the statistics of strata, such as.

The p5 of the Dice of every pathology is at least 0.70.

Those on a comparison are about the columns of its table, such as: the mean difference is surely at
least 0.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnunet_dro.evaluation.judging.bounds import Bound, parse_bound
from nnunet_dro.evaluation.scoring.failures import COMPARE, KINDS
from nnunet_dro.evaluation.statistics.columns import (
    COUNTS,
    INTERVALS,
    PERCENTILES,
    STATISTICS,
    confidence_column,
)

_CONDITION = re.compile(r"(\w+)(>=|<=|>|<)(.*)", re.DOTALL)

#: Up to a comment: a # at the start or after a space, outside quotes.
_BEFORE_COMMENT = re.compile(r"""(?:[^"'#]|"[^"]*"|'[^']*'|(?<=\S)\#)*""")

#: What has no bound, however many cases there are; see `intervals`.
_NEVER_BOUNDED = re.compile("(std|min|max)_(difference_)?(low|high)")

_PERCENT = re.compile(r"\d+\.?\d*", re.ASCII)

_BESIDE = "Write, for example, metric=hd95 p75<=4 n_missed<=2, or p5>=0.70 n>=8."

_EXAMPLE = 'Write, for example, pathology="spina bifida" label=cerebellum p5>=0.70.'


#: The numbers of cases and of patients in a row of the strata frame.
STRATA_COUNTS = (COUNTS[0], "n_patients", *COUNTS[1:])

#: The numbers of cases and of trainings in a row of a comparison.
COMPARISON_COUNTS = (
    *(
        "n",
        "n_patients",
        "n_undefined",
        "n_left_out",
        "n_worst_baseline",
        "n_worst_method",
        "wins",
        "ties",
        "losses",
    ),
    *("n_trainings_baseline", "n_trainings_method"),
)

#: What a difference has to be asked for with: each end of its 95 % interval holds in so many per
#: cent.
CONFIDENCE_OF_DIFFERENCES = 97.5


@dataclass(frozen=True)
class Subject:
    """What requirements can be about.

    Columns of a table, some of them counts, and what they can name besides.
    """

    file: str
    counts: tuple[str, ...]
    statistics: tuple[str, ...]
    names: tuple[str, ...]
    choices: str


#: Requirements of `nnunet-dro evaluate`.
STRATA = Subject(
    "strata.csv",
    STRATA_COUNTS,
    (*STRATA_COUNTS, "failure_high", *STATISTICS, *INTERVALS),
    ("label", "metric"),
    f"{', '.join((*STRATA_COUNTS, 'failure_high', *STATISTICS))}, or one of them with _low or _high",
)

_OF_COMPARISON = ("baseline", "method", "difference", "difference_low", "difference_high")

#: Requirements of `nnunet-dro compare`.
COMPARISON = Subject(
    "comparison.csv",
    COMPARISON_COUNTS,
    (
        *COMPARISON_COUNTS,
        *(
            f"{s}_{of}"
            for s in STATISTICS
            for of in (*_OF_COMPARISON, "difference_lowest", "difference_highest")
        ),
        *("wilcoxon_p", "holm_p"),
    ),
    ("label", "metric", "method"),
    f"{', '.join(COMPARISON_COUNTS)}, wilcoxon_p, holm_p, or one of {', '.join(STATISTICS)} with one of "
    f"{', '.join(f'_{of}' for of in _OF_COMPARISON)}",
)


@dataclass(frozen=True)
class Requirement:
    """A bound that a statistic has to meet."""

    text: str  # as written
    statistic: str  # a column of the strata frame: ``p5``, ``p5_low``, ``mean_high``, ``n``
    comparison: str  # ``>=``, ``>``, ``<=`` or ``<``
    bound: Bound  # a fraction, mm or number of cases, perhaps with a unit: ``0.70``, ``70%``, ``-0.5pt``
    #: Such as ``pathology`` or ``centre,pathology``. None stands for every attribute.
    attribute: str | None = None
    stratum: str | None = None  # a stratum of that attribute; None for each of them (``*``)
    label: str | None = None  # a label; None for each of them (``*``)
    metric: str | None = None  # a metric; None for Dice, or for the only metric
    #: The most missed and invented labels, by kind (``missed``, ``invented``), that the requirement
    #: names beside its condition. Of a kind that it does not name, none may be left out of the
    #: statistic.
    allowed: tuple[tuple[str, int], ...] = ()
    #: The least numbers (of ``n``, the cases with a value, or of ``n_patients``) that it names
    #: beside its condition. That many are enough for any statistic.
    least: tuple[tuple[str, int], ...] = ()
    #: The confidence in per cent with which a percentile, or a difference, has to meet the bound;
    #: None for that of the cases as it is.
    confidence: float | None = None
    #: In a comparison, the method that is compared with the baseline; None for each of them
    #: (``*``).
    method: str | None = None

    @property
    def end(self) -> str:
        """The end of an interval that has to meet the bound: ``low`` or ``high``."""
        return "low" if self.comparison.startswith(">") else "high"

    @property
    def column(self) -> str:
        """The column of the table that is compared."""
        if self.confidence is None:
            return self.statistic
        if self.statistic.endswith("_difference"):
            return f"{self.statistic}_{self.end}"
        return confidence_column(self.statistic, self.end, self.confidence)

    def holds_for(self, value: float) -> bool:
        """Whether a value meets the bound; NaN does not."""
        return bool(COMPARE[self.comparison](value, self.bound.value))


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
            holds spaces. Without a label every label has to pass; without an attribute every
            stratum of every attribute has to, and all cases together.
        subject: `STRATA`, or `COMPARISON` for the differences of methods; then also
            ``method=NAME``, and confidence is that of an end of the 95 % interval of a difference,
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
    conditions, selected = _parts(text, subject)
    condition, allowed, least = _sorted_conditions(conditions, text, subject)
    statistic, comparison, right = condition.groups()
    written, at, percent = right.partition("@")
    if statistic not in subject.statistics:
        cure = f"Choose from: {subject.choices}."
        raise refusal(f"be about a statistic of {subject.file}, not {statistic!r}", text, cure)
    if allowed and subject is COMPARISON:
        cure = "Failures of one method count as the worst there."
        raise refusal("allow no missed or invented labels in a comparison", text, cure)
    if (bound := parse_bound(written)) is None:
        raise refusal(
            f"compare with a number, not {written!r}",
            text,
            "Write 0.70, 70%, 4mm, 5ml, or points: -0.5pt.",
        )
    if bound.unit and (
        statistic in subject.counts or (bound.unit != "%" and statistic.endswith("_p"))
    ):
        raise refusal(
            f"compare {statistic} with a plain number, not {written!r}",
            text,
            f"Write {bound.number}.",
        )
    confidence = _confidence(statistic, percent, text) if at else None
    attribute, stratum = selected.pop("attribute", (None, None))
    named = {kind: value for kind, (_, value) in selected.items()} | {"stratum": stratum}
    requirement = Requirement(
        text=text.strip(),
        statistic=statistic,
        comparison=comparison,
        bound=bound,
        attribute=attribute,
        allowed=allowed,
        least=least,
        confidence=confidence,
        **{
            kind: None if name == "*" and kind != "metric" else name for kind, name in named.items()
        },
    )
    if _NEVER_BOUNDED.fullmatch(requirement.column):
        what = f"be about a bound that exists, not {requirement.column!r}"
        raise refusal(
            what,
            text,
            "Means and percentiles have bounds: ask for p5 or p75, or for the number itself.",
        )
    return requirement


def _parts(text: str, subject: Subject) -> tuple[list[re.Match[str]], dict[str, tuple[str, str]]]:
    """The conditions, and what is named.

    ``attribute`` and the names of the subject to the name and its value.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise refusal("have a closing quote for every quote", text) from error
    conditions: list[re.Match[str]] = []
    selected: dict[str, tuple[str, str]] = {}
    for word in _joined(words):
        name, equals, value = word.partition("=")
        if condition := _CONDITION.fullmatch(word):
            conditions.append(condition)
        elif not equals or not name or not value:
            raise refusal(f"consist of NAME=VALUE and a condition, not {word!r}", text)
        else:
            kind = name if name in subject.names else "attribute"
            if kind in selected:
                cure = "Write centre,pathology=A,tumour for an intersection, and one requirement for each of several."
                raise refusal(f"name one {kind} at most", text, cure)
            selected[kind] = (name, value)
    return conditions, selected


def _confidence(statistic: str, percent: str, text: str) -> float:
    if statistic.endswith("_difference"):
        if not _PERCENT.fullmatch(percent) or float(percent) != CONFIDENCE_OF_DIFFERENCES:
            cure = "Differences have 95 % intervals, and each end holds with 97.5 %: write mean_difference>=0@97.5."
            raise refusal(
                f"have a confidence of 97.5 per cent in a difference, not {percent!r}", text, cure
            )
        return CONFIDENCE_OF_DIFFERENCES
    if statistic not in PERCENTILES:
        cure = f"Only these have an exact bound: {', '.join(PERCENTILES)}."
        raise refusal(f"ask for confidence in a percentile, not in {statistic!r}", text, cure)
    if not _PERCENT.fullmatch(percent) or not 50 <= float(percent) < 100:
        raise refusal(
            f"have a confidence from 50 to below 100 per cent, not {percent!r}",
            text,
            "Write p5>=0.70@95.",
        )
    return float(percent)


def _sorted_conditions(
    conditions: list[re.Match[str]], text: str, subject: Subject
) -> tuple[re.Match[str], tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]:
    """The condition, and beside it the most labels of each kind that may be missed or invented, and the least cases."""
    sides = {("n_" + kind, "<="): kind for kind in KINDS}
    sides |= {(name, ">="): name for name in ("n", "n_patients") if name in subject.counts}
    limits = {c: sides[c[1], c[2]] for c in conditions if (c[1], c[2]) in sides}
    main = [c for c in conditions if c not in limits] or list(limits)[:1]
    if len(main) != 1:
        raise refusal("have one condition on a statistic", text)
    beside = [c for c in limits if c is not main[0]]
    if len({limits[c] for c in beside}) < len(beside) or not all(
        re.fullmatch(r"\d+", c[3], re.ASCII) for c in beside
    ):
        raise refusal(
            f"name a number of cases, once for each of {', '.join(name for name, _ in sides)}",
            text,
            _BESIDE,
        )
    numbers = {limits[c]: int(c[3]) for c in beside}
    allowed = tuple((name, number) for name, number in numbers.items() if name in KINDS)
    return (
        main[0],
        allowed,
        tuple((name, number) for name, number in numbers.items() if name not in KINDS),
    )


def _joined(words: list[str]) -> list[str]:
    """The words, with a condition such as ``p5 >= 70 %`` joined into one."""
    joined: list[str] = []
    for word in words:
        opened = joined and re.fullmatch(r"\w+(>=|<=|>|<)", joined[-1])
        continued = joined and re.fullmatch(r"\w+", joined[-1]) and re.match(r"[<>]", word)
        unit = (
            joined
            and re.fullmatch(r"(%|pt|mm|ml)(@.*)?", word)
            and re.fullmatch(r"\w+[<>]=?[^@%]*\d", joined[-1])
        )
        if opened or continued or unit:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def refusal(rule: str, text: str, cure: str = _EXAMPLE) -> ValueError:
    """The error of a requirement that does not follow a rule."""
    return ValueError(f"`requirement` must {rule}, got {text.strip()!r}. {cure}")


def read_requirements(path: Path, subject: Subject = STRATA) -> list[Requirement]:
    """Read a file of requirements."""
    requirements: list[Requirement] = []
    for number, text in requirement_lines(path):
        try:
            requirements.append(parse_requirement(text, subject))
        except ValueError as error:
            raise ValueError(f"Line {number} of {str(path)!r}: {error}") from error
    if not requirements:
        raise ValueError(
            f"`requirements` must hold at least one requirement, got none in {str(path)!r}. {_EXAMPLE}"
        )
    return requirements


def requirement_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file of requirements that are neither blank nor comments, with their numbers."""
    if not path.is_file():
        cure = "Write one with a requirement per line."
        raise FileNotFoundError(
            f"`requirements` must be a text file, got {str(path)!r}, which does not exist. {cure}"
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`requirements` must be a text file, got {str(path)!r}. Save it as UTF-8."
        ) from error
    for number, line in enumerate(lines, 1):
        before = _BEFORE_COMMENT.match(line)
        end = before.end() if before else 0
        # A line that stops at neither a comment nor its end has an open quote, which parsing
        # refuses.
        text = line[:end] if line[end : end + 1] == "#" else line
        if text.strip():
            yield number, text


def one_sided_of(requirements: Sequence[Requirement]) -> list[tuple[str, str, float]]:
    """The one-sided bounds that requirements are about, each once.

    Statistic, end and confidence in per cent.
    """
    bounds = ((r.statistic, r.end, r.confidence) for r in requirements)
    return list(dict.fromkeys((s, end, c) for s, end, c in bounds if c is not None))
