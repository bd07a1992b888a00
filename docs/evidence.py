"""Numbers of the documentation that come from committed tables, as docs/evidence.toml lists them.

    python docs/evidence.py            write the tables into their pages, and the pictures
    python docs/evidence.py --check    change nothing; exit with 1 if a table or picture is old or a
                                       number wrong

A source names a table in docs/results, a column and the rows: ``nuclei.csv mean: iteration=400,
method=plain/DRO``. Values with ``/`` between them are taken in that order, and ``;`` separates
several columns and rows. ``100*mean`` is in per cent, ``- plain#1`` is the first number of a text
such as "+9.3 [+1.6, +17.0]", ``by seed`` all of "3.9, 4.1", and ``dice<=0.3`` the number of
rows whose Dice is no more than that. ``SOURCE minus SOURCE`` is the mean of the differences of
their values, in pairs, and its 95 % t-interval; with ``of 3`` after it, of the means of three
values each. With four sources it is how far the difference of the first two is above that of the
last two.
"""

import argparse
import csv
import math
import re
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ttest_1samp

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"

_SOURCE = re.compile(r"[\w-]+\.csv\s")
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?(?!\w)")
_NO_PROSE = re.compile(
    r"^```.*?^```|<!-- begin (\w+) -->.*?<!-- end \1 -->|^#.*?$|<!--.*?-->",
    re.DOTALL | re.MULTILINE,
)
_BETWEEN_BLOCKS = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) )|(?=\*\*\w+\.\*\*)")
_WORDS = {
    "True": "yes",
    "False": "no",
    # A difference of 0 in every training is no measurement.
    "+0.0 [+0.0, +0.0]": "the same training",
}
_NO_NUMBERS = re.compile(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", re.DOTALL)


def main() -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="Change nothing; exit with 1 if something is wrong."
    )
    check = parser.parse_args().check
    evidence = listed()
    wrong = []
    for page in dict.fromkeys(table["page"] for table in evidence["table"]):
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        new = with_tables(text, page, evidence)
        if check and new != text:
            wrong.append(f"{page}: a table is old. Run: python docs/evidence.py")
        elif new != text:
            path.write_text(new, encoding="utf-8")
    for picture in evidence["picture"]:
        file = ROOT / picture["file"]
        drawn = numbers_of(picture)
        is_old = numbers_in_picture(file) != drawn.to_json()
        if check and is_old:
            wrong.append(f"{picture['file']}: the picture is old. Run: python docs/evidence.py")
        elif is_old:
            draw(drawn, picture["words"], file)
    for page in evidence["page"]:
        wrong += wrong_in((ROOT / page).read_text(encoding="utf-8"), page, evidence)
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


def listed() -> dict[str, Any]:
    """What docs/evidence.toml lists."""
    return tomllib.loads((ROOT / "docs" / "evidence.toml").read_text(encoding="utf-8"))


def with_tables(text: str, page: str, evidence: dict[str, Any]) -> str:
    """The text of a page with its tables made anew.

    Each stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``.
    """
    for table in evidence["table"]:
        if table["page"] == page:
            begin, end = (f"<!-- {word} {table['name']} -->" for word in ("begin", "end"))
            if (
                text.count(begin) != 1
                or text.count(end) != 1
                or text.index(begin) > text.index(end)
            ):
                raise ValueError(
                    f"{page} must have {begin} and {end} once each, in this order. Add them."
                )
            before, rest = text.split(begin)
            text = f"{before}{begin}\n{made_table(table)}\n{end}{rest.split(end)[1]}"
    return text


