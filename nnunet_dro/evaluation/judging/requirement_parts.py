"""The text of a requirement, cut into conditions and names."""

import re
import shlex
from collections.abc import Collection
from typing import NamedTuple

from nnunet_dro.bad_input import InputError
from nnunet_dro.evaluation.scoring.failures import KINDS

EXAMPLE = 'Write, for example, pathology="spina bifida" label=cerebellum p5>=0.70.'

_CONDITION = re.compile(r"(\w+)(>=|<=|>|<)(.*)", re.DOTALL)

# What the words of a condition with spaces in it look like: ``p5 >= 70 %``.
_STATISTIC = re.compile(r"\w+")
_STATISTIC_COMPARED = re.compile(r"\w+(>=|<=|>|<)")
_COMPARED_WITH_NUMBER = re.compile(r"\w+[<>]=?[^@%]*\d")
_UNIT = re.compile(r"(%|pt|mm|ml)(@.*)?")


#: Numbers of cases by what they are of.
Numbers = tuple[tuple[str, int], ...]


class Condition(NamedTuple):
    """A comparison as it is written, such as ``p5``, ``>=`` and ``0.70@95``."""

    statistic: str
    comparison: str
    right: str


def refusal(rule: str, text: str, cure: str = EXAMPLE) -> ValueError:
    """The error of a requirement that does not follow a rule."""
    return InputError("requirement", must=rule, got=repr(text.strip()), cure=cure)


def cut(text: str, *, kinds: Collection[str]) -> tuple[list[Condition], dict[str, str | None]]:
    """Cut the text of a requirement into its conditions and what it names.

    The names are ``kinds``, such as ``label`` and ``metric``, and whatever else is named is an
    ``attribute`` with its ``stratum``. None stands for each of them (``*``); only a metric is meant
    by its name.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise refusal("have a closing quote for every quote", text) from error

    conditions: list[Condition] = []
    names: dict[str, str | None] = {}
    for word in _joined(words):
        if condition := _CONDITION.fullmatch(word):
            conditions.append(Condition(*condition.groups()))
            continue

        name, _, value = word.partition("=")
        if not name or not value:
            raise refusal(f"consist of NAME=VALUE and a condition, not {word!r}", text)

        kind = name if name in kinds else "attribute"
        if kind in names:
            raise refusal(
                f"name one {kind} at most",
                text,
                "Write centre,pathology=A,tumour for an intersection, and one requirement for each "
                "of several.",
            )
        meant = None if value == "*" and kind != "metric" else value
        if kind == "attribute":
            names["attribute"] = name
            names["stratum"] = meant
        else:
            names[kind] = meant

    return conditions, names


def _joined(words: list[str]) -> list[str]:
    """The words, with a condition such as ``p5 >= 70 %`` joined into one."""
    joined: list[str] = []
    for word in words:
        last = joined[-1] if joined else ""
        lacks_number = _STATISTIC_COMPARED.fullmatch(last)
        lacks_comparison = _STATISTIC.fullmatch(last) and word.startswith(("<", ">"))
        lacks_unit = _COMPARED_WITH_NUMBER.fullmatch(last) and _UNIT.fullmatch(word)

        if lacks_number or lacks_comparison or lacks_unit:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


def sort_conditions(
    conditions: list[Condition], text: str, *, counts: Collection[str]
) -> tuple[Condition, Numbers, Numbers]:
    """Tell the condition on a statistic from the numbers of cases that are named beside it.

    Such a number is a condition on a statistic itself where there is no other one.

    Returns:
        The condition, and what is ``allowed`` and the ``least`` numbers; see `Requirement`.
    """
    kind_of_column = {f"n_{kind}": kind for kind in KINDS}
    comparisons = dict.fromkeys(kind_of_column, "<=")
    comparisons |= {column: ">=" for column in ("n", "n_patients") if column in counts}

    main = []
    beside = []
    for condition in conditions:
        if comparisons.get(condition.statistic) == condition.comparison:
            beside.append(condition)
        else:
            main.append(condition)

    if not main:
        main = beside[:1]
        beside = beside[1:]
    if len(main) != 1:
        raise refusal("have one condition on a statistic", text)

    number_of_column = _numbers(beside, comparisons, text)
    allowed = []
    least = []
    for column, number in number_of_column.items():
        if column in kind_of_column:
            allowed.append((kind_of_column[column], number))
        else:
            least.append((column, number))
    return main[0], tuple(allowed), tuple(least)


def _numbers(
    conditions: list[Condition], comparisons: Collection[str], text: str
) -> dict[str, int]:
    """The number of cases that stands beside each column, none of which may stand there twice."""
    number_of_column = {}
    for column, _, right in conditions:
        if column in number_of_column or not re.fullmatch(r"\d+", right, re.ASCII):
            raise refusal(
                f"name a number of cases, once for each of {', '.join(comparisons)}",
                text,
                "Write, for example, metric=hd95 p75<=4 n_missed<=2, or p5>=0.70 n>=8.",
            )
        number_of_column[column] = int(right)
    return number_of_column
