"""The words of reports: what findings, verdicts and notes are said in, each in one template.

Code makes values; `say` turns them into text that terminal, Markdown, LaTeX and pages print alike,
and that nothing edits afterwards.
"""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment

from nnunet_dro.evaluation.report import formatting
from nnunet_dro.evaluation.statistics.columns import STATISTICS, counted_units, enough_cases
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count, name_some, share
from nnunet_dro.pages.document import Note
from nnunet_dro.pages.html import page_environment

_ASSETS = Path(__file__).parent / "assets"


@cache
def plain_text() -> Environment:
    """The templates of reports that are no HTML, in which nothing is escaped by itself."""
    environment = page_environment(_ASSETS).overlay(autoescape=False)
    environment.globals = {
        **environment.globals,
        "STATISTICS": STATISTICS,
        "count": count,
        "counted_units": counted_units,
        "enough_cases": enough_cases,
        "fmt": formatting,
        "name_some": name_some,
        "share": share,
    }
    return environment


def say(name: str, *values: object, **named: object) -> str:
    """What the macro ``name`` of ``words.jinja`` says of some values, on one line."""
    words: Any = plain_text().get_template("words.jinja").module
    text = getattr(words, name)(*values, **named)
    return " ".join(str(text).split())


def finding_of(attribute: str, title: str, text: str, **described: str) -> Note:
    """A finding in strata of an attribute, which needs no name where there is only one stratum."""
    where = ""
    if attribute != ALL:
        where = formatting.attribute_title(attribute)
    return Note(text, "finding", title, where=where, **described)
