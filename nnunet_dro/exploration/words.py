"""What readers are told of an exploration; see words.jinja."""

from collections.abc import Mapping
from itertools import starmap
from pathlib import Path
from typing import Any

from nnunet_dro.evaluation.report.formatting import p_value, quantity
from nnunet_dro.naming import group_name
from nnunet_dro.pages.words import Words


def parts_of(row: Mapping[Any, Any]) -> list[tuple[str, str]]:
    """Attribute and stratum of each part of a combination."""
    parts = []
    for number_of_part in (1, 2, 3):
        attribute = row.get(f"attribute_{number_of_part}")
        if attribute:
            stratum = row[f"stratum_{number_of_part}"]
            parts.append((str(attribute), str(stratum)))
    return parts


def title(row: Mapping[Any, Any]) -> str:
    """The name of a combination: ``centre=A × scanner=B``."""
    return " × ".join(starmap(group_name, parts_of(row)))


#: Says values: the name of a macro, and what it is about.
WORDS = Words(
    Path(__file__).parent / "assets" / "words.jinja",
    {
        "p_value": p_value,
        "quantity": quantity,
        "title": title,
    },
)
