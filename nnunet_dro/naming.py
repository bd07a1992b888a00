"""How messages name cases and columns."""

from collections import Counter
from collections.abc import Collection, Iterable


def name_some(names: Collection[str], *, at_most: int = 5) -> str:
    """The first few names, and how many more there are.

    Args:
        names: What to name, in the order to name it.
        at_most: How many to write out.

    Returns:
        Text such as ``a, b and 3 more``; ``none`` if there are no names.
    """
    shown = ", ".join(list(names)[:at_most]) or "none"
    return shown if len(names) <= at_most else f"{shown} and {len(names) - at_most} more"


def repeated(names: Iterable[str]) -> list[str]:
    """The names that are there more than once, in the order of their first."""
    return [name for name, n in Counter(names).items() if n > 1]
