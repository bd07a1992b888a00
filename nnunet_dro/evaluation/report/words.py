"""The words of reports: what findings, verdicts and notes say, each in one macro of words.jinja."""

from pathlib import Path

from nnunet_dro.evaluation.comparing.comparison import notable
from nnunet_dro.evaluation.report import formatting
from nnunet_dro.evaluation.report.statistic_columns import FEW, FOOTNOTES, values_of_few
from nnunet_dro.evaluation.statistics.columns import (
    FEWEST_TO_READ,
    STATISTICS,
    counted_units,
    n_units,
    unit_of,
)
from nnunet_dro.evaluation.stratifying.stratify import ALL
from nnunet_dro.pages.document import Note
from nnunet_dro.pages.words import Words

_WORDS = Words(
    Path(__file__).parent / "assets" / "words.jinja",
    {
        "FEW": FEW,
        "FEWEST_TO_READ": FEWEST_TO_READ,
        "FOOTNOTES": FOOTNOTES,
        "STATISTICS": STATISTICS,
        "counted_units": counted_units,
        "fmt": formatting,
        "n_units": n_units,
        "notable": notable,
        "unit_of": unit_of,
        "values_of_few": values_of_few,
    },
)

#: Says values, by the name of a macro and what it is about: as one text, or each sentence.
say = _WORDS.sentence
sentences = _WORDS.sentences


def finding_of(attribute: str, title: str, text: str, **described: str) -> Note:
    """A finding in strata of an attribute, which needs no name where there is only one stratum."""
    where = ""
    if attribute != ALL:
        where = formatting.attribute_title(attribute)
    return Note(text, "finding", title, where=where, **described)