def made_table(table: dict[str, Any]) -> str:
    """A table in markdown.

    Its ``cells`` are texts or sources, in which {0}, {1} ... stand for what a row gives.
    """
    rows = [[cell.format(*row) for cell in table["cells"]] for row in table["rows"]]
    columns = zip(*rows, strict=True)
    ruler = ["---:" if any(map(_SOURCE.match, column)) else "---" for column in columns]
    rows = [table["head"], ruler, *([shown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def shown(cell: str) -> str:
    """A text as it is; for a source its numbers, with one decimal or as ``| .0f`` after it says."""
    source, _, form = cell.partition(" | ")
    if not _SOURCE.match(cell):
        return cell
    if " minus " in source:
        difference, low, high = values(source)
        return f"{difference:+.1f} [{low:+.1f}, {high:+.1f}]"
    texts = []
    for text in filter(None, cells(source)):
        if _is_a_number(text):
            texts.append(format(float(text), form or ".1f"))
        else:
            texts.append(_WORDS.get(text, text))
    return ", ".join(texts) or "–"


def numbers_of(picture: dict[str, Any]) -> pd.DataFrame:
    """Difference, interval and share of the draws by panel (``stratum``) and arm (``method``)."""
    rows = []
    for panel, arm in product(picture["panels"], picture["arms"]):
        numbers = [math.nan] * 4
        if arm in panel["methods"]:
            chosen = f"method={panel['methods'][arm]}"
            share = sum(values(f"{panel['share']}, {chosen}"))
            numbers = [*values(f"{panel['difference']}: {chosen}"), share]
        rows.append((panel["title"], arm, *numbers))
    return pd.DataFrame(rows, columns=["stratum", "method", "difference", "low", "high", "share"])


def draw(drawn: pd.DataFrame, words: str, file: Path) -> None:
    """Draw `numbers_of` a picture, a panel for each data and a row for each arm.

    The file has the numbers, too.
    """
    from experiments.curves.figure import draw_intervals

    panels = drawn.groupby("stratum", sort=False)
    figure = draw_intervals(drawn, list(panels.groups), words)
    for axes, (_, rows) in zip(figure.axes, panels, strict=True):
        axes.set_ylim(len(rows) - 0.6, -0.6)
        axes.margins(x=0.12)
        arms = zip(rows["difference"], rows["share"], strict=True)
        for place, (difference, share) in enumerate(arms):
            if not math.isnan(share):
                axes.annotate(
                    f"{share:.0f} %",
                    (difference, place),
                    xytext=(0, 6),
                    textcoords="offset points",
                    ha="center",
                    fontsize=8,
                )
    figure.savefig(file, dpi=150, metadata={"Numbers": drawn.to_json()})


def numbers_in_picture(file: Path) -> str:
    """The numbers that a picture was drawn from; empty if there is no such file."""
    from PIL import Image

    if not file.is_file():
        return ""
    with Image.open(file) as image:
        return str(image.info.get("Numbers", ""))


def wrong_in(text: str, page: str, evidence: dict[str, Any]) -> list[str]:
    """What is wrong with the numbers in the sentences of a page, a line each.

    Every phrase and every one of the ``settings`` must be on the page, and the numbers of a phrase
    those of its source. In paragraphs that link to a page of results, or everywhere with ``whole``,
    no number may stand outside of both.
    """
    about = evidence["page"][page]
    phrases = about.get("phrases", [])
    listed = [phrase for phrase, _ in phrases] + about.get("settings", [])
    blocks = _blocks(text)
    wrong = [
        f"{page}: {phrase!r} is not on the page"
        for phrase in listed
        if not any(phrase in block for block in blocks)
    ]
    for phrase, source in phrases:
        if not proved(phrase, source):
            wrong.append(f"{page}: {phrase!r}, but {values(source)} in {source}")

    # A long phrase may have a short one inside of it.
    listed.sort(key=len, reverse=True)
    for block in blocks:
        if about.get("whole") or "results/" in block:
            rest = re.sub(r"^\d+\. ", "", block)
            for phrase in listed:
                rest = rest.replace(phrase, " ")
            numbers = numbers_in(rest)
            wrong += [f"{page}: nothing proves {number} in {block[:90]!r}" for number in numbers]
    return wrong


def _blocks(text: str) -> list[str]:
    """The paragraphs, items and lines of tables of a page, each on one line; code is left out."""
    prose = _NO_PROSE.sub("\n\n", text)
    return [" ".join(block.split()) for block in _BETWEEN_BLOCKS.split(prose)]


def proved(phrase: str, source: str) -> bool:
    """Whether the numbers of a phrase are those of its source, rounded."""
    numbers = numbers_in(phrase)
    proof = values(source)
    return len(numbers) == len(proof) and all(map(is_rounded, numbers, proof))


def numbers_in(text: str) -> list[str]:
    """The numbers of a text, without those in code and in the targets of links."""
    return _NUMBER.findall(_NO_NUMBERS.sub(" ", text))


def is_rounded(shown: str, value: float) -> bool:
    """Whether a number is a value rounded to the digits that are shown.

    Without a sign it may be a loss or a gain.
    """
    number = shown.replace(",", "")
    digits, _, power = number.partition("e")
    unit = 10.0 ** (-len(digits.partition(".")[2]) + int(power or 0))
    if shown[0] not in "+-":
        value = abs(value)
    return abs(float(number) - value) <= 0.5 * unit * (1 + 1e-6)


def values(source: str) -> list[float]:
    """The numbers that a source names."""
    if " minus " in source:
        source, _, size = source.partition(" of ")
        sides = [np.array(values(side)) for side in source.split(" minus ")]
        left, right, *others = (side.reshape(-1, int(size or 1)).mean(axis=1) for side in sides)
        differences = left - right
        if others:
            differences -= np.subtract(*others)
        interval = ttest_1samp(differences, 0).confidence_interval()
        return [float(differences.mean()), float(interval.low), float(interval.high)]
    numbers = []
    for text in cells(source):
        numbers += re.findall(r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?", text)
    return [float(number.replace(",", "")) for number in numbers]


def cells(source: str) -> list[str]:
    """The cells that a source names, as texts."""
    first, *_ = source.split()
    texts = []
    for query in source.split(";"):
        texts += _cells(query, first)
    return texts


def _cells(query: str, first: str) -> list[str]:
    """The cells of a query, which begins with the name of its table if it is not the ``first``."""
    head, _, conditions = " ".join(query.split()).partition(": ")
    name = first
    column = head
    if _SOURCE.match(head):
        name, column = head.split(" ", 1)
    factor, _, column = column.rpartition("*")
    column, _, place = column.partition("#")
    column, _, limit = column.partition("<=")

    texts = []
    table = _table(RESULTS / name)
    for wanted in _keys(conditions):
        rows = [row for row in table if all(row[key] == wanted[key] for key in wanted)]
        if limit:
            texts.append(str(sum(float(row[column]) <= float(limit) for row in rows)))
            continue
        if len(rows) != 1:
            raise ValueError(f"{name} has {len(rows)} rows with {wanted}, for {query!r}")
        text = rows[0][column]
        if place:
            text = re.findall(r"[-+]?\d[\d.]*", text)[int(place) - 1]
        if factor:
            text = str(float(text) * float(factor))
        texts.append(text)
    return texts


def _keys(conditions: str) -> Iterator[dict[str, str]]:
    """The entries that rows must have: ``a=1/2, b=3`` names two rows."""
    names = []
    choices = []
    for condition in filter(None, re.split(r", (?=[^,=]+=)", conditions)):
        name, allowed = condition.split("=", 1)
        names.append(name)
        choices.append(allowed.split("/"))
    for chosen in product(*choices):
        yield dict(zip(names, chosen, strict=True))


@cache
def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _is_a_number(text: str) -> bool:
    return re.fullmatch(r"[-+]?\d+(\.\d+)?(e[-+]?\d+)?", text) is not None


if __name__ == "__main__":
    sys.exit(main())
