"""Writes the tables of docs and CONTRIBUTING.md that say what the package says.

    python docs/option_tables.py            write them into the pages
    python docs/option_tables.py --check    change nothing; exit with 1 if a page differs

Each name links to the section of the page that explains it, so an option without a section is an
error.
"""

import argparse
import ast
import re
import sys
from pathlib import Path

import nnunet_dro
from nnunet_dro.trainers.log.epoch_table import COLUMNS
from nnunet_dro.trainers.options import OPTIONS, GroupOptions
from nnunet_dro.trainers.overview import default_of, trainers_with
from nnunet_dro.trainers.registry import TRAINERS

FOLDER = Path(__file__).parent
PACKAGE = Path(nnunet_dro.__file__).parent


def main() -> int:
    """Entry point; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="Change nothing; exit with 1 if a page differs."
    )
    check = parser.parse_args().check
    differs = False
    for name, (file, _) in TABLES.items():
        path = FOLDER / file
        page = path.read_text(encoding="utf-8")
        new = with_table(page, name)
        if new == page:
            continue
        differs = True
        if check:
            print(
                f"{path} differs from the package. Run: python {Path(__file__).name}",
                file=sys.stderr,
            )
        else:
            path.write_text(new, encoding="utf-8")
    return int(check and differs)


def with_table(page: str, name: str) -> str:
    """The page with its table made anew.

    Args:
        page: Text in which the table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME
            -->``.
        name: A key of `TABLES`.

    Returns:
        The same text with the table of the package in it.

    Raises:
        ValueError: If the page lacks the place of the table, or a section for a trainer or an
            option.
    """
    begin = f"<!-- begin {name} -->\n"
    end = f"<!-- end {name} -->"
    if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
        raise ValueError(
            f"`page` must have {begin.strip()} and {end} once each, in this order. Add them."
        )
    before, rest = page.split(begin)
    return before + begin + TABLES[name][1](page) + end + rest.split(end)[1]


def trainers_table(page: str) -> str:
    """A row for each trainer: its name, linked to its section of the page, and what it does."""
    rows = [("`-tr`", "what it is")]
    for name, cls in TRAINERS.items():
        column = "_<column>" if isinstance(cls.options, GroupOptions) else ""
        rows.append((_linked(name + column, page), (cls.__doc__ or "").strip().splitlines()[0]))
    return _table(rows)


def options_table(page: str) -> str:
    """A row for each option, in the order of names, linked to its section of the page."""
    rows = [("option", "meaning", "default", "trainers", "source")]
    rows += [
        (
            _linked(option.form, page),
            _escaped(option.help),
            default_of(option),
            trainers_with(option),
            option.source,
        )
        for option in OPTIONS
    ]
    return _table(rows)


def columns_table(page: str) -> str:
    """A row for each column of training.csv that every training has."""
    rows = [("column", "meaning")]
    for name, meaning in COLUMNS.items():
        rows.append((f"`{name}`", meaning))
    return _table(rows)


def rooms_table(page: str) -> str:
    """A row for each folder and module: what the first sentence of its docstring says."""
    rows = [("folder or module", "what is in it")]
    folders = {path.parent.name: path for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem: path for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
    for name, path in sorted({**folders, **modules}.items()):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        rows.append((f"`{name}`", " ".join(text.split("\n\n")[0].split())))
    return _table(rows)


def _linked(name: str, page: str) -> str:
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    section = next((heading for heading in headings if f"`{name}`" in heading), None)
    if section is None:
        raise ValueError(
            f"`page` must explain {name!r}, got no heading with `{name}`. Write a section."
        )
    anchor = re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-")
    return f"[`{name}`](#{anchor})"


def _escaped(text: str) -> str:
    return re.sub(r"([*_|<>])", r"\\\1", text)


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body, ""])


TABLES = {
    "trainers": ("trainers.md", trainers_table),
    "options": ("options.md", options_table),
    "columns": ("training.md", columns_table),
    "rooms": ("../CONTRIBUTING.md", rooms_table),
}

if __name__ == "__main__":
    sys.exit(main())
