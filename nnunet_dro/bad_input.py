"""What a user gave that is not what it must be: an error is a value, and says itself in one way."""

import math
from pathlib import Path


class InputError(ValueError):
    """An option, or a column of the case table, that is not what it must be.

    Its text is one line, such as "`folds` must be at least 2, got 1. Give more folds."

    Attributes:
        args: The arguments, with which the error goes from one process to another.
    """

    def __init__(self, name: str, must: str, got: object, cure: str = "", kind: str = "") -> None:
        super().__init__(name, must, got, cure, kind)

    def __str__(self) -> str:
        return bad_input(*self.args)


def bad_input(name: str, must: str, got: object, cure: str = "", kind: str = "") -> str:
    """The text of an error about what a user gave.

    Args:
        name: The option, as functions and files call it; commands show its flag.
        must: What it must do, as after "must".
        got: What it is or does instead, as after "got".
        cure: What the user can do, in whole sentences.
        kind: ``column`` where it is a column of the case table, and no option.
    """
    return f"{kind} `{name}` must {must}, got {got}. {cure}".strip()


def check_folder(name: str, path: Path, cure: str, must: str = "be a folder") -> None:
    """Raise `FileNotFoundError` unless there is a folder.

    Args:
        name: The option, as functions and files call it.
        path: The folder.
        cure: What the user can do, in whole sentences.
        must: What the option must do.
    """
    if not path.is_dir():
        what = "is a file" if path.exists() else "does not exist"
        raise FileNotFoundError(bad_input(name, must, f"{str(path)!r}, which {what}", cure))


def check_number(name: str, value: float, interval: str, cure: str = "") -> None:
    """Raise `InputError` unless a number is in an interval.

    Args:
        name: The option, as functions and files call it.
        value: The number; NaN is in no interval.
        interval: Its ends, of which a bracket says that the end belongs to it, and a parenthesis
            that it does not: ``[0, 1)``, or ``(0, inf)`` for all numbers > 0.
        cure: What the user can do, in whole sentences.

    Example:
        >>> check_number("momentum", 0.5, "[0, 1)")
        >>> check_number("momentum", 1.0, "[0, 1)")
        Traceback (most recent call last):
        nnunet_dro.bad_input.InputError: `momentum` must be a number in [0, 1), got 1.0.
    """
    low, high = map(float, interval[1:-1].split(", "))
    has_low = interval.startswith("[")
    is_above = value > low or (has_low and value == low)
    is_below = value < high or (interval.endswith("]") and value == high)
    if is_above and is_below:
        return

    rule = f"in {interval}"
    if high == math.inf:
        rule = f">= {low:g}" if has_low else f"> {low:g}"
    raise InputError(name, f"be a number {rule}", repr(value), cure)
