"""Numbers in the documentation that come from a committed table, and the comments that say from where.

A comment follows the numbers that it proves, in the same paragraph, list item or table row:

    the Dice is 73 and 79 <!-- nuclei.csv mean: iteration=400, method=share0.5, stratum=purple/purple_white -->

It names a table in docs/results, a column, and the rows; values with ``/`` between them are taken in that order, and
``;`` separates several columns and rows. ``100*mean`` is in per cent, ``- plain#1`` the first number of a text such as
"+9.3 [+1.6, +17.0]", and ``by seed`` all of "3.9, 4.1". A comment proves as many of the numbers before it as it names.
"""

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

RESULTS = Path(__file__).parents[2] / "docs" / "results"

_COMMENT = re.compile(r"<!-- ([\w-]+\.csv\s.*?) -->", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?!\w)")
_NO_NUMBERS = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->|<[^>]*>", re.DOTALL)


@dataclass(frozen=True)
class Claim:
    """Numbers on a page and the comment after them.

    Attributes:
        shown: The numbers as they are written, the nearest to the comment last; fewer than values if there are fewer.
        values: What the table says.
        source: The text of the comment.
    """

    shown: tuple[str, ...]
    values: tuple[float, ...]
    source: str

    def wrong(self) -> str:
        """What is wrong, or nothing."""
        if len(self.shown) < len(self.values):
            return f"{len(self.values)} numbers are proved, {self.shown} are before: {self.source}"
        pairs = list(zip(self.shown, self.values, strict=True))
        if all(is_rounded(shown, value) for shown, value in pairs):
            return ""
        return f"the page has {', '.join(self.shown)}, the table {self.values}: {self.source}"


def is_rounded(shown: str, value: float) -> bool:
    """Whether a number is a value rounded to the digits that are shown; without a sign it may be a loss or a gain."""
    number = shown.replace(",", "")
    digits, _, power = number.partition("e")
    unit = 10.0 ** (-len(digits.partition(".")[2]) + int(power or 0))
    if shown[0] not in "+-":
        value = abs(value)
    return abs(float(number) - value) <= 0.5 * unit * (1 + 1e-6)


def blocks_of(text: str) -> list[str]:
    """The paragraphs, list items and table rows of a page, without code blocks and headings.

    A paragraph with several bold beginnings, as ``**When.** ... **Cost.** ...``, is several blocks.
    """
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    blocks: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        # The number of a list item is none of its text.
        paragraph = re.sub(r"^(\s*)\d+\.\s", r"\1- ", paragraph, flags=re.MULTILINE)
        blocks += re.split(r"\n(?=\s*(?:[-*|#]|\d+\.)\s)|(?<=\s)(?=\*\*\w+\.\*\*)", paragraph)
    return [block for block in blocks if block.strip() and not block.startswith("#")]


def claims_in(block: str) -> list[Claim]:
    """The claims of a block, each with the numbers since the one before."""
    found, start = [], 0
    for comment in _COMMENT.finditer(block):
        values = tuple(value for query in comment[1].split(";") for value in _values(query, comment[1]))
        shown = _NUMBER.findall(_NO_NUMBERS.sub(" ", block[start : comment.start()]))
        found.append(Claim(tuple(shown[-len(values) :]), values, " ".join(comment[1].split())))
        start = comment.end()
    return found


def unclaimed(block: str, settings: tuple[str, ...] = ()) -> list[str]:
    """The numbers of a block that no comment proves, without those in phrases that name settings."""
    left, start = [], 0
    for comment in [*_COMMENT.finditer(block), None]:
        end = len(block) if comment is None else comment.start()
        text = " ".join(_NO_NUMBERS.sub(" ", block[start:end]).split())
        n_proved = 0
        if comment is not None:
            n_proved = sum(len(_values(query, comment[1])) for query in comment[1].split(";"))
            start = comment.end()
        proved = {match.span() for match in list(_NUMBER.finditer(text))[-n_proved:]} if n_proved else set()
        named = [match.span() for phrase in settings for match in re.finditer(re.escape(phrase), text)]
        left += [
            match[0]
            for match in _NUMBER.finditer(text)
            if match.span() not in proved and not any(a <= match.start() and match.end() <= b for a, b in named)
        ]
    return left


def _values(query: str, whole: str) -> list[float]:
    """The values that one query names: ``table.csv column: name=value, name=a|b``; the table of the first one holds."""
    head, _, conditions = " ".join(query.split()).partition(": ")
    name, _, column = head.partition(" ") if ".csv" in head.split(" ")[0] else (whole.split()[0], "", head)
    table = pd.read_csv(RESULTS / name, dtype=str)
    pairs = [condition.split("=", 1) for condition in re.split(r", (?=[^,=]+=)", conditions) if condition]
    values: list[float] = []
    for chosen in product(*(of.split("/") for _, of in pairs)):
        rows = table
        for (key, _), value in zip(pairs, chosen, strict=True):
            rows = rows[rows[key] == value]
        if len(rows) != 1:
            raise ValueError(f"{name} has {len(rows)} rows with {conditions} ({chosen})")
        values += _numbers(rows.iloc[0], column)
    return values


def _numbers(row: "pd.Series[str]", column: str) -> list[float]:
    factor, star, rest = column.partition("*")
    name, mark, place = (rest if star else column).partition("#")
    numbers = [float(number.replace(",", "")) for number in re.findall(r"[-+]?\d[\d.]*(?:e[-+]?\d+)?", str(row[name]))]
    numbers = [numbers[int(place) - 1]] if mark else numbers
    return [number * (float(factor) if star else 1.0) for number in numbers]
