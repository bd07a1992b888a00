"""The files of a ranking: tables, a summary, markdown and the page."""

import json
import math
from typing import Any

import pandas as pd

from nnunet_dro.ranking.page import ranking_html
from nnunet_dro.ranking.ranking import Ranking
from nnunet_dro.ranking.tables import ranking_markdown

#: The name of the format of summary.json; its number changes with the format.
FORMAT = "nnunet-dro ranking 1"


def ranking_files(ranking: Ranking) -> dict[str, str]:
    """The content of each file by its name; ``cases.csv`` only where the ranking has cases."""
    tables = {
        "ranks": ranking.ranks,
        "agreement": ranking.agreement,
        "bootstrap": ranking.bootstrap,
        "kendall_tau": ranking.taus,
        "tests": ranking.tests,
    }
    if ranking.cases is not None:
        tables["cases"] = ranking.cases
    overall = ranking.ranks[(ranking.ranks["kind"] == "all") & (ranking.ranks["scheme"] == ranking.scheme.value)]
    summary = {
        "format": FORMAT,
        "teams": list(ranking.teams),
        "n_cases": ranking.n_cases,
        "n_patients": ranking.n_units,
        "strata": {attribute: dict(strata) for attribute, strata in ranking.strata.items()},
        "about": ranking.about,
        "notes": list(ranking.notes),
        "ranking": _records(overall[["metric", "label", "team", "score", "rank"]]),
        **{name: _records(tables[name]) for name in ("agreement", "bootstrap", "kendall_tau")},
    }
    return {
        **{f"{name}.csv": _csv(table) for name, table in tables.items()},
        "summary.json": json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "report.md": ranking_markdown(ranking),
        "report.html": ranking_html(ranking),
    }


def _csv(table: pd.DataFrame) -> str:
    # An attribute of the cases may be called like a rank.
    numbers = table.select_dtypes("number")
    ranks = {str(name): numbers[name].astype("Int64") for name in numbers if str(name).startswith("rank")}
    return table.assign(**ranks).to_csv(index=False, float_format="%.10g", lineterminator="\n")


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as dictionaries, with None for NaN: JSON has no NaN."""
    rows = table.to_dict(orient="records")
    return [{str(k): None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows]
