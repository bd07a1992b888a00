"""The words of reports: what findings, verdicts and notes say, each in one macro of words.jinja."""

from pathlib import Path

from nnunet_dro.evaluation.report import formatting
from nnunet_dro.evaluation.statistics.columns import STATISTICS, counted_units
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.naming import count, name_some, share
from nnunet_dro.pages.document import Note
from nnunet_dro.pages.words import Words

#: Says values: the name of a macro, and what it is about.
say = Words(
    Path(__file__).parent / "assets" / "words.jinja",
    {
        "STATISTICS": STATISTICS,
        "count": count,
        "counted_units": counted_units,
        "fmt": formatting,
        "name_some": name_some,
        "share": share,
    },
).sentence


def finding_of(attribute: str, title: str, text: str, **described: str) -> Note:
    """A finding in strata of an attribute, which needs no name where there is only one stratum."""
    where = ""
    if attribute != ALL:
        where = formatting.attribute_title(attribute)
    return Note(text, "finding", title, where=where, **described)
