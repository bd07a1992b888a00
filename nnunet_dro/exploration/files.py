"""The files of an exploration: the table, a summary and the page."""

import json
import math
from dataclasses import asdict
from typing import Any

from nnunet_dro.exploration.exploration import Exploration
from nnunet_dro.exploration.page import exploration_html
from nnunet_dro.exploration.words import findings, heading

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro exploration 1"


def exploration_files(exploration: Exploration) -> dict[str, str]:
    """The files by name.

    Args:
        exploration: The exploration.

    Returns:
        ``explore.csv`` with a row per combination that was tested, ``summary.json`` and ``report.html``.
    """
    table = exploration.table.copy()
    table.insert(1, "metric", exploration.metric)
    rows = [{str(name): _or_none(value) for name, value in row.items()} for row in table.to_dict("records")]
    summary = {
        "format": FORMAT,
        "method": exploration.method,
        "found": heading(exploration),
        "findings": findings(exploration),
        "n_combinations": exploration.n_combinations,
        "n_cases": exploration.n_cases,
        "n_patients": exploration.n_patients,
        "n_searched": exploration.n_searched,
        "power": asdict(exploration.power),
        "attributes": {name: dict(strata) for name, strata in exploration.attributes.items()},
        **exploration.about,
        "notes": list(exploration.notes),
        "combinations": rows,
    }
    return {
        "explore.csv": table.to_csv(index=False, float_format="%.10g", lineterminator="\n"),
        "summary.json": json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "report.html": exploration_html(exploration),
    }


def _or_none(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
