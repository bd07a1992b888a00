"""How messages and pages name cases, columns, numbers of things and what to install."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar
from unicodedata import normalize

_Value = TypeVar("_Value")

NO_VALUE = "–"  # stands where there is no number


def name_some(names: Collection[str], *, at_most: int = 5, between: str = ", ") -> str:
    """List the first few names, and say how many more there are: ``a, b and 1 more``."""
    first_names = between.join(list(names)[:at_most]) or "none"
    n_more = len(names) - at_most
    if n_more > 0:
        return f"{first_names} and {n_more} more"
    return first_names


def repeated(names: Iterable[str]) -> list[str]:
    """The names that occur more than once, in the order in which they first occur."""
    return [name for name, n in Counter(names).items() if n > 1]


def spelt_like(values: Mapping[str, _Value], names: Collection[str]) -> dict[str, _Value]:
    r"""Values by their names, which are spelt like those names that differ in Unicode's form alone.

    macOS may write an ü as two characters, where other systems write one. All names stay as they
    are where two would become the same, or it is not clear which is meant.

    Example:
        >>> spelt_like({"Mu\u0308ller": 1, "Bo": 2}, ["M\u00fcller", "Bo"])
        {'Müller': 1, 'Bo': 2}
        >>> len(spelt_like({"Mu\u0308ller": 1, "M\u00fcller": 2}, ["M\u00fcller"]))
        2
    """
    forms = {normalize("NFC", name): name for name in names}
    spelt = {forms.get(normalize("NFC", name), name): value for name, value in values.items()}
    is_clear = len(forms) == len(set(names)) and len(spelt) == len(values)
    return spelt if is_clear else dict(values)


def group_name(column: str, group: str) -> str:
    """The name of the cases with an entry in a column, which no other column and entry have.

    A column whose name has an equals sign is in quotes, as CSV files write them.

    Example:
        >>> group_name("centre", "A"), group_name("a", "b=c"), group_name("a=b", "c")
        ('centre=A', 'a=b=c', '"a=b"=c')
    """
    if "=" in column or '"' in column:
        doubled = column.replace('"', '""')
        column = f'"{doubled}"'
    return f"{column}={group}"


def nearest_names(name: str, names: Collection[str]) -> str:
    """List the names there are, those that look like a wrong one first."""
    near = get_close_matches(name, list(names), n=3)
    others = [other for other in names if other not in near]
    return name_some(near + others, at_most=20)


def extra_cure(extra: str) -> str:
    """How to install what an extra of this package brings, from an index and from a clone."""
    return f'Install it: pip install "nnunet-dro[{extra}]", or in a clone pip install ".[{extra}]".'


def count(n: int, noun: str) -> str:
    """A number of things: ``1 case``, ``1,200 cases``, ``2 strata``, ``2 patches``."""
    if n == 1:
        return f"1 {noun}"
    if noun == "stratum":
        plural = "strata"
    elif noun.endswith("patch"):
        plural = f"{noun}es"
    else:
        plural = f"{noun}s"
    return f"{n:,} {plural}"


def label_words(label: str) -> str:
    """A label in a sentence: ``label 2`` where it has no name but its number."""
    return f"label {label}" if label.isdigit() else label


def share(value: float) -> str:
    """A share in per cent; never 0 or 100 for what is not, and `NO_VALUE` for NaN."""
    percent = 100 * value
    if 0 < percent <= 0.5:
        return "<1 %"
    if 99.5 <= percent < 100:
        return ">99 %"
    return written(value, ".0%")


def written(value: float, form: str) -> str:
    """A number in one of Python's formats, with a minus sign and no sign of zero.

    `NO_VALUE` for NaN.
    """
    if math.isnan(value):
        return NO_VALUE
    text = f"{value:{form}}".replace("%", " %").replace("-", "−")
    is_zero = not text.strip("+−0. %")
    return text.lstrip("+−") if is_zero else text


def plain(name: str) -> str:
    """Text without control characters: a name must not move the cursor."""
    return "".join(character if character.isprintable() else "�" for character in name)
