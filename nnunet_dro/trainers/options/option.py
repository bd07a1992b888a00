"""An option in a trainer's name, and the usual ways to write one."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

#: Pattern of a number as names write it, see `number`.
NUMBER = r"(\d+\.?\d*|\.\d+)"


@dataclass(frozen=True)
class Option:
    """An option in a trainer's name.

    The command line, the documentation and errors take their texts from here.
    """

    field: str  # the field of the trainer's options that it sets
    form: str  # how it is written, for users
    pattern: re.Pattern[str]  # how it is written, for the parser, which passes the groups to `read`
    read: Callable[..., Any]  # turns the groups into a value
    #: Turns a value into the text of the option; '' if another option of the same field writes this
    #: value.
    write: Callable[[Any], str]
    help: str  # what it does: one or two sentences that stand alone
    source: str = ""  # short reference; '' if it is from nnU-Net or this package

    def default_in(self, kind: type) -> str:
        """The default in a class of options as names would write it, ``on`` or ``off``."""
        defaults = {field.name: field.default for field in fields(kind)}
        value = defaults[self.field]
        written = "" if value is None else self.write(value)
        if not written:
            return "off"
        if "<" not in self.form:
            return "on"

        before, after = re.split("<.*>", self.form)
        return written.removeprefix(before).removesuffix(after)

    @property
    def word(self) -> str:
        """The part that does not depend on the value.

        ``beta`` of ``beta<x>``, ``epochs`` of ``<n>epochs``.
        """
        return re.sub("<.*>", "", self.form)


def _number(value: float) -> str:
    """A number as names write it: digits and a point, without an exponent."""
    return np.format_float_positional(value, trim="-")


def number_option(
    form: str, help: str, *, field: str = "", source: str = "", read: type[float] = float
) -> Option:
    """An option with a number, or with several, between words.

    Its field is the first word, if it is not named. ``read`` is ``int`` for whole numbers.
    """
    words = re.split("<[^>]*>", form)
    n_numbers = len(words) - 1
    pattern = r"(\d+)" if read is int else NUMBER
    text_of: Callable[[Any], str] = str if read is int else _number

    def read_all(*numbers: str) -> tuple[float, ...]:
        return tuple(map(read, numbers))

    def write(value: Any) -> str:
        numbers = value if n_numbers > 1 else (value,)
        texts = map(text_of, numbers)
        return "".join(word + text for word, text in zip(words, [*texts, ""], strict=True))

    reader: Callable[..., Any] = read_all if n_numbers > 1 else read
    return Option(
        field=field or words[0],
        form=form,
        pattern=re.compile(pattern.join(words)),
        read=reader,
        write=write,
        help=help,
        source=source,
    )


def switch(
    word: str,
    help: str,
    *,
    field: str = "",
    value: Any = True,
    source: str = "",
) -> Option:
    """An option without a number, which sets its field to ``value``."""

    def read() -> Any:
        return value

    def write(other: Any) -> str:
        return word if other == value else ""

    return Option(
        field=field or word,
        form=word,
        pattern=re.compile(word),
        read=read,
        write=write,
        help=help,
        source=source,
    )
